"""The engine's attach connection: two outputs in one stream, taken apart; input and its end."""

from __future__ import annotations

import socket
import struct
import threading
from typing import Any

import pytest

from lab.runtimes.docker_streams import DockerStreams


def packed(kind: int, body: bytes) -> bytes:
    """One piece of output as the engine sends it."""
    return struct.pack(">BxxxI", kind, len(body)) + body


class FakeApi:
    """An engine of which only one connection is known. `wrapped` is how the SDK hands it out on some transports."""

    def __init__(self, wrapped: bool = True) -> None:
        self.engine, self._own = socket.socketpair()
        self.engine.settimeout(10)
        self._wrapped = wrapped
        self.wishes: list[tuple[str, dict[str, int]]] = []
        self.closed = False

    def attach_socket(self, container_id: str, params: dict[str, int]) -> Any:
        self.wishes.append((container_id, params))
        if not self._wrapped:
            return self._own
        response = type("Response", (), {})()
        response._sock = self._own
        response.close = self.close
        return response

    def close(self) -> None:
        self.closed = True


@pytest.fixture(params=[True, False], ids=["wrapped", "bare"])
def api(request: pytest.FixtureRequest) -> Any:
    fake = FakeApi(request.param)
    yield fake
    fake.engine.close()


def printed(api: FakeApi, data: bytes) -> list[tuple[str, bytes]]:
    streams = DockerStreams(api, "abc")
    api.engine.sendall(data)
    api.engine.shutdown(socket.SHUT_WR)
    return list(streams.chunks())


def test_only_what_is_printed_from_now_on_is_asked_for(api: FakeApi) -> None:
    DockerStreams(api, "abc")
    assert api.wishes == [("abc", {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1, "logs": 0})]


def test_outputs_are_told_apart_in_order(api: FakeApi) -> None:
    data = packed(1, b"one\n") + packed(2, b"oops\n") + packed(1, b"\0\1\2") + packed(0, b"odd")
    assert printed(api, data) == [("out", b"one\n"), ("err", b"oops\n"), ("out", b"\0\1\2"), ("out", b"odd")]


def test_an_empty_piece_is_no_end(api: FakeApi) -> None:
    assert printed(api, packed(1, b"") + packed(1, b"more")) == [("out", b"more")]


def test_large_pieces_come_whole(api: FakeApi) -> None:
    body = bytes(range(256)) * 4000
    streams = DockerStreams(api, "abc")
    sender = threading.Thread(target=lambda: (api.engine.sendall(packed(2, body)), api.engine.close()))
    sender.start()
    assert list(streams.chunks()) == [("err", body)]
    sender.join(10)


def test_pieces_may_come_byte_by_byte(api: FakeApi) -> None:
    streams = DockerStreams(api, "abc")
    chunks = streams.chunks()
    for byte in packed(1, b"ready\n"):
        api.engine.sendall(bytes([byte]))
    assert next(chunks) == ("out", b"ready\n"), "a piece is handed on as soon as it is whole"


@pytest.mark.parametrize(
    ("cut", "expected"),
    [(1, [("out", b"one"), ("err", b"tw")]), (3, [("out", b"one")]), (4, [("out", b"one")]), (11, [("out", b"one")])],
)
def test_a_connection_that_breaks_off_ends_the_output(
    api: FakeApi, cut: int, expected: list[tuple[str, bytes]]
) -> None:
    data = packed(1, b"one") + packed(2, b"two")
    assert printed(api, data[:-cut]) == expected


def test_input_arrives_and_closing_is_its_end(api: FakeApi) -> None:
    streams = DockerStreams(api, "abc")
    streams.write(b'{"do": "stop"}\n')
    streams.close()
    assert api.engine.recv(100) == b'{"do": "stop"}\n'
    assert api.engine.recv(100) == b""
    assert list(streams.chunks()) == []
    streams.close()


def test_closing_wakes_the_one_who_reads(api: FakeApi) -> None:
    streams = DockerStreams(api, "abc")
    seen: list[Any] = []
    reader = threading.Thread(target=lambda: seen.extend(streams.chunks()))
    reader.start()
    api.engine.sendall(packed(1, b"last"))
    streams.close()
    reader.join(10)
    assert not reader.is_alive()
    assert seen in ([], [("out", b"last")])


def test_a_wrapped_connection_is_closed_too() -> None:
    fake = FakeApi()
    DockerStreams(fake, "abc").close()
    assert fake.closed
    fake.engine.close()

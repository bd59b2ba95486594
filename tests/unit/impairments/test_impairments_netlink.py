"""The one message by netlink, byte for byte, and what is made of the answer."""

from __future__ import annotations

import struct

import pytest

from lab.errors import HostError
from lab.impairments import netlink


def attributes(data: bytes) -> dict[int, bytes]:
    """By number, without the flag for nesting; read from the format's description."""
    found = {}
    while data:
        size, kind = struct.unpack_from("=HH", data)
        found[kind & 0x3FFF] = data[4:size]
        data = data[size + -size % 4 :]
    return found


def test_the_message_says_which_action_and_where_to() -> None:
    message = netlink.request(action=7, to=12)
    size, kind, flags, _, port = struct.unpack_from("=IHHII", message)
    assert (size, kind, port) == (len(message), 48, 0)
    assert flags == 0x1 | 0x4 | 0x100  # a request, to be acknowledged, that replaces
    assert message[16:20] == bytes(4)  # no address family
    table = attributes(message[20:])
    one = attributes(attributes(table[1])[1])
    assert one[1] == b"mirred\0"
    index, _, then, _, _, what, interface = struct.unpack("=IIiiiiI", attributes(one[2])[2])
    assert (index, then, what, interface) == (7, -1, 1, 12)  # go on, after an egress redirect


class FakeKernel:
    """Stands in for the socket."""

    def __init__(self, answer: bytes | None) -> None:
        self.answer = answer
        self.asked: list[bytes] = []

    def __call__(self, *_: int) -> FakeKernel:
        return self

    def __enter__(self) -> FakeKernel:
        return self

    def __exit__(self, *_: object) -> None: ...

    def settimeout(self, seconds: float) -> None:
        assert seconds == netlink.TIMEOUT_S

    def bind(self, address: tuple[int, int]) -> None:
        assert address == (0, 0)

    def send(self, message: bytes) -> None:
        self.asked.append(message)

    def recv(self, _: int) -> bytes:
        if self.answer is None:
            raise TimeoutError
        return self.answer


def answer(code: int, kind: int = 2) -> bytes:
    return struct.pack("=IHHIIi", 36, kind, 0, 1, 0, code) + netlink.request(7, 12)[:16]


def ask(monkeypatch: pytest.MonkeyPatch, said: bytes | None) -> FakeKernel:
    kernel = FakeKernel(said)
    monkeypatch.setattr(netlink.socket, "socket", kernel)
    netlink.redirect_copies(7, 12)
    return kernel


def test_what_was_done_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(monkeypatch, answer(0)).asked == [netlink.request(7, 12)]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (answer(-1), "Operation not permitted"),
        (answer(-22), "Invalid argument"),
        (answer(0, kind=3), "Protocol error"),
        (None, "did not answer within 10 s"),
    ],
)
def test_what_was_refused_is_an_error(monkeypatch: pytest.MonkeyPatch, said: bytes | None, reason: str) -> None:
    with pytest.raises(HostError, match=reason):
        ask(monkeypatch, said)

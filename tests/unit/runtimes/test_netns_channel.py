"""Messages with descriptors over a socket pair, whole and in pieces, and what is not a message."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from lab.runtimes import netns_channel
from lab.runtimes.netns_channel import BrokenChannelError, receive, send

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    here, there = socket.socketpair()
    there.settimeout(5)
    with here, there:
        yield here, there


def framed(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_messages_come_in_order_and_end_with_the_channel(pair: Pair) -> None:
    here, there = pair
    for number in range(3):
        send(here, {"do": "state", "number": number, "name": "ä"})
    here.close()
    assert [receive(there) for _ in range(3)] == [
        ({"do": "state", "number": number, "name": "ä"}, []) for number in range(3)
    ]
    assert receive(there) is None


def test_a_message_in_single_bytes_is_the_same(pair: Pair) -> None:
    here, there = pair

    def trickle() -> None:
        for byte in framed(b'{"do": "hello"}'):
            here.send(bytes([byte]))

    thread = threading.Thread(target=trickle)
    thread.start()
    assert receive(there) == ({"do": "hello"}, [])
    thread.join()


def test_a_message_larger_than_any_buffer_arrives(pair: Pair) -> None:
    here, there = pair
    message = {"nodes": ["x" * 1000] * 4000}
    thread = threading.Thread(target=send, args=(here, message))
    thread.start()
    received = receive(there)
    thread.join()
    assert received == (message, [])


def test_descriptors_stay_with_their_message(pair: Pair) -> None:
    here, there = pair
    pipes = [os.pipe() for _ in range(3)]
    send(here, {"do": "none"})
    send(here, {"do": "program"}, [write for _, write in pipes])
    send(here, {"do": "none"})
    for _, write in pipes:
        os.close(write)
    before, with_them, after = (receive(there) for _ in range(3))
    assert before == after == ({"do": "none"}, [])
    assert with_them is not None
    assert len(with_them[1]) == 3
    for number, (mine, theirs) in enumerate(zip(pipes, with_them[1], strict=True)):
        os.write(theirs, bytes([number]))
        os.close(theirs)
        assert os.read(mine[0], 2) == bytes([number])
        assert os.read(mine[0], 2) == b"", "a copy of the descriptor is still open somewhere"
        os.close(mine[0])


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"\0\0", "within a message"),
        (framed(b'{"do": "hello"}')[:-1], "within a message"),
        (framed(b"hello"), "not JSON"),
        (framed(b'["do"]'), "not an object"),
        (framed(b'{"do": "\xff"}'), "not JSON"),
        (b"\xff\xff\xff\xff", "announced"),
    ],
)
def test_what_is_no_message_is_refused(pair: Pair, data: bytes, complaint: str) -> None:
    here, there = pair
    before = open_descriptors()
    socket.send_fds(here, [data], [0, 1])
    here.shutdown(socket.SHUT_WR)
    with pytest.raises(BrokenChannelError, match=complaint):
        receive(there)
    assert open_descriptors() == before, "descriptors of a refused message stay open"


def test_too_much_is_not_sent(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = pair
    with pytest.raises(BrokenChannelError, match="9 descriptors"):
        send(here, {}, [0] * 9)
    monkeypatch.setattr(netns_channel, "LONGEST_MESSAGE", 10)
    with pytest.raises(BrokenChannelError, match="too much"):
        send(here, {"do": "something long"})
    here.close()
    assert receive(there) is None


def test_a_frame_is_its_length_and_json(pair: Pair) -> None:
    here, there = pair
    send(here, {"do": "hello"})
    (length,) = struct.unpack(">I", there.recv(4))
    assert json.loads(there.recv(length)) == {"do": "hello"}

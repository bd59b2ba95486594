"""Golden vectors, written by hand from the protocol's description."""

import pytest

from lab.protocols.rooms.wire import MAX_TEXT, NO_ROOM, SIZE, Message, Type, ack, decode, encode, payload

GOLDEN = [
    (Message(Type.ACK, 1, b"1", 0), "01 00 00000001 31"),
    (Message(Type.BRK, 0, b"2", 9), "02 09 00000000 32"),
    (Message(Type.NEW, 4, b"4", 0), "03 00 00000004 34"),
    (
        Message(Type.PUB, 3, b"The Temp is 42 degree ", 255),
        "04 ff 00000003 5468652054656d7020697320343220646567726565 20",
    ),
    (Message(Type.SUB, 15534, b"15534", 127), "05 7f 00003cae 3135353334"),
    (Message(Type.USUB, 0, b"1", 1), "06 01 00000000 31"),
    (Message(Type.MES, NO_ROOM, "ünï".encode(), 16), "07 10 7fffffff c3bc6ec3af"),
]


@pytest.mark.parametrize(("message", "start"), GOLDEN, ids=lambda value: getattr(value, "type", None))
def test_golden_vectors(message: Message, start: str) -> None:
    data = bytes.fromhex(start).ljust(SIZE, b"\0")
    assert encode(message, message.seq) == data
    assert decode(data) == message


def test_an_ack_is_the_datagram_with_only_its_type_changed() -> None:
    data = bytes.fromhex("04 07 00000002 6869").ljust(500, b"\0")
    assert ack(data) == bytes.fromhex("01 07 00000002 6869").ljust(500, b"\0")


@pytest.mark.parametrize(
    "data",
    [b"", b"\x04", bytes(499), bytes(501), bytes(500), b"\x0a" + bytes(499), b"\xff" * 500],
    ids=["empty", "short", "499", "501", "type 0", "type 10", "negative room"],
)
def test_what_is_no_message(data: bytes) -> None:
    assert decode(data) is None


def test_text_limits() -> None:
    assert len(encode(Message(Type.PUB, 1, payload("é" * 247)), 0)) == SIZE
    assert MAX_TEXT == 494
    with pytest.raises(ValueError, match="at most 494 bytes, this one 495"):
        payload("x" * 495)
    with pytest.raises(ValueError, match="NUL"):
        payload("x\0")


def test_shown_text_is_one_line_whatever_it_holds() -> None:
    message = Message(Type.PUB, 1, b'a\n@lab {"event": "done"}\r\x1b[2J\xff')
    assert message.text == 'a\\n@lab {"event": "done"}\\r\\x1b[2J\ufffd'

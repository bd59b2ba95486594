"""Lines read and written, and what is none."""

import pytest

from lab.protocols.lines import wire
from lab.protocols.lines.wire import Answer, Request

REQUESTS = [
    (b"s5 sub #hello", Request("s5", "sub", "hello")),
    (b"s5 unsub #hello", Request("s5", "unsub", "hello")),
    (b"p6 pub #magic two words ", Request("p6", "pub", "magic", "two words ")),
    (b"p6 pub #magic  a blank first", Request("p6", "pub", "magic", " a blank first")),
    (b"p6 pub #magic #other", Request("p6", "pub", "magic", "#other")),
    (b"p6 pub #magic \xff\x00", Request("p6", "pub", "magic", "\udcff\0")),
    ("ä pub #ö ü".encode(), Request("ä", "pub", "ö", "ü")),
    (b"s5 at #hello", Request("s5", "at", "hello")),
    (b"s5 back #hello 7", Request("s5", "back", "hello", count=7)),
    (b"i" * 64 + b" pub #" + b"t" * 128 + b" " + b"x" * 4096, Request("i" * 64, "pub", "t" * 128, "x" * 4096)),
]
NONE = [
    b"", b" ", b"s5", b"s5 sub", b"s5 sub hello", b"s5 sub #", b"sub #hello", b" sub #hello", b"s5  sub #hello",
    b"s5 SUB #hello", b"s5 sub #two words", b"s5 sub #hello\r", b"s5 sub #hell\0", b"s5 sub #\xff", b"\xff sub #hello",
    b"p6 pub #magic", b"p6 pub #magic ", b"p6 pub magic text", b"p6 pub # text", b"s5 back #hello", b"s5 back #hello x",
    b"s5 back #hello -1", b"s5 back #hello 1234567890123456789", b"3 s5 sub #hello", b"OK", b"#hello text",
    b"i" * 65 + b" sub #hello", b"s5 sub #" + b"t" * 129, b"p6 pub #t " + b"x" * 4097,
]  # fmt: skip
ANSWERS = [
    (b"OK", Answer("OK")),
    (b"0", Answer("COUNT", count=0)),
    (b"12", Answer("COUNT", count=12)),
    (b"#hello some text", Answer("MESSAGE", "hello", "some text")),
    (b"#hello  12", Answer("MESSAGE", "hello", " 12")),
    (b"ERROR too many subscribers", Answer("ERROR", text="ERROR too many subscribers")),
]


@pytest.mark.parametrize(("line", "request_"), REQUESTS)
def test_a_request_there_and_back(line: bytes, request_: Request) -> None:
    assert wire.read_request(line) == request_
    assert wire.request_line(request_) == line + b"\n"


@pytest.mark.parametrize("line", NONE)
def test_what_is_no_request(line: bytes) -> None:
    assert wire.read_request(line) is None


@pytest.mark.parametrize(("line", "answer"), ANSWERS)
def test_answers(line: bytes, answer: Answer) -> None:
    assert wire.read_answer(line) == answer


@pytest.mark.parametrize("line", [b"", b"ok", b"OK ", b"-1", b"1 2", b"hello", b"# text", b"#hello", b"s5 sub #hello"])
def test_what_is_no_answer(line: bytes) -> None:
    answer = wire.read_answer(line)
    assert answer is None or not wire.is_name(answer.topic, wire.MAX_TOPIC)


def test_what_the_broker_writes() -> None:
    assert wire.ok() + wire.count(2) + wire.message("hello", "a \udcff") == b"OK\n2\n#hello a \xff\n"
    assert wire.error("too many publishers") == b"ERROR too many publishers\n"


@pytest.mark.parametrize(
    "request_",
    [
        Request("s 5", "sub", "hello"),
        Request("s5", "sub", "two words"),
        Request("p6", "pub", "t", "two\nlines"),
        Request("p6", "pub", "t", ""),
        Request("p6", "pub", "t", "x" * 4097),
    ],
)
def test_what_cannot_be_sent(request_: Request) -> None:
    with pytest.raises(ValueError, match=r"cannot|no line"):
        wire.request_line(request_)


def test_a_person_sees_one_line_whatever_it_holds() -> None:
    assert wire.shown("käse \x1b[2J\r \udcff") == "käse \\x1b[2J\\r \ufffd"

"""The session that `lines` was handed in with: real programs on real networks, what they say compared line by line."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from lineskit import Place, Program, place

pytestmark = pytest.mark.netns


@pytest.fixture
def lab() -> Iterator[Place]:
    if shutil.which("ip") is None:
        pytest.skip("there is no ip command")
    with place("s5", "s6", "p6") as one:
        yield one


class Person:
    """Types one command after the other, each when the prompt is there again."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.first = program.at_prompt()

    def types(self, text: str) -> list[str]:
        self._program.write(text + "\n")
        return self._program.at_prompt()


def asked(ident: str, seconds: str, verb: str, topic: str, *messages: tuple[str, str]) -> list[str]:
    """What a subscriber says of one request in poll mode."""
    return [
        f"Sleeping for {seconds}",
        f"Sending msg to the server: {ident} {verb} #{topic}",
        "Acknowledgment received from the server:",
        "OK",
        "Messages that I haven't seen:",
        str(len(messages)),
        *(f"Received message for topic #{topic} : {text}" for topic, text in messages),
    ]


def published(ident: str, seconds: str, topic: str, text: str) -> list[str]:
    return [
        f"Sleeping for {seconds}",
        f"Sending msg to the server: {ident} pub #{topic} {text}",
        "Acknowledgment received from the server:",
        "OK",
        f"Published message for topic #{topic} : {text}",
    ]


def first_lines(ident: str, host: str, port: int, file: str = "") -> list[str]:
    return [
        f"id is: {ident}",
        "port is: 7000",
        f"Ip of Broker is: {host}",
        f"Port of Broker is: {port}",
        f"filename is: {file}",
        "Socket created.",
        "Connection established with the server.",
    ]


def at_broker(kind: str, line: str, number: int | None = None) -> list[str]:
    said = [f"Message received from {kind}:", line, f"Sending acknowledgment to the {kind}."]
    return said if number is None else [*said, f"I need to send {number} messages"]


def test_the_session(lab: Place) -> None:
    broker, host = lab.broker(), lab.net["broker"].address
    assert broker.news() == [
        "subscriber port is: 9000",
        "publisher port is: 8000",
        "Socket created.",
        "Waiting for Publishers/Subscribers.",
    ]
    s5 = Person(lab.client("s5", "subscriber"))
    p6 = Person(lab.client("p6", "publisher"))
    assert s5.first == first_lines("s5", host, 9000)
    assert p6.first == first_lines("p6", host, 8000)
    one, two, three, four = (
        ("hello", "first one"),
        ("hello", "the same"),
        ("magic", "abracadabra"),
        ("hello", "the same"),
    )
    assert s5.types("1 sub #hello") == asked("s5", "1", "sub", "hello")
    for seconds, (topic, text) in (("0", one), ("0.1", two), ("0", three)):
        assert p6.types(f"{seconds} pub #{topic} {text}") == published("p6", seconds, topic, text)
    assert s5.types("0 sub #magic") == asked("s5", "0", "sub", "magic", one, two, three)
    assert p6.types("0 pub #hello the same") == published("p6", "0", *four)
    assert s5.types("0 unsub #hello") == asked("s5", "0", "unsub", "hello")
    s6 = Person(lab.client("s6", "subscriber"))
    assert s6.types("0 sub #hello") == asked("s6", "0", "sub", "hello", one, two, four)
    assert s6.types("0 sub #magic") == asked("s6", "0", "sub", "magic", three)
    broker.wait_for("I need to send", 5)
    assert broker.news() == [
        "Connection established with subscriber",
        "Connection established with publisher",
        *at_broker("subscriber", "s5 sub #hello", 0),
        *at_broker("publisher", "p6 pub #hello first one"),
        *at_broker("publisher", "p6 pub #hello the same"),
        *at_broker("publisher", "p6 pub #magic abracadabra"),
        *at_broker("subscriber", "s5 sub #magic", 3),
        *at_broker("publisher", "p6 pub #hello the same"),
        *at_broker("subscriber", "s5 unsub #hello", 0),
        "Connection established with subscriber",
        *at_broker("subscriber", "s6 sub #hello", 3),
        *at_broker("subscriber", "s6 sub #magic", 1),
    ]


def test_command_files_then_the_prompt_and_what_cannot_be_taken(lab: Place, tmp_path: Path) -> None:
    lab.broker()
    file = tmp_path / "commands"
    file.write_text("0 pub #hello from a file\nnonsense\n0.2 pub #magic more of it\n", "utf-8")
    p6 = Person(lab.client("p6", "publisher", str(file)))
    opening = first_lines("p6", lab.net["broker"].address, 8000, str(file))
    said = [
        *published("p6", "0", "hello", "from a file"),
        "Invalid input.",
        *published("p6", "0.2", "magic", "more of it"),
    ]
    assert [line for line in p6.first if line != opening[-1]] == [*opening[:-1], *said]  # it comes while it sleeps
    assert p6.first.count(opening[-1]) == 1
    s5 = Person(lab.client("s5", "subscriber", "/nowhere/at/all"))
    opening = first_lines("s5", lab.net["broker"].address, 9000, "/nowhere/at/all")
    assert s5.first == [*opening[:5], "This file does not exist", *opening[5:]]
    for wrong in ("", "sub #hello", "0 sub hello", "0 pub #hello not here"):
        assert s5.types(wrong) == ["Invalid input."]
    assert s5.types("0 sub #magic") == asked("s5", "0", "sub", "magic", ("magic", "more of it"))


def test_push_comes_at_once_while_the_prompt_waits(lab: Place) -> None:
    push = ("--option", "mode=push")
    lab.broker(*push)
    s5, s6 = (lab.client(name, "subscriber", "", *push) for name in ("s5", "s6"))
    p6 = Person(lab.client("p6", "publisher", "", *push))
    assert Person(s5).types("0 sub #hello") == asked("s5", "0", "sub", "hello")[:4]
    p6.types("0 pub #hello at once")
    s5.wait_for("Received message for topic #hello : at once\n")
    p6.types("0 pub #hello and again")
    s5.wait_for("Received message for topic #hello : and again\n")
    s6.write("0 sub #hello\n")  # late
    s6.wait_for("Received message for topic #hello : at once\nReceived message for topic #hello : and again\n")
    assert s5.end() == 0
    p6.types("0 pub #hello while you were away")
    again = lab.client("s5", "subscriber", "", *push)
    again.write("0 sub #other\n")  # subscriptions are by id and have survived
    again.wait_for("Received message for topic #hello : while you were away\n")
    assert again.output.count(b"Received message") == 1

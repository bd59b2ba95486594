"""The sessions of `topics` as people have them: real programs on a real network, every line they print compared."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from nets import Net, network
from terminal import Terminal, Terminals, terminals

from lab.protocols.topics.desk import PUBLISHER, SUBSCRIBER

pytestmark = pytest.mark.netns


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    with network("broker", "publisher", "subscriber", "second") as one:
        yield one


@pytest.fixture(params=["none", "go-back-n"])
def programs(net: Net, request: pytest.FixtureRequest) -> Iterator[Terminals]:
    with terminals(net, "topics", arq=request.param) as some:
        yield some


def answered(outcome: str, number: int, arq: str) -> list[str]:
    """What a client prints about one request; with ARQ its numbers count."""
    seq = number if arq == "go-back-n" else 0
    return [
        "Sending packet...",
        "Packet sent",
        f"ACK received for Sequence Number {seq}.",
        "Sent ACK.",
        f"Message received: {outcome}",
    ]


NO_SUCH = "This topic does not exist."


def test_every_line_of_the_sessions(programs: Terminals, request: pytest.FixtureRequest) -> None:
    arq = request.node.callspec.params["programs"]
    broker = programs.start("broker", "broker")
    broker.wait_for("Waiting for packets on port 50001.")
    publisher = programs.start("publisher", "producer", dialogue=PUBLISHER)
    subscriber = programs.start("subscriber", "consumer", dialogue=SUBSCRIBER)

    subscriber.ask("subscribe", topic="weather in May")
    subscriber.ask("unsubscribe", topic="weather in May")
    publisher.ask("create", topic="weather in May")
    subscriber.ask("unsubscribe", topic="weather in May")
    subscriber.ask("subscribe", topic="weather in May")
    assert NO_SUCH in refused(publisher, "sport")
    publisher.ask("publish", topic="weather in May", message="rain, and more rain")
    publisher.ask("publish", topic="weather in May", message="sün")
    subscriber.wait_for("New publication: sün")

    assert subscriber.lines() == [
        *answered(NO_SUCH, 0, arq),
        *answered(NO_SUCH, 1, arq),
        *answered(NO_SUCH, 2, arq),
        *answered("Subscription successful.", 3, arq),
        "Sent ACK.",
        "New publication: rain, and more rain",
        "Sent ACK.",
        "New publication: sün",
    ]
    assert publisher.lines() == [
        *answered("Topic creation successful.", 0, arq),
        NO_SUCH,
        *answered("Publication successful.", 1, arq),
        *answered("Publication successful.", 2, arq),
    ]
    for client in (publisher, subscriber):
        client.type("QUIT")
        assert client.end() == 0
    broker.process.send_signal(signal.SIGTERM)
    assert broker.end() == 0
    told = [line for line in broker.lines() if line != "Sent ACK."]
    assert told == [
        "Waiting for packets on port 50001.",
        "Topic weather in May was created.",
        "A new subscriber subscribed to weather in May.",
        "Topic weather in May was published.",
        "Topic weather in May was published.",
    ]
    assert broker.lines().count("Sent ACK.") == 4 + 1 + 2


def refused(publisher: Terminal, topic: str) -> str:
    """Publishing to a topic of nobody: the message is not even asked for."""
    before = len(publisher.output)
    publisher.type("publish", topic)
    publisher.wait_for(NO_SUCH, since=before)
    publisher.wait_for(PUBLISHER.first.prompt.strip(), since=before)
    return publisher.output[before:].decode()


def test_two_publishers_with_the_same_number_and_two_subscribers_of_one(programs: Terminals) -> None:
    programs.start("broker", "broker").wait_for("Waiting for packets")
    first = programs.start("publisher", "producer", dialogue=PUBLISHER)
    second = programs.start("second", "producer", dialogue=PUBLISHER)
    reader = programs.start("subscriber", "consumer", dialogue=SUBSCRIBER)
    first.ask("create", topic="a")
    second.ask("create", topic="b")  # number 0 too
    assert "This topic already exists." in second.ask("create", topic="a")
    reader.ask("subscribe", topic="a")
    second.ask("publish", topic="b", message="not for you")
    first.ask("publish", topic="a", message="for you")
    reader.wait_for("New publication: for you")
    assert "not for you" not in reader.output.decode()
    shown = reader.ask("unsubscribe", topic="a")
    assert "Unsubscription successful." in shown


def test_empty_and_unknown_input_and_a_long_message(programs: Terminals, request: pytest.FixtureRequest) -> None:
    programs.start("broker", "broker").wait_for("Waiting for packets")
    publisher = programs.start("publisher", "producer", dialogue=PUBLISHER)
    reader = programs.start("subscriber", "consumer", dialogue=SUBSCRIBER)
    publisher.type("", "dance")
    publisher.wait_for("Invalid input.", times=2)
    publisher.ask("create", topic="t")
    reader.ask("subscribe", topic="t")
    told = publisher.ask("publish", topic="t", message="x" * 20_000)
    if request.node.callspec.params["programs"] == "none":
        assert "Invalid input." in told
        assert "x" not in reader.output.decode().replace("exist", "")
    else:
        reader.wait_for("New publication: " + "x" * 20_000)


def test_a_command_file_and_standard_input(net: Net, tmp_path: Path) -> None:
    commands = tmp_path / "commands"
    commands.write_text("create\nfrom a file\n", encoding="utf-8")
    with terminals(net, "topics", arq="none") as some:
        some.start("broker", "broker").wait_for("Waiting for packets")
        publisher = some.start("publisher", "producer", "--file", str(commands), dialogue=PUBLISHER)
        publisher.wait_for("Topic creation successful.")
        reader = some.start("subscriber", "consumer", dialogue=SUBSCRIBER)
        reader.ask("subscribe", topic="from a file")
        publisher.type("publish", "from a file", "one", "PUBLISH it", "from a file", "two")
        assert publisher.process.stdin is not None
        publisher.process.stdin.close()  # end of input: it ends when everything asked before is settled
        assert publisher.end() == 0
        assert publisher.lines().count("Message received: Publication successful.") == 2
        reader.wait_for("New publication: two")
        reader.process.send_signal(signal.SIGTERM)
        assert reader.end() == 0

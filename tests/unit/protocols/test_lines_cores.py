"""What broker, publisher and subscriber do and say, message by message."""

from __future__ import annotations

import pytest
from lineslab import HOST, TO_PUBLISHERS, TO_SUBSCRIBERS, Lab, build, plan
from simnet import SimNet

from lab.protocols.core import Answered, PhaseDone, Publication, PublishDone
from lab.protocols.lines.broker import ANSWER_BYTES, Broker
from lab.protocols.lines.core import Settings
from lab.protocols.lines.desk import LinesDesk
from lab.protocols.lines.roles import make_broker, make_publisher, make_subscriber

CHATTY = Settings(chatter=True)


def said(net: SimNet, host: str) -> list[str]:
    lines = net.said(host)
    net.events[host].clear()
    return lines


def command(lab: Lab, host: str, text: str) -> list[str]:
    """What a program says about a command, until it is done."""
    core = lab.net.hosts[host]
    desk = LinesDesk(core)  # type: ignore[arg-type]
    assert desk.refusal("command", text) is None
    desk.do("command", {"command": text}, lab.net.now)
    lab.net.run(lambda: not core.busy, 30)
    return said(lab.net, host)


def test_the_words_of_a_poll() -> None:
    lab = build(CHATTY)
    lab.net.run(limit_s=1.0)
    assert said(lab.net, HOST) == [
        "subscriber port is: 9000",
        "publisher port is: 8000",
        "Socket created.",
        "Waiting for Publishers/Subscribers.",
        "Connection established with publisher",
        "Connection established with subscriber",
    ]
    assert said(lab.net, "10.0.2.3") == ["Socket created.", "Connection established with the server."]
    began = lab.net.now
    assert command(lab, "10.0.2.3", "3 sub #hello") == [
        "Sleeping for 3",
        "Sending msg to the server: s1 sub #hello",
        "Acknowledgment received from the server:",
        "OK",
        "Messages that I haven't seen:",
        "0",
    ]
    assert 3.0 <= lab.net.now - began < 3.1
    assert said(lab.net, HOST) == [
        "Message received from subscriber:",
        "s1 sub #hello",
        "Sending acknowledgment to the subscriber.",
        "I need to send 0 messages",
    ]
    said(lab.net, "10.0.1.3")
    assert command(lab, "10.0.1.3", "0.5 pub #hello two words") == [
        "Sleeping for 0.5",
        "Sending msg to the server: p1 pub #hello two words",
        "Acknowledgment received from the server:",
        "OK",
        "Published message for topic #hello : two words",
    ]
    assert said(lab.net, HOST) == [
        "Message received from publisher:",
        "p1 pub #hello two words",
        "Sending acknowledgment to the publisher.",
    ]
    assert command(lab, "10.0.2.3", "0 unsub #magic")[-3:] == [
        "Messages that I haven't seen:",
        "1",
        "Received message for topic #hello : two words",
    ]


@pytest.mark.parametrize(
    "text",
    ["sub #hello", "3", "3 sub", "3 sub hello", "3 sub #a b", "-1 sub #hello", "x sub #hello", "3 pub #hello text",
     "100000 sub #hello", "86401 sub #hello", "3 SUB #hello", "3 sub #" + "t" * 129, "3sub #hello", "1e3 sub #hello"],
)  # fmt: skip
def test_commands_that_a_subscriber_cannot_take(text: str) -> None:
    desk = LinesDesk(make_subscriber(CHATTY, TO_SUBSCRIBERS, "s1"))
    assert desk.refusal("command", text) == "Invalid input."


@pytest.mark.parametrize("text", ["3 sub #hello", "3 pub #hello", "3 pub #hello ", "3 pub hello text", "3 at #hello"])
def test_commands_that_a_publisher_cannot_take(text: str) -> None:
    desk = LinesDesk(make_publisher(CHATTY, TO_PUBLISHERS, "p1"))
    assert desk.refusal("command", text) == "Invalid input."


def test_the_same_text_twice_is_two_messages() -> None:
    lab = build(Settings())
    lab.subscribe("hello")
    lab.publishers["p1"].workload([Publication("hello", "again")] * 3, None, lab.net.now)
    lab.net.run(limit_s=1.0)
    lab.collect()
    assert lab.shown() == [("hello", "again")] * 3
    lab.collect()
    assert len(lab.shown()) == 3


def test_topics_come_in_the_order_of_their_first_publication() -> None:
    lab = build(Settings())
    lab.publishers["p1"].workload([Publication(topic, topic) for topic in ("zoo", "ape", "zoo")], None, lab.net.now)
    lab.net.run(limit_s=1.0)
    lab.subscribers["s1"].request("subscribe", "ape", lab.net.now)
    lab.net.run(limit_s=1.0)
    lab.subscribers["s1"].request("subscribe", "zoo", lab.net.now)
    lab.publishers["p1"].workload([Publication("ape", "ape")], None, lab.net.now)
    lab.net.run(limit_s=1.0)
    lab.collect()
    assert lab.shown() == [("ape", "ape"), ("zoo", "zoo"), ("zoo", "zoo"), ("ape", "ape")]


def test_unsubscribing_keeps_the_place_in_the_log() -> None:
    lab = build(Settings("push"))
    lab.subscribe("hello")
    for number, phase in enumerate(("unsubscribe", "subscribe", "unsubscribe")):
        lab.publishers["p1"].workload([Publication("hello", str(number))], None, lab.net.now)
        lab.net.run(limit_s=1.0)
        lab.subscribers["s1"].request(phase, "hello", lab.net.now)  # type: ignore[arg-type]
        lab.net.run(limit_s=1.0)
    assert lab.shown() == [("hello", "0"), ("hello", "1"), ("hello", "2")]
    answers = [event for event in lab.net.events["10.0.2.3"] if isinstance(event, Answered)]
    assert {(one.ok, one.outcome) for one in answers} == {(True, "OK")}


def test_publishing_without_subscribers_and_with_a_malformed_line() -> None:
    broker = Broker(Settings())
    subscriber, publisher = (broker.accepted(kind, ("10.0.1.3", 1), 0.0) for kind in ("subscriber", "publisher"))
    assert subscriber is not None
    assert publisher is not None
    cases = [
        (publisher, b"p1 pub #hello text", b"OK\n"),
        (publisher, b"p1 sub #hello", b"ERROR expected ID pub #topic message\n"),
        (publisher, b"p1 at #hello", b"ERROR expected ID pub #topic message\n"),
        (publisher, b"x" * 5000, b"ERROR the line is too long\n"),
        (subscriber, b"s1 pub #hello text", b"ERROR expected ID sub #topic, or ID unsub #topic\n"),
        (subscriber, b"", b"ERROR expected ID sub #topic, or ID unsub #topic\n"),
        (subscriber, b"s1 unsub #never", b"OK\n0\n"),
        (subscriber, b"s1 sub #hello", b"OK\n1\n#hello text\n"),
        (subscriber, b"s1 sub #hello", b"OK\n0\n"),
    ]
    for connection, line, answer in cases:
        broker.receive_bytes(connection, line + b"\n", 0.0)
        assert b"".join(action.data for action in broker.actions_to_take(0.0)) == answer  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", ["poll", "push"])
def test_a_backlog_of_megabytes_comes_whole(mode: str) -> None:
    lab = build(Settings(mode))
    count = 3 * ANSWER_BYTES // 4096
    texts = [f"{number:05}".ljust(4096, ".") for number in range(count)]
    lab.publishers["p1"].workload([Publication("hello", text) for text in texts], None, lab.net.now)
    lab.net.run(limit_s=10.0)
    lab.subscribers["s1"].request("subscribe", "hello", lab.net.now)
    lab.net.run(limit_s=10.0)
    lab.collect()
    assert [text for _, text in lab.shown()] == texts


def test_the_sixth_subscriber_is_told_and_has_a_place_when_another_leaves() -> None:
    lab = build(Settings(), subscribers=6)
    lab.net.run(limit_s=1.0)
    last = next(
        name for name in lab.subscribers if "ERROR too many subscribers" in lab.net.said(f"10.0.2.{2 + int(name[1:])}")
    )
    host = f"10.0.2.{2 + int(last[1:])}"
    lab.subscribers[last].request("subscribe", "hello", lab.net.now)
    lab.net.run(limit_s=5.0)
    answers = [event for event in lab.net.events[host] if isinstance(event, Answered)]
    assert answers == [Answered("sub", "hello", False, "ERROR too many subscribers")]
    other = next(name for name in lab.subscribers if name != last)
    lab.subscribers[other].stop(lab.net.now)
    lab.net.run(limit_s=5.0)
    lab.subscribers[last].request("subscribe", "hello", lab.net.now)
    lab.net.run(limit_s=5.0)
    assert [event for event in lab.net.events[host] if isinstance(event, Answered)][1:] == [
        Answered("sub", "hello", True, "OK")
    ]


def test_no_broker_is_no_answer_and_not_for_ever() -> None:
    net = SimNet()
    publisher = make_publisher(Settings(reply_timeout_s=5.0), TO_PUBLISHERS, "p1")
    net.add("10.0.1.3", publisher)
    publisher.workload(plan("p1", 1000), 100.0, 0.0)
    net.run(limit_s=60.0)
    assert net.now < 20
    done = [event for event in net.events["10.0.1.3"] if isinstance(event, PublishDone)]
    assert [(one.planned, one.sent) for one in done] == [(1000, 0)]
    net.silent.add(HOST)
    subscriber = make_subscriber(Settings(reply_timeout_s=5.0), TO_SUBSCRIBERS, "s1")
    net.add("10.0.2.3", subscriber)
    subscriber.request("subscribe", "hello", net.now)
    net.run(lambda: not subscriber.busy, 60.0)
    assert Answered("sub", "hello", False, None) in net.events["10.0.2.3"]
    assert "No answer." in net.said("10.0.2.3")


def test_a_broker_that_starts_again_is_found_again() -> None:
    for mode in ("poll", "push"):
        settings = Settings(mode, resume=True)
        lab = build(settings)
        lab.subscribe("hello")
        lab.publishers["p1"].workload(plan("p1", 4, ("hello",)), None, lab.net.now)
        lab.net.run(limit_s=2.0)
        lab.net.kill(HOST)
        lab.net.run(limit_s=1.0)
        lab.net.add(HOST, make_broker(settings))
        lab.net.run(limit_s=5.0)
        lab.subscribers["s1"].request("subscribe", "hello", lab.net.now)
        lab.publishers["p1"].workload(plan("p1", 6, ("hello",))[4:], None, lab.net.now)
        lab.net.run(limit_s=5.0)
        lab.subscribers["s1"].phase("collect", {}, lab.net.now)
        lab.net.run(limit_s=5.0)
        first = [] if mode == "poll" else plan("p1", 4, ("hello",))
        assert [text for _, text in lab.shown()] == [one.text for one in (*first, *plan("p1", 6, ("hello",))[4:])]


def test_resuming_with_a_broker_that_does_not_know_how() -> None:
    lab = build(Settings(resume=True), broker=Broker(Settings()))
    lab.subscribers["s1"].request("subscribe", "hello", lab.net.now)
    lab.publishers["p1"].workload(plan("p1", 3, ("hello",)), None, lab.net.now)
    lab.net.run(limit_s=3.0)
    lab.collect()
    assert len(lab.shown()) == 3


def test_phases_of_the_lab() -> None:
    lab = build(Settings())
    publisher, subscriber = lab.publishers["p1"], lab.subscribers["s1"]
    publisher.request("create", "hello", 0.0)  # a topic needs none
    lab.net.run(limit_s=1.0)
    assert lab.net.events["10.0.1.3"] == [Answered("create", "hello", True, None)]
    subscriber.phase("collect", {}, lab.net.now)
    lab.net.run(limit_s=1.0)
    assert lab.net.events["10.0.2.3"] == [PhaseDone(True)]
    for wrong in (lambda: subscriber.phase("dance", {}, 0.0), lambda: subscriber.request("create", "a", 0.0)):
        with pytest.raises(ValueError, match="not something this role can do"):
            wrong()
    with pytest.raises(ValueError, match="no line"):
        subscriber.request("subscribe", "two words", 0.0)
    with pytest.raises(ValueError, match="an id has 1 to 64"):
        make_subscriber(Settings(), TO_SUBSCRIBERS, "two words")

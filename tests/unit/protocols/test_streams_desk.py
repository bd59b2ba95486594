"""What people can say at the two prompts, and what becomes of it."""

import pytest
from streamslab import Lab, build

from lab.protocols.dialogue import Asking, Desk, Do, Tell
from lab.protocols.streams import texts
from lab.protocols.streams.core import Settings
from lab.protocols.streams.desk import CONSUMER, PRODUCER, ConsumerDesk, ProducerDesk, subscription
from lab.protocols.streams.wire import EVERY, Content, Header


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2 81 text", Header(2, 81, Content.TEXT)),
        ("2, 81, Audio", Header(2, 81, Content.AUDIO)),
        ("1 7", Header(1, 7, Content.ALL)),
        ("1048575 every", Header(1048575, EVERY, Content.ALL)),
        ("1 153", None),
        ("0 1", None),
        ("1048576 1", None),
        ("1 1 sound", None),
        ("1", None),
        ("٣ 1", None),
    ],
)
def test_subscriptions_in_words(text: str, meant: Header | None) -> None:
    assert subscription(text) == meant


def say(lab: Lab, desk: Desk, *lines: str) -> list[str]:
    """What a program answers to these lines at its prompts, events left aside."""
    asking, told = Asking(desk), []
    for line in lines:
        asked = asking.line(line)
        if isinstance(asked, Do):
            desk.do(asked.action, asked.values, lab.net.now)
            lab.net.run(limit_s=2.5)
        elif isinstance(asked, Tell):
            told.append(asked.text)
    return told


def test_a_session() -> None:
    lab = build(Settings(lead_s=0.5))
    producer, consumer = ProducerDesk(lab.producers["p1"]), ConsumerDesk(lab.consumers["10.0.2.3"])
    lab.net.run(limit_s=1)
    assert say(lab, producer, "publish", "1") == [texts.NO_SUCH_STREAM]
    assert say(lab, producer, "create", "2") == ["The next stream is number 1."]
    assert say(lab, producer, "create", "1") == []
    assert say(lab, consumer, "list", "subscribe", "1", "subscribe", "1 1 text", "", "dance") == [
        texts.INVALID_INPUT,
        "Invalid input.",
        "Invalid input.",
    ]
    assert say(lab, producer, "publish", "1", "hello", "PUBLISH", "1", "world") == []
    assert say(lab, producer, "end", "1", "end", "1") == [texts.NO_SUCH_STREAM]
    assert say(lab, producer, "start", "music", "start", "audio") == [texts.INVALID_INPUT]
    assert lab.net.said("10.0.2.3")[:5] == [
        "Stream 1 of producer 1 is running (text).",
        "Subscription successful.",
        "Stream 1 of producer 1: hello",
        "Stream 1 of producer 1: world",
        "Stream 1 of producer 1 has ended.",
    ]
    assert lab.producers["p1"].counters["streams"] >= 2
    say(lab, consumer, "take")
    assert lab.net.said("10.0.2.3")[5] == "Subscription successful."
    assert lab.consumers["10.0.2.3"].counters["chunks"] > 5


def test_every_action_can_be_reached_from_outside() -> None:
    assert [step.line for step in PRODUCER.steps("publish")] == ["PUBLISH", "{topic}", "{text}"]
    assert [step.line for step in CONSUMER.steps("subscribe")] == ["SUBSCRIBE", "{topic}"]
    for dialogue, actions in ((PRODUCER, ("start", "create", "end")), (CONSUMER, ("list", "take"))):
        for action in actions:
            assert dialogue.steps(action)

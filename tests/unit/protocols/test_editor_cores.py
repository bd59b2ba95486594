"""What each request does, message by message, on a network that does nothing to anybody."""

from __future__ import annotations

import pytest
from editorlab import BROKER, STORAGE, TOPICS, WORDS, Lab, build, plan

from lab.protocols.core import Answered, Ended, Publication, PublishDone, Ready
from lab.protocols.editor.publisher import Publisher
from lab.protocols.editor.settings import Settings

SUBSCRIBER = "10.0.2.11"
EDITOR = "10.0.1.11"


def ask(lab: Lab, what: str, topic: str, host: str = SUBSCRIBER) -> list[str]:
    """What a subscriber says to one request, and to what comes of it."""
    before = len(lab.net.said(host))
    lab.subscribers[host].request(what, topic, lab.net.now)  # type: ignore[arg-type]
    lab.net.run(limit_s=20)
    return lab.net.said(host)[before:]


def publish(lab: Lab, topic: str, text: str) -> None:
    lab.publishers["p1"].publish_one(topic, text, lab.net.now)
    lab.net.run(limit_s=20)


def test_a_subscription_gets_the_last_message_and_what_follows() -> None:
    lab = build()
    publish(lab, "weather", "rain")
    publish(lab, "weather", "sun")
    assert ask(lab, "subscribe", "weather") == ["c> SUBSCRIBE OK", "c> MESSAGE FROM weather : sun"]
    publish(lab, "weather", "")
    assert lab.shown(SUBSCRIBER) == ["sun", ""]
    assert lab.shelf.texts("weather") == ["rain", "sun", ""]


def test_every_answer() -> None:
    lab = build()
    assert ask(lab, "subscribe", "weather") == ["c> SUBSCRIBE FAIL"]
    assert ask(lab, "unsubscribe", "weather") == ["c> UNSUBSCRIBE FAIL"]
    publish(lab, "weather", "rain")
    assert ask(lab, "unsubscribe", "weather") == ["c> TOPIC NOT SUBSCRIBED"]
    assert ask(lab, "subscribe", "weather") == ["c> SUBSCRIBE OK", "c> MESSAGE FROM weather : rain"]
    assert ask(lab, "subscribe", "weather") == ["c> SUBSCRIBE OK", "c> MESSAGE FROM weather : rain"]  # sent again
    assert ask(lab, "unsubscribe", "weather") == ["c> UNSUBSCRIBE OK"]
    publish(lab, "weather", "snow")
    assert lab.shown(SUBSCRIBER) == ["rain", "rain"]
    answers = [event for event in lab.net.events[SUBSCRIBER] if isinstance(event, Answered)]
    assert [(one.request, one.ok) for one in answers[:3]] == [
        ("subscribe", False),
        ("unsubscribe", False),
        ("unsubscribe", False),
    ]


def test_the_wire_is_as_described() -> None:
    lab = build()
    publish(lab, "weather", "rain at 7")
    ask(lab, "subscribe", "weather")
    port = lab.subscribers[SUBSCRIBER].port
    assert lab.net.sent[EDITOR, 0] == b"PUBLISH\0weather\0rain at 7\0"
    requests = {bytes(data) for (host, name), data in lab.net.sent.items() if host == SUBSCRIBER and name != "words"}
    assert b"SUBSCRIBE\0weather\0%d\0" % port in requests
    answers = {name: bytes(data) for (host, name), data in lab.net.sent.items() if host == BROKER[0]}
    assert answers["delivery1"] == b"weather\0rain at 7\0"
    assert b"0" in answers.values()


def test_the_close_comes_after_the_storage_has_it_and_deliveries_after_that() -> None:
    lab = build(subscribers=0)
    lab.net.run(limit_s=1)
    lab.shelf.broken = True
    publish(lab, "weather", "rain")
    assert lab.net.said(EDITOR)[-2:] == [
        "The connection to the broker at 10.0.0.2:4200 was lost.",
        "weather was not acknowledged.",
    ]
    lab.shelf.broken = False
    publish(lab, "weather", "sun")
    assert lab.net.said(EDITOR)[-1] == "weather was published."
    assert lab.shelf.texts("weather") == ["sun"]


def test_nobody_is_answered_before_the_folder_is_prepared() -> None:
    lab = build(subscribers=0)
    lab.net.kill(STORAGE[0])
    lab.net.kill(BROKER[0])
    lab.start_broker()
    publish_at = lab.net.now
    lab.publishers["p1"].publish_one("weather", "rain", publish_at)
    lab.net.run(lambda: lab.net.now > publish_at + 3.0, 3.0)
    assert lab.publishers["p1"].busy
    assert Ready() not in lab.net.events[BROKER[0]]
    lab.start_storage()
    lab.net.run(limit_s=5)
    assert Ready() in lab.net.events[BROKER[0]]
    assert lab.shelf.texts("weather") == ["rain"]
    assert not lab.publishers["p1"].busy


def test_after_a_broker_restart_the_topics_are_gone_and_the_log_is_not() -> None:
    lab = build()
    publish(lab, "weather", "rain")
    lab.net.kill(BROKER[0])
    lab.start_broker()
    lab.net.run(limit_s=1)
    assert ask(lab, "subscribe", "weather") == ["c> SUBSCRIBE FAIL"]
    publish(lab, "weather", "sun")
    assert lab.shelf.texts("weather") == ["rain", "sun"]
    assert ask(lab, "subscribe", "weather") == ["c> SUBSCRIBE OK", "c> MESSAGE FROM weather : sun"]


def test_a_refused_delivery_removes_the_subscriber() -> None:
    lab = build(subscribers=2)
    lab.create("weather")
    lab.subscribe("weather")
    lab.net.kill("10.0.2.12")
    publish(lab, "weather", "rain")
    assert list(lab.broker.topics["weather"]) == [(SUBSCRIBER, lab.subscribers[SUBSCRIBER].port)]
    assert "10.0.2.12:40001 refused a delivery and was removed." in lab.net.said(BROKER[0])
    assert lab.shown(SUBSCRIBER)[-1] == "rain"


def test_what_is_published_during_a_lookup_comes_once_and_in_order() -> None:
    lab = build()
    publish(lab, "weather", "rain")
    job = [Publication("weather", f"text {number}", number) for number in range(40)]
    lab.publishers["p1"].workload(job, 200.0, lab.net.now)
    lab.net.run(lambda: len(lab.shelf.articles) > 12)
    lab.subscribers[SUBSCRIBER].request("subscribe", "weather", lab.net.now)
    lab.net.run()
    shown = lab.shown(SUBSCRIBER)
    texts = [message.text for message in job]
    assert shown == texts[texts.index(shown[0]) :]
    assert 20 < len(shown) < 30


def test_limits_are_bytes_and_nothing_is_begun() -> None:
    lab = build()
    publisher, subscriber = lab.publishers["p1"], lab.subscribers[SUBSCRIBER]
    for topic, text in (("é" * 65, "x"), ("t", "é" * 513), ("", "x"), ("a\0b", "x")):
        with pytest.raises(ValueError, match=r"has .*bytes|cannot hold NUL"):
            publisher.publish_one(topic, text, 0.0)
    with pytest.raises(ValueError, match="1 to 128 bytes, this one 129"):
        subscriber.request("subscribe", "x" * 129, 0.0)
    assert not publisher.busy
    assert not subscriber.busy
    topic, text = "é" * 64, "é" * 512
    publish(lab, topic, text)
    assert ask(lab, "subscribe", topic)[-1] == f"c> MESSAGE FROM {topic} : {text}"


def test_a_broker_that_is_not_there_is_said() -> None:
    lab = build()
    lab.net.kill(BROKER[0])
    publish(lab, "weather", "rain")
    assert lab.net.said(EDITOR)[-2:] == [
        "The broker at 10.0.0.2:4200 cannot be reached.",
        "weather was not acknowledged.",
    ]
    assert ask(lab, "subscribe", "weather") == [
        "c> The broker at 10.0.0.2:4200 cannot be reached.",
        "c> SUBSCRIBE FAIL",
    ]
    lab.net.silent.add(BROKER[0])
    lab.net.hosts[EDITOR].publish_one("weather", "rain", lab.net.now)  # type: ignore[attr-defined]
    assert "c> No answer." in ask(lab, "subscribe", "weather")
    assert "No answer." in lab.net.said(EDITOR)


def test_the_one_shot_editor_ends_with_a_code() -> None:
    lab = build(publishers=0, subscribers=0)
    lab.net.add("10.0.1.50", Publisher(Settings(), BROKER, once=("weather", "rain")))
    lab.net.run(limit_s=5)
    assert lab.net.events["10.0.1.50"][-1] == Ended(0)
    lab.net.kill(BROKER[0])
    lab.net.add("10.0.1.51", Publisher(Settings(), BROKER, once=("weather", "sun")))
    lab.net.run(limit_s=5)
    assert lab.net.events["10.0.1.51"][-1] == Ended(1)
    assert lab.shelf.texts("weather") == ["rain"]


@pytest.mark.parametrize("deliver", ["at-once", "in-order"])
def test_a_workload(deliver: str) -> None:
    lab = build(Settings(deliver), publishers=3, subscribers=3)
    lab.create(*TOPICS)
    lab.subscribe(*TOPICS)
    lab.publish(50)
    lab.net.run()
    for host in lab.subscribers:
        for name in lab.publishers:
            for topic in TOPICS:
                due = [one.text for one in plan(name, 50) if one.topic == topic]
                assert [text for text in lab.shown(host, topic) if f"-{name}-" in text] == due
    assert all(lab.net.events[f"10.0.1.{number + 10}"][-1] == PublishDone(50, 50, 0, 0) for number in range(1, 4))
    assert lab.broker.deliveries.held == 0


def test_a_workload_keeps_its_pace() -> None:
    lab = build()
    lab.net.run(limit_s=1)
    begun = lab.net.now
    lab.publish(21, rate=10.0)
    lab.net.run(lambda: not lab.publishers["p1"].busy)
    assert 2.0 <= lab.net.now - begun < 2.1


def test_a_subscriber_that_takes_nothing_stalls_nobody() -> None:
    lab = build(Settings("in-order"), subscribers=2)
    lab.create("weather")
    lab.subscribe("weather")
    lab.net.silent.add("10.0.2.12")
    publish(lab, "weather", "rain")
    publish(lab, "weather", "sun")
    assert lab.shown(SUBSCRIBER)[-2:] == ["rain", "sun"]
    lab.net.run(limit_s=100)
    assert len(lab.broker.topics["weather"]) == 1  # given up after a minute
    assert lab.broker.deliveries.held == 0


def test_numbers_are_shown_in_words_and_everything_else_byte_for_byte() -> None:
    lab = build(subscribers=0)
    lab.add_words()
    lab.add_subscriber(words=True)
    lab.create("weather")
    lab.subscribe("weather")
    publish(lab, "weather", " 7\t  42 degrees, 7! x7 007 7  ")
    publish(lab, "weather", "no number")
    assert lab.shown(SUBSCRIBER)[-2:] == [" seven\t  forty-two degrees, 7! x7 007 seven  ", "no number"]
    lab.net.kill(WORDS[0])
    publish(lab, "weather", "7 and 9")
    assert lab.net.said(SUBSCRIBER)[-2:] == [
        "c> Warning: the words service at 10.0.2.3:4202 is down; numbers stay as they are.",
        "c> MESSAGE FROM weather : 7 and 9",
    ]


def test_a_words_service_that_swallows_costs_seconds_once_and_keeps_the_order() -> None:
    lab = build(subscribers=0)
    lab.add_words()
    lab.add_subscriber(words=True)
    lab.create("weather")
    lab.subscribe("weather")
    lab.net.silent.add(WORDS[0])
    begun = lab.net.now
    for text in ("7 one", "none", "42 two"):
        lab.publishers["p1"].publish_one("weather", text, lab.net.now)
    lab.net.run(lambda: len(lab.shown(SUBSCRIBER)) == 4)
    assert lab.shown(SUBSCRIBER)[-3:] == ["7 one", "none", "42 two"]
    assert 3.0 <= lab.net.now - begun < 4.0


def test_a_subscriber_that_ends_shows_what_it_has_taken() -> None:
    lab = build(subscribers=0)
    lab.add_words()
    subscriber = lab.add_subscriber(words=True)
    lab.create("weather")
    lab.subscribe("weather")
    lab.net.silent.add(WORDS[0])
    lab.publishers["p1"].publish_one("weather", "7 one", lab.net.now)
    lab.net.run(lambda: subscriber.counters["received"] == 2)
    subscriber.stop(lab.net.now)
    lab.net.collect()
    assert lab.shown(SUBSCRIBER)[-1] == "7 one"


def test_the_end_of_a_broker_is_no_acknowledgement() -> None:
    lab = build(subscribers=0)
    lab.net.run(limit_s=1)
    lab.net.kill(STORAGE[0])
    lab.publishers["p1"].publish_one("weather", "rain", lab.net.now)
    lab.net.run(lambda: bool(lab.broker.topics), 5)
    lab.broker.stop(lab.net.now)
    lab.net.run(lambda: not lab.publishers["p1"].busy, 5)
    assert lab.net.said(EDITOR)[-1] == "weather was not acknowledged."

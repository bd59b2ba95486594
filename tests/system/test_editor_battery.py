"""The battery of sixteen that `editor` was handed in with: real programs on real sockets, their output compared."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from editorkit import BROKER_PORT, Place, place

TOPIC_128 = "é" * 63 + "to"  # bytes, not signs
TEXT_1024 = "ü" * 500 + "x" * 24


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Place]:
    with place(tmp_path) as one:
        yield one


@pytest.fixture
def up(lab: Place) -> Place:
    lab.start()
    return lab


def test_01_subscribe_gets_the_last_message_with_numbers_in_words(up: Place) -> None:
    up.words()
    up.publish("weather", "an old one")
    up.publish("weather", "rain at 7,  -3.5 degrees; 42\tx7 7.")
    subscriber = up.subscriber(words=True)
    subscriber.write("SUBSCRIBE weather\n")
    assert subscriber.wait_for("x7 7.\n") == [
        "c> SUBSCRIBE OK",
        "c> MESSAGE FROM weather : rain at 7,  minus three point five degrees; forty-two\tx7 7.",
    ]


def test_02_unsubscribe_stops_delivery(up: Place) -> None:
    up.publish("weather", "one")
    subscriber = up.subscriber()
    subscriber.write("SUBSCRIBE weather\n")
    subscriber.wait_for("one\n")
    up.publish("weather", "two")
    subscriber.wait_for("two\n")
    subscriber.write("unsubscribe weather\n")
    subscriber.wait_for("UNSUBSCRIBE OK")
    up.publish("weather", "three")
    up.publish("news", "four")
    subscriber.write("SUBSCRIBE news\n")
    assert subscriber.wait_for("four\n") == [
        "c> SUBSCRIBE OK",
        "c> MESSAGE FROM weather : one",
        "c> MESSAGE FROM weather : two",
        "c> UNSUBSCRIBE OK",
        "c> SUBSCRIBE OK",
        "c> MESSAGE FROM news : four",
    ]


def test_03_unsubscribe_when_not_subscribed(up: Place) -> None:
    up.publish("weather", "one")
    subscriber = up.subscriber()
    subscriber.write("UNSUBSCRIBE weather\n")
    assert subscriber.wait_for("SUBSCRIBED") == ["c> TOPIC NOT SUBSCRIBED"]


def test_04_subscribe_to_no_such_topic(up: Place) -> None:
    subscriber = up.subscriber()
    subscriber.write("SUBSCRIBE nothing\n")
    assert subscriber.wait_for("FAIL") == ["c> SUBSCRIBE FAIL"]


def test_05_unsubscribe_from_no_such_topic(up: Place) -> None:
    subscriber = up.subscriber()
    subscriber.write("UNSUBSCRIBE nothing\n")
    assert subscriber.wait_for("FAIL") == ["c> UNSUBSCRIBE FAIL"]


def test_06_the_data_folder_is_deleted_before_the_broker_starts(lab: Place) -> None:
    lab.folder.mkdir()
    storage = lab.storage()
    first = lab.broker()
    lab.publish("weather", "one")
    first.kill()
    shutil.rmtree(lab.folder)
    lab.broker()
    assert lab.folder.is_dir()
    lab.publish("weather", "two")
    assert lab.log() == [(b"weather", b"two")]
    assert storage.process.poll() is None


def test_07_a_topic_just_under_the_limit_is_published(up: Place) -> None:
    assert len(TOPIC_128.encode()) == 128
    up.publish(TOPIC_128, "text")
    assert up.log() == [(TOPIC_128.encode(), b"text")]


def test_08_a_text_just_under_the_limit_is_published(up: Place) -> None:
    assert len(TEXT_1024.encode()) == 1024
    up.publish("weather", TEXT_1024)
    assert up.log() == [(b"weather", TEXT_1024.encode())]


@pytest.mark.parametrize(
    ("topic", "text", "warning"),
    [
        pytest.param(TOPIC_128 + "x", "text", "a topic has 1 to 128 bytes, this one 129", id="09-topic"),
        pytest.param("weather", TEXT_1024 + "x", "a text has at most 1024 bytes, this one 1025", id="10-text"),
    ],
)
def test_09_10_over_the_limit_is_refused_with_a_warning_and_nothing_is_sent(
    lab: Place, topic: str, text: str, warning: str
) -> None:
    lab.storage()
    broker = lab.broker()
    code, lines = lab.editor(topic, text).end()
    assert code == 2
    assert lines[-1].endswith(f"Warning: {warning}; nothing was sent.")
    lab.publish("weather", "marker")
    assert broker.wait_for("published")[2:] == ["weather was published."]
    assert lab.log() == [(b"weather", b"marker")]


def test_11_a_topic_just_under_the_limit_is_subscribed(up: Place) -> None:
    up.publish(TOPIC_128, "text")
    subscriber = up.subscriber()
    subscriber.write(f"SUBSCRIBE {TOPIC_128}\n")
    assert subscriber.wait_for(": text\n") == ["c> SUBSCRIBE OK", f"c> MESSAGE FROM {TOPIC_128} : text"]


def test_12_a_text_just_under_the_limit_is_received(up: Place) -> None:
    up.publish("weather", TEXT_1024)
    subscriber = up.subscriber()
    subscriber.write("SUBSCRIBE weather\n")
    assert subscriber.wait_for("xx\n") == ["c> SUBSCRIBE OK", f"c> MESSAGE FROM weather : {TEXT_1024}"]


def test_13_a_topic_over_the_limit_is_not_subscribed_and_nothing_is_sent(lab: Place) -> None:
    subscriber = lab.subscriber()  # with no broker there: had it sent anything, that would have failed
    subscriber.write(f"SUBSCRIBE {TOPIC_128}x\n")
    assert subscriber.wait_for("sent.\n") == ["c> Warning: a topic has 1 to 128 bytes, this one 129; nothing was sent."]


def test_14_many_subscribers_in_parallel(up: Place) -> None:
    up.publish("weather", "one")
    subscribers = [up.subscriber() for _ in range(8)]
    for subscriber in subscribers:
        subscriber.write("SUBSCRIBE weather\n")
    for subscriber in subscribers:
        subscriber.wait_for("one\n")
    up.publish("weather", "two")
    for subscriber in subscribers:
        assert subscriber.wait_for("two\n") == [
            "c> SUBSCRIBE OK",
            "c> MESSAGE FROM weather : one",
            "c> MESSAGE FROM weather : two",
        ]


def test_15_many_editors_in_parallel_and_the_logs_too(up: Place) -> None:
    editors = [up.editor(f"topic{number % 3}", f"text {number}") for number in range(12)]
    assert [editor.end() for editor in editors] == [(0, [f"topic{n % 3} was published."]) for n in range(12)]
    due = Counter((f"topic{number % 3}".encode(), f"text {number}".encode()) for number in range(12))
    assert Counter(up.log()) == due


def test_16_any_operation_while_the_broker_is_down_gives_a_clear_error(lab: Place) -> None:
    down = f"The broker at {lab.broker_at}:{BROKER_PORT} cannot be reached."
    assert lab.editor("weather", "one").end() == (1, [down, "weather was not acknowledged."])
    subscriber = lab.subscriber()
    subscriber.write("SUBSCRIBE weather\nUNSUBSCRIBE weather\n\nnonsense\nQUIT\n")
    assert subscriber.end() == (
        0,
        [
            f"c> {down}",
            "c> SUBSCRIBE FAIL",
            f"c> {down}",
            "c> UNSUBSCRIBE FAIL",
            "c> Invalid input.",
            "c> Invalid input. Expected SUBSCRIBE topic, UNSUBSCRIBE topic or QUIT.",
        ],
    )


def test_the_words_service_is_down(up: Place) -> None:
    up.publish("weather", "7 and 42")
    subscriber = up.subscriber(words=True)
    subscriber.write("SUBSCRIBE weather\n")
    assert subscriber.wait_for("42\n") == [
        "c> SUBSCRIBE OK",
        f"c> Warning: the words service at {up.words_at}:4202 is down; numbers stay as they are.",
        "c> MESSAGE FROM weather : 7 and 42",
    ]


def test_a_restarted_broker_has_no_topics_and_a_quit_does_not_unsubscribe(lab: Place) -> None:
    lab.storage()
    first = lab.broker()
    lab.publish("weather", "one")
    subscriber = lab.subscriber()
    subscriber.write("SUBSCRIBE weather\nQUIT\n")
    assert subscriber.end()[0] == 0
    lab.publish("weather", "two")
    first.wait_for("refused a delivery and was removed.")
    assert not [line for line in first.lines if "unsubscribed" in line]
    first.kill()
    lab.broker()
    again = lab.subscriber()
    again.write("SUBSCRIBE weather\n")
    assert again.wait_for("FAIL") == ["c> SUBSCRIBE FAIL"]
    assert lab.log() == [(b"weather", b"one"), (b"weather", b"two")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["broker"], "expected -p PORT"),
        (["broker", "-p", "99999"], "-p: a port is a number from 1 to 65535, not '99999'"),
        (["broker", "-p", "4200", "--storage", "nowhere"], "--storage: expected HOST:PORT, not 'nowhere'"),
        (["editor", "-h", "127.0.0.1", "-p", "4200"], "expected -h HOST -p PORT -t TOPIC -m TEXT"),
        (["editor", "-h", "127.0.0.1", "-p", "4200", "-t", "x", "-m", "y", "more"], "unrecognized arguments: more"),
        (["subscriber", "-s", "127.0.0.1"], "expected -s HOST -p PORT"),
    ],
)
def test_a_wrong_command_line_is_told_before_anything_is_done(lab: Place, arguments: list[str], message: str) -> None:
    code, lines = lab.run(*arguments).end()
    assert code == 2
    assert message in lines[-1]

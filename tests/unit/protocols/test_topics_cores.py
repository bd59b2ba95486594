"""What broker, publisher and subscriber of topics say and send, without any impairment."""

from __future__ import annotations

import pytest
from simnet import Weather
from topicslab import BROKER, Lab, build, names, plan

from lab.protocols.core import Answered, Publication, PublishDone, Said
from lab.protocols.topics import texts
from lab.protocols.topics.broker import Broker
from lab.protocols.topics.core import Settings
from lab.protocols.topics.publisher import Publisher
from lab.protocols.topics.subscriber import Subscriber
from lab.protocols.topics.wire import NO_TOPIC, SIZE, WIRE, Message, Type, ack, decode, encode, payload

MODES = [Settings("none"), Settings("go-back-n")]
PEER, OTHER = ("10.0.1.9", 50000), ("10.0.1.10", 50000)
modes = pytest.mark.parametrize("settings", MODES, ids=lambda settings: settings.arq)


class Peer:
    """A well-behaved peer of a broker, by hand."""

    def __init__(self, broker: Broker, address: tuple[str, int] = PEER) -> None:
        self.broker = broker
        self.address = address
        self.seq = 0

    def ask(self, kind: Type, topic: int, text: bytes) -> list[tuple[str, int, str]]:
        data = encode(Message(kind, topic, text), self.seq)
        self.seq += self.broker.settings.reliable
        self.broker.receive_datagram(data, self.address, 0.0)
        answers = []
        for datagram in self.broker.datagrams_to_send(0.0):
            message = decode(datagram.data)
            assert message is not None
            answers.append((message.type.name, message.topic, message.text))
            if message.type is not Type.ACK:
                self.broker.receive_datagram(ack(datagram.data), datagram.address, 0.0)
        return answers

    def outcome(self, kind: Type, topic: int, text: bytes) -> str:
        return self.ask(kind, topic, text)[-1][2]


def said(broker: Broker) -> list[str]:
    return [event.text for event in iter(broker.next_event, None) if isinstance(event, Said)]


@modes
def test_every_request_gets_ack_then_outcome(settings: Settings) -> None:
    broker = Broker(settings)
    peer = Peer(broker)
    steps = [
        (Type.CREATION, 0, b"weather in May", "Topic creation successful."),
        (Type.CREATION, 0, b"weather in May", "Topic creation successful."),  # a repeat
        (Type.CREATION, 1, b"weather in May", "This topic already exists."),
        (Type.CREATION, NO_TOPIC, b"sport", "Invalid input."),
        (Type.CREATION, 1, b"", "Invalid input."),
        (Type.PUBLICATION, 0, b"rain", "Publication successful."),
        (Type.PUBLICATION, 1, b"rain", "This topic does not exist."),
        (Type.PUBLICATION, NO_TOPIC, b"rain", "This topic does not exist."),
        (Type.SUBSCRIPTION, NO_TOPIC, b"sport", "This topic does not exist."),
        (Type.SUBSCRIPTION, NO_TOPIC, b"weather in May", "Subscription successful."),
        (Type.SUBSCRIPTION, NO_TOPIC, b"weather in May", "Subscription successful."),
        (Type.UNSUBSCRIPTION, NO_TOPIC, b"sport", "This topic does not exist."),
        (Type.UNSUBSCRIPTION, NO_TOPIC, b"weather in May", "Unsubscription successful."),
        (Type.UNSUBSCRIPTION, NO_TOPIC, b"weather in May", "This topic does not exist."),
    ]
    for kind, topic, text, outcome in steps:
        assert peer.ask(kind, topic, text) == [("ACK", topic, text.decode()), ("MESSAGE", topic, outcome)]
    assert said(broker) == [
        "Topic weather in May was created.",
        "A new subscriber subscribed to weather in May.",
        "A subscriber unsubscribed from weather in May.",
    ]
    assert (broker.counters["published"], broker.counters["refused"]) == (1, 2)


def test_an_ack_is_the_datagram_with_only_its_type_changed() -> None:
    broker = Broker(Settings("none"))
    data = encode(Message(Type.SUBSCRIPTION, NO_TOPIC, b"x m-producer1-1-0badcafe"), 0)
    broker.receive_datagram(data, PEER, 0.0)
    assert broker.datagrams_to_send(0.0)[0].data == b"\x01" + data[1:]
    assert len(data) == SIZE == 1400


@modes
def test_two_publishers_may_both_own_number_0(settings: Settings) -> None:
    broker = Broker(settings)
    one, two = Peer(broker), Peer(broker, OTHER)
    reader = Peer(broker, ("10.0.2.9", 50002))
    assert one.outcome(Type.CREATION, 0, b"a") == two.outcome(Type.CREATION, 0, b"b") == "Topic creation successful."
    reader.ask(Type.SUBSCRIPTION, NO_TOPIC, b"a")
    assert [kind for kind, _, _ in two.ask(Type.PUBLICATION, 0, b"of b")] == ["ACK", "MESSAGE"]
    answers = one.ask(Type.PUBLICATION, 0, b"of a")
    assert answers == [("ACK", 0, "of a"), ("PUBLICATION", 0, "of a"), ("MESSAGE", 0, "Publication successful.")]
    assert said(broker)[-1] == "Topic a was published."


@modes
def test_a_number_is_what_its_publisher_announced_last(settings: Settings) -> None:
    broker = Broker(settings)
    peer = Peer(broker)
    peer.ask(Type.CREATION, 0, b"a")
    assert peer.outcome(Type.CREATION, 0, b"b") == "Topic creation successful."
    assert broker.name_of(PEER, 0) == b"b"


@modes
def test_a_publication_is_passed_on_as_received_once_for_each_subscriber(settings: Settings) -> None:
    lab = build(settings, subscribers=3)
    lab.subscribe(*lab.every)
    before = len(lab.net.wire)
    lab.publishers["p1"].publish_one("p1 news 1", "rain \x1b[2J", lab.net.now)
    lab.net.run()
    sent = [d.data for _, host, d in lab.net.wire[before:] if host == "10.0.1.3" and d.data[0] == Type.PUBLICATION]
    passed = [d.data for _, host, d in lab.net.wire[before:] if host == BROKER[0] and d.data[0] == Type.PUBLICATION]
    assert [data[2:] for data in passed] == [sent[0][2:]] * 3
    assert lab.net.said(BROKER[0])[-3:] == ["Topic p1 news 1 was published."] * 3
    assert lab.net.shown("10.0.2.3") == ["rain \\x1b[2J"]


@modes
def test_a_refused_creation_uses_up_no_number(settings: Settings) -> None:
    lab = build(settings, publishers=2)
    publisher = lab.publishers["p1"]
    for topic in ("p2 news 0", "mine", "mine"):
        publisher.create(topic, lab.net.now)
    lab.net.run()
    assert publisher.topics == {"p1 news 0": 0, "p1 news 1": 1, "mine": 2}
    answers = [event for event in lab.net.events["10.0.1.3"] if isinstance(event, Answered)][-3:]
    assert [(one.topic, one.ok, one.already) for one in answers] == [
        ("p2 news 0", False, False),  # another's: nothing can be published there
        ("mine", True, False),
        ("mine", False, True),
    ]


@modes
def test_what_a_publisher_did_not_create_is_refused_there(settings: Settings) -> None:
    lab = build(settings)
    publisher = lab.publishers["p1"]
    before = len(lab.net.wire)
    messages = [Publication("nobody's", "x"), Publication("p1 news 0", "y")]
    publisher.workload(messages, None, lab.net.now)
    lab.net.run()
    assert lab.net.said("10.0.1.3") == ["This topic does not exist."]
    assert lab.net.events["10.0.1.3"][-1] == PublishDone(planned=1, sent=1, refused=1, unanswered=0)
    sent = [d for _, host, d in lab.net.wire[before:] if host == "10.0.1.3" and d.data[0] != Type.ACK]
    assert len(sent) == 1


@modes
def test_subscribing_twice_delivers_once_and_unsubscribing_ends_it(settings: Settings) -> None:
    lab = build(settings, publishers=2, subscribers=2)
    lab.subscribe(*lab.every)
    lab.subscribe(*lab.every)
    lab.publish(6)
    for shown in lab.shown().values():
        for name in lab.publishers:
            assert [text for text in shown if f"m-{name}-" in text] == [text for _, text in plan(name, 6)]
    subscriber = lab.subscribers["10.0.2.3"]
    lab.in_peace(lambda: [subscriber.unsubscribe(topic, lab.net.now) for topic in lab.every[1:]] and None)
    lab.publishers["p1"].publish(plan("p1", 4), 100.0, lab.net.now)
    lab.net.run()
    assert len(lab.net.shown("10.0.2.3")) == 12 + 2
    assert len(lab.net.shown("10.0.2.4")) == 12 + 4
    assert subscriber.topics == {"p1 news 0"}


def test_without_arq_a_lost_answer_costs_the_reply_timeout_and_the_job_goes_on() -> None:
    lab = build(Settings("none", reply_timeout_s=0.25))
    del lab.net.hosts[BROKER[0]]
    start = lab.net.now
    lab.publish(3)
    times = [t - start for t, host, d in lab.net.wire if host == "10.0.1.3" and d.data[0] == Type.PUBLICATION]
    assert times == pytest.approx([0.0, 0.25, 0.5])
    assert lab.net.said("10.0.1.3") == ["No answer."] * 3
    assert lab.net.events["10.0.1.3"][-1] == PublishDone(3, 3, 0, 3)


def test_never_waits_for_ever() -> None:
    lab = build(Settings.from_options({"reply_timeout_s": "never"}))
    del lab.net.hosts[BROKER[0]]
    lab.publish(3)
    assert lab.net.said("10.0.1.3") == []
    assert lab.publishers["p1"].get_timer() is None


def test_a_message_of_20000_bytes() -> None:
    lab = build(Settings("go-back-n"), subscribers=2)
    lab.subscribe(*lab.every)
    lab.publish(3, filler="x" * 20_000)
    due = [text for _, text in plan("p1", 3, filler="x" * 20_000)]
    assert list(lab.shown().values()) == [due, due]
    sizes = {len(d.data) for _, _, d in lab.net.wire}
    assert sizes == {SIZE}
    announced = [decode(d.data) for _, _, d in lab.net.wire if d.data[0] == Type.RTS]
    assert len(announced) == 3 * 3  # to the broker, and from it to each subscriber


def test_without_arq_a_long_message_is_refused_before_anything_is_sent() -> None:
    lab = build(Settings("none"))
    with pytest.raises(ValueError, match="at most 1394 bytes"):
        lab.publishers["p1"].publish_one("p1 news 0", "x" * 1395, lab.net.now)
    assert len(payload("x" * 1394)) == 1394


def test_go_back_n_gives_a_dead_broker_up_and_says_so() -> None:
    lab = build(Settings("go-back-n", window=4))
    del lab.net.hosts[BROKER[0]]
    start = lab.net.now
    lab.publish(10)
    assert lab.net.events["10.0.1.3"][-1] == PublishDone(10, 4, 0, 4)
    assert lab.net.said("10.0.1.3") == ["No answer."] * 4
    assert lab.net.now - start == pytest.approx(15.8, abs=0.1)


def test_a_dead_subscriber_is_dropped_and_stalls_nobody() -> None:
    lab = build(Settings("go-back-n"), subscribers=2)
    lab.subscribe(*lab.every)
    del lab.net.hosts["10.0.2.4"]
    start = lab.net.now
    lab.publish(200)
    assert len(lab.net.shown("10.0.2.3")) == 200
    to = [t for t, _, d in lab.net.wire if d.address[0] == "10.0.2.3" and d.data[0] == Type.PUBLICATION]
    assert max(to) - start < 0.5
    assert [*lab.broker.wishes] == [("10.0.2.3", 50002)]
    assert "10.0.2.4:50002 did not answer and was dropped." in lab.net.said(BROKER[0])


@modes
@pytest.mark.parametrize("before", [1, 10, 100])
def test_a_restarted_publisher_announces_its_topics_again(settings: Settings, before: int) -> None:
    lab = build(settings)
    lab.subscribe(*lab.every)
    lab.publish(before)
    lab.net.now += 2.0
    lab.publishers["p1"] = publisher = Publisher(settings, BROKER)
    lab.net.add("10.0.1.3", publisher)
    start = lab.net.now
    lab.create()
    assert lab.net.now - start < 0.5
    assert publisher.topics == {"p1 news 0": 0, "p1 news 1": 1}
    lab.publish(2)
    assert len(lab.net.shown("10.0.2.3")) == before + 2


@pytest.mark.parametrize("subscribes_first", [True, False])
@pytest.mark.parametrize("before", [5, 100, 300])
def test_a_restarted_subscriber_subscribes_again_and_gets_each_once(before: int, subscribes_first: bool) -> None:
    lab = build(Settings("go-back-n"))
    lab.subscribe(*lab.every)
    lab.publish(before)
    lab.net.now += 2.0
    subscriber = lab.subscribers["10.0.2.3"] = Subscriber(Settings("go-back-n"), BROKER)
    lab.net.add("10.0.2.3", subscriber)
    start = lab.net.now
    if subscribes_first:
        lab.subscribe(*lab.every)
    lab.publish(5)
    if not subscribes_first:
        lab.subscribe(*lab.every)
        lab.publish(5)
    assert lab.net.now - start < 1.0
    assert subscriber.counters["shown"] == 5


@pytest.mark.parametrize("before", [5, 100, 300])
def test_a_restarted_broker_refuses_at_once_what_it_does_not_know(before: int) -> None:
    lab = build(Settings("go-back-n"))
    lab.publish(before)
    lab.net.now += 2.0
    start = lab.net.now
    lab.broker = Broker(Settings("go-back-n"))
    lab.net.add(BROKER[0], lab.broker)
    lab.publish(5)
    assert lab.net.events["10.0.1.3"][-1] == PublishDone(5, 5, 5, 0)
    assert lab.net.now - start < 1.0
    lab.create()
    lab.publish(5)
    assert lab.net.events["10.0.1.3"][-1] == PublishDone(5, 5, 0, 0)


def test_peers_that_hold_nothing_make_room() -> None:
    broker = Broker(Settings("none"), max_peers=3)
    asking = encode(Message(Type.SUBSCRIPTION, NO_TOPIC, b"nothing"), 0)
    for last in range(10):
        broker.receive_datagram(asking, ("10.9.9.9", 1000 + last), 0.0)
    assert len(broker._links) == 3
    holding = [("10.0.1.1", 1), ("10.0.1.2", 2), ("10.0.1.3", 3)]
    for number, address in enumerate(holding):
        broker.receive_datagram(encode(Message(Type.CREATION, 0, b"t%d" % number), 0), address, 0.0)
    assert set(broker._links) == set(holding)
    broker.receive_datagram(asking, ("10.9.9.9", 1), 0.0)
    assert broker.counters["ignored"] == 1


def test_what_was_given_up_makes_room_too() -> None:
    lab = build(Settings("go-back-n"))
    broker = Broker(Settings("go-back-n"), max_peers=1)
    lab.net.add(BROKER[0], broker)
    lost = ("10.9.9.9", 50000)
    broker.receive_datagram(encode(Message(Type.CREATION, 0, b"a"), 0), lost, lab.net.now)
    lab.net.run()  # nobody acknowledges the outcome
    broker.receive_datagram(encode(Message(Type.CREATION, 0, b"b"), 0), OTHER, lab.net.now)
    assert set(broker._links) == {OTHER}
    assert lost not in broker.numbers
    assert broker.topics.keys() == {b"a", b"b"}  # a topic stays


@modes
def test_answered_events_tell_refusal_from_silence(settings: Settings) -> None:
    lab = build(settings)
    subscriber = lab.subscribers["10.0.2.3"]
    subscriber.request("subscribe", "nothing", lab.net.now)
    lab.net.run()
    del lab.net.hosts[BROKER[0]]
    subscriber.request("subscribe", "p1 news 0", lab.net.now)
    lab.net.run()
    assert [event for event in lab.net.events["10.0.2.3"] if isinstance(event, Answered)] == [
        Answered("SUBSCRIPTION", "nothing", False, texts.NO_SUCH_TOPIC),
        Answered("SUBSCRIPTION", "p1 news 0", False, None),
    ]
    assert subscriber.topics == {"p1 news 0"}  # it may be subscribed: only the answer is missing


@pytest.mark.parametrize("topic", ["", "x" * 1395, "ends with NUL\0"])
def test_impossible_names(topic: str) -> None:
    lab = build(Settings("none"))
    with pytest.raises(ValueError, match=r"topic|text"):
        lab.subscribers["10.0.2.3"].request("subscribe", topic, 0.0)
    with pytest.raises(ValueError, match=r"topic|text"):
        lab.publishers["p1"].request("create", topic, 0.0)
    with pytest.raises(ValueError, match="not something"):
        lab.publishers["p1"].request("subscribe", "x", 0.0)


def test_a_broker_says_what_it_does_when_a_person_watches() -> None:
    broker = Broker(Settings("none", chatter=True))
    broker.start(0.0)
    Peer(broker).ask(Type.CREATION, 0, b"a")
    assert said(broker) == ["Waiting for packets on port 50001.", "Sent ACK.", "Topic a was created."]


def test_ports() -> None:
    lab: Lab = build(Settings("none"))
    lab.subscribe(*names("p1"))
    lab.publish(2)
    ends = {(host, d.local) for _, host, d in lab.net.wire}
    assert ends == {("10.0.0.2", 50001), ("10.0.1.3", 50000), ("10.0.2.3", 50002)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arq": "sliding-window"}, "option arq: none or go-back-n, not 'sliding-window'"),
        ({"window": "0"}, "option window: a number from 1 to 127, not '0'"),
        ({"colour": "red"}, "option colour: topics has only arq, reply_timeout_s, window"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings.from_options(options)


def test_the_same_weather_is_fair_to_a_fourth_subscriber() -> None:
    lab = build(Settings("go-back-n", window=16), subscribers=4, seed=3, weather=Weather(loss=0.1))
    lab.subscribe(*lab.every)
    lab.publish(40)
    assert {len(shown) for shown in lab.shown().values()} == {40}
    assert WIRE.size == SIZE

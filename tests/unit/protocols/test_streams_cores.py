"""What broker, producer and consumer say and send, without any impairment."""

import pytest
from simnet import SimNet, Weather
from streamslab import BROKER, build, plan

from lab.protocols.core import Answered, Publication, PublishDone
from lab.protocols.streams.broker import Broker
from lab.protocols.streams.core import Settings
from lab.protocols.streams.producer import Producer
from lab.protocols.streams.wire import Content, Header, subscribe

PRODUCER, CONSUMER, OTHER = ("10.9.1.1", 50000), ("10.9.2.1", 50003), ("10.9.2.2", 50003)


class Talk:
    """A broker by hand: packets in hexadecimal, and what it sends, by whom to."""

    def __init__(self, broker: Broker | None = None) -> None:
        self.broker = broker or Broker(Settings())
        self.now = 0.0

    def __call__(self, addr: tuple[str, int], *packets: str) -> list[tuple[str, str]]:
        for packet in packets:
            self.broker.receive_datagram(bytes.fromhex(packet), addr, self.now)
        return self.sent()

    def sent(self) -> list[tuple[str, str]]:
        names = {PRODUCER: "producer", CONSUMER: "consumer", OTHER: "other"}
        return [(names[one.address], one.data.hex()) for one in self.broker.datagrams_to_send(self.now)]

    def wait(self, seconds: float) -> list[tuple[str, str]]:
        end = self.now + seconds
        while (timer := self.broker.get_timer()) is not None and timer <= end:
            self.now = max(self.now, timer)
            self.broker.handle_timer(self.now)
        self.now = end
        return self.sent()


@pytest.fixture
def talk() -> Talk:
    found = Talk()
    found(PRODUCER, "a00000", "22", "a00001c655")
    return found


def test_registration(talk: Talk) -> None:
    talk = Talk()
    assert talk(PRODUCER, "a00000") == [("producer", "11"), ("producer", "a00001")]
    assert talk(PRODUCER, "a00000") == [("producer", "11"), ("producer", "a00001")]  # the same address, the same id
    assert talk.wait(2.5) == [("producer", "a00001")] * 2
    assert talk(PRODUCER, "22") == []
    assert talk.wait(60) == []
    assert talk(OTHER, "a00000") == [("other", "11"), ("other", "a00002")]
    assert talk(OTHER, "a0000201aa") == []
    assert talk.wait(60) == [("other", "a00002")] * 9  # never confirmed, but used: it stays known
    assert list(talk.broker.producers) == [1, 2]


def test_an_id_that_nobody_confirms_is_forgotten() -> None:
    talk = Talk()
    talk(PRODUCER, "a00000")
    talk.wait(60)
    assert not talk.broker.producers
    assert talk(PRODUCER, "a00000")[1] == ("producer", "a00002")


def test_the_list(talk: Talk) -> None:
    assert talk(CONSUMER, "900000") == [("consumer", "33"), ("consumer", "900000a00001c655")]
    assert Talk()(CONSUMER, "900000") == [("consumer", "33"), ("consumer", "900000")]


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ("90 00 01 c6 aa", "44"),
        ("90 00 01 c6 55", "44"),
        ("90 00 01 c7 55", "66"),  # no such stream
        ("90 00 02 c6 55", "66"),  # no such producer
        ("90 00 01 99 00", "44"),  # every stream of a known producer
        ("90 00 02 99 55", "66"),
        ("90 00 01 00 55", "66"),
        ("90 00 01 c6 12", None),  # no such content: it is no packet, so it is ignored
    ],
)
def test_subscriptions(talk: Talk, request_: str, answer: str | None) -> None:
    assert talk(CONSUMER, request_) == ([] if answer is None else [("consumer", answer)])


def test_a_type_that_a_stream_has_not_is_refused(talk: Talk) -> None:
    talk(PRODUCER, "a0000101ff")
    assert talk(CONSUMER, "90000101aa") == [("consumer", "66")]
    assert talk(CONSUMER, "90000101ff") == [("consumer", "44")]
    assert talk(OTHER, "9000010155") == [("other", "44")]


def test_one_type_of_a_stream_of_all_three(talk: Talk) -> None:
    talk(CONSUMER, "900001c6aa", "900001c6aa")  # again: nothing changes
    talk(OTHER, "900001c600", "900001c6ff")
    assert talk(PRODUCER, "a00001c6aa31") == [("consumer", "a00001c6aa31")]
    assert talk(PRODUCER, "a00001c60032") == [("other", "a00001c60032")]
    assert talk(PRODUCER, "a00001c6ff33") == [("other", "a00001c6ff33")]
    assert talk(PRODUCER, "a00001c65534") == []  # never a content packet


def test_every_stream_later_ones_too(talk: Talk) -> None:
    talk(CONSUMER, "90000199aa", "900001c6aa")
    assert talk(PRODUCER, "a00001c6aa31", "a0000105ff", "a0000105ff32") == [
        ("consumer", "a00001c6aa31"),
        ("consumer", "a0000105ff32"),
    ]


def test_a_stream_is_known_from_its_first_packet(talk: Talk) -> None:
    talk(PRODUCER, "a0000107aa31")
    assert ("consumer", "900000a00001c655a0000107aa") in talk(CONSUMER, "900000")
    assert talk(CONSUMER, "90000107ff") == [("consumer", "66")]
    talk(PRODUCER, "a0000107ff31")  # so it has sound as well
    assert talk(CONSUMER, "90000107ff") == [("consumer", "44")]


def test_the_end_waits_for_everyone_and_is_confirmed_again(talk: Talk) -> None:
    end = "a00001c65500454e4400"
    talk(CONSUMER, "900001c6aa")
    talk(OTHER, "9000019955")
    assert sorted(talk(PRODUCER, end)) == [("consumer", end), ("other", end)]
    assert talk(PRODUCER, end) == []  # it is still being told
    assert talk(CONSUMER, "88") == []
    assert talk.wait(1.5) == [("other", end)]
    assert talk(CONSUMER, "900001c655") == [("consumer", "44")]  # had it; the answer was lost
    assert talk(PRODUCER, "a00001c6aa31") == [("other", "a00001c6aa31"), ("consumer", "a00001c6aa31")]  # late
    assert talk(OTHER, "88") == [("producer", "18")]
    assert talk(PRODUCER, end) == [("producer", "18")]
    assert talk(PRODUCER, "a00001c6aa31") == []  # too late: it begins no new stream
    assert not talk.broker.streams
    assert talk(CONSUMER, "900001c655") == [("consumer", "66")]
    talk(PRODUCER, "a00001c6aa")  # announced anew
    assert list(talk.broker.streams) == [(1, 198)]


def test_a_stream_without_subscribers_ends_at_once(talk: Talk) -> None:
    assert talk(PRODUCER, "a00001c65500454e4400") == [("producer", "18")]
    assert talk(PRODUCER, "a00001c5aa00454e4400") == [("producer", "18")]  # it never was


def test_who_never_sees_the_end_is_dropped(talk: Talk) -> None:
    talk(CONSUMER, "900001c655")
    assert len(talk(PRODUCER, "a0000105aa", "a00001c65500454e4400")) == 1
    talk(CONSUMER, "90000105aa")
    sent = talk.wait(20)
    assert sent == [("consumer", "a00001c65500454e4400")] * 9 + [("producer", "18")]
    assert talk(PRODUCER, "a0000105aa31") == []
    assert talk.broker._subscriptions == 0


def test_only_the_producer_itself_counts(talk: Talk) -> None:
    talk(CONSUMER, "900001c655")
    for forged in ("a00001c6aa31", "a0000101aa", "a00001c65500454e4400", "a00002c6aa31"):
        assert talk(OTHER, forged) == []
    assert talk(PRODUCER, "a00002c6aa31", "a0000000aa31", "a0000199aa31", "a00001001231") == []
    assert list(talk.broker.streams) == [(1, 198)]


def test_a_producer_answers_repeated_ids_for_five_seconds() -> None:
    producer = Producer(Settings(), BROKER)
    producer.start(0.0)
    answers = []
    for now in (0.5, 3.0, 5.5, 5.6, 9.0):
        producer.datagrams_to_send(now)
        producer.receive_datagram(bytes.fromhex("a00007"), BROKER, now)
        answers.append([one.data.hex() for one in producer.datagrams_to_send(now)])
    assert answers == [["22"], ["22"], ["22"], [], []]
    assert producer.get_timer() is None  # the id was a confirmation too


def test_a_producer_whose_id_never_comes_asks_again_when_it_must() -> None:
    net = SimNet()
    producer = Producer(Settings(), BROKER)
    net.add("10.0.1.3", producer)
    net.run(limit_s=0.5)
    producer.receive_datagram(b"\x11", BROKER, net.now)
    net.run()
    assert net.said("10.0.1.3") == ["No answer."]
    assert len(net.wire) == 1
    producer.create("1", net.now)
    net.run()
    assert len(net.wire) == 11
    assert net.events["10.0.1.3"][-1] == Answered("ANNOUNCE", "1", False, None)
    producer.workload([Publication("1", "x")], 10.0, net.now)
    net.run()
    assert net.events["10.0.1.3"][-1] == PublishDone(1, 0, 0, 0)


def test_content_leaves_no_sooner_than_the_lead() -> None:
    lab = build(Settings(lead_s=1.5))
    lab.begin(2)
    lab.publish(10, 2, rate=50.0)
    times = {d.data[3]: [] for _, _, d in lab.net.wire if d.data[:3] == b"\xa0\0\1" and len(d.data) == 5}
    for time, host, d in lab.net.wire:
        if host == "10.0.1.3" and d.data[:3] == b"\xa0\0\1":
            times[d.data[3]].append((round(time, 3), len(d.data)))
    announced = times[1][0][0]
    assert times[1][1][0] == pytest.approx(announced + 1.5)
    assert [size for _, size in times[1]] == [5, *[size for _, size in times[1][1:-1]], 10]
    assert times[2][1][0] == pytest.approx(announced + 1.52)


def test_what_a_producer_cannot_do_is_refused_before_anything_is_sent() -> None:
    lab = build(Settings("none"))
    lab.begin(1)
    producer, sent = lab.producers["p1"], len(lab.net.wire)
    for message, what in (
        ("stream 2 is not running", [Publication("1", "x"), Publication("2", "x")]),
        ("at most 1467 bytes", [Publication("1", "x" * 1468)]),
        ("would announce", [Publication("1", "")]),
    ):
        with pytest.raises(ValueError, match=message):
            producer.workload(what, 10.0, lab.net.now)
    with pytest.raises(ValueError, match="more than 0"):
        producer.workload([], 0.0, lab.net.now)
    with pytest.raises(ValueError, match="the next one is 2, not '3'"):
        producer.create("3", lab.net.now)
    with pytest.raises(ValueError, match="not something this role can do"):
        producer.request("subscribe", "1", lab.net.now)
    lab.net.run()
    assert len(lab.net.wire) == sent


def test_a_stream_without_messages_ends_too() -> None:
    lab = build()
    lab.begin(3)
    lab.publish(1, 1)
    assert sum(text.endswith("has ended.") for text in lab.net.said("10.0.2.3")) == 3


def test_a_consumer_takes_a_topic_of_every_producer_and_never_twice() -> None:
    lab = build(producers=3)
    lab.begin(2, {"10.0.2.3": ("2",)})
    lab.consumers["10.0.2.3"].request("subscribe", "2", lab.net.now)
    lab.net.run(limit_s=5)
    assert [event.ok for event in lab.net.events["10.0.2.3"] if isinstance(event, Answered)] == [True, True]
    lab.publish(10, 2)
    due = sorted(one.text for name in lab.producers for one in plan(name, 10, 2) if one.topic == "2")
    assert sorted(lab.shown("10.0.2.3")) == due


def test_the_list_is_asked_for_until_it_has_something() -> None:
    lab = build()
    consumer = lab.consumers["10.0.2.3"]
    consumer.list_streams(0.0)
    consumer.take(0.0)
    lab.net.run(limit_s=3.5)
    assert consumer.busy
    lab.producers["p1"].begin_streams(Content.TEXT, lab.net.now)
    lab.net.run(lambda: not consumer.busy, limit_s=3)
    said = lab.net.said("10.0.2.3")
    assert said[0] == "Stream 1 of producer 1 is running (text)."
    assert said[-1] == "Subscription successful."
    assert 1 <= len(consumer.subscriptions) <= len(lab.broker.streams)
    asked = [round(t, 3) for t, host, d in lab.net.wire if host == "10.0.2.3" and d.data == b"\x90\0\0"]
    assert asked == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_an_empty_list_is_told_in_the_end() -> None:
    lab = build(producers=0)
    lab.consumers["10.0.2.3"].list_streams(0.0)
    lab.net.run()
    assert lab.net.said("10.0.2.3") == ["No streams are running."]


def test_ports_are_used_again_when_their_streams_are_long_over() -> None:
    lab = build(Settings(lead_s=0.1))
    consumer = lab.consumers["10.0.2.3"]
    lab.begin(1)
    for round_ in range(2, 12):
        lab.publish(2, 1) if round_ == 2 else lab.producers["p1"].end(round_ - 1, lab.net.now)
        lab.net.run(limit_s=10)
        lab.net.now += 6
        lab.producers["p1"].create(str(round_), lab.net.now)
        lab.net.run(limit_s=1)
        consumer.subscribe(Header(1, round_, Content.TEXT), lab.net.now)
        lab.net.run(limit_s=1)
    assert list(consumer.subscriptions) == [50003]
    assert lab.broker._subscriptions == 1


def test_too_many_subscriptions_are_told() -> None:
    lab = build()
    consumer = lab.consumers["10.0.2.3"]
    for producer in range(1, 514):
        consumer.subscribe(Header(producer, 1, Content.ALL), 0.0)
    assert "There are 512 subscriptions, which is all there can be." in [
        e.text for e in consumer._events if hasattr(e, "text")
    ]
    lab.net.run()
    assert not consumer.busy


def test_refused_subscriptions_are_told_and_their_ports_are_free() -> None:
    lab = build()
    consumer = lab.consumers["10.0.2.3"]
    consumer.subscribe(Header(4, 1, Content.ALL), 0.0)
    lab.net.run(limit_s=9)
    assert lab.net.events["10.0.2.3"][-1] == Answered("SUBSCRIBE", "4 1", False, "Subscription refused.")
    consumer.subscribe(Header(5, 1, Content.ALL), lab.net.now + 6)
    assert list(consumer.subscriptions) == [50003]


def test_a_producer_that_is_told_to_stop_ends_its_streams() -> None:
    lab = build()
    lab.begin(2)
    lab.producers["p1"].stop(lab.net.now)
    lab.net.run(limit_s=5)
    assert sum(text.endswith("has ended.") for text in lab.net.said("10.0.2.3")) == 2
    assert not lab.broker.streams


def test_a_producer_that_starts_again_has_the_same_id_and_goes_on() -> None:
    lab = build(Settings("protocol", lead_s=2.5))
    lab.begin(1)
    lab.producers["p1"].workload(plan("p1", 500, 1), 100.0, lab.net.now)
    lab.net.run(limit_s=4)
    lab.net.kill("10.0.1.3")
    again = lab.producers["p1"] = Producer(lab.producers["p1"].settings, BROKER, "10.0.1.3")
    lab.net.add("10.0.1.3", again)
    again.create("1", lab.net.now)
    lab.net.run(limit_s=0.5)
    again.workload(plan("again", 20, 1), 100.0, lab.net.now)
    lab.net.run()
    assert again.id == 1
    assert [text for text in lab.shown("10.0.2.3") if "again" in text] == [one.text for one in plan("again", 20, 1)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "mtu"}, "option split: none or ip or protocol, not 'mtu'"),
        ({"lead_s": "61"}, "option lead_s: a number from 0 to 60, not '61'"),
        ({"arq": "none"}, "option arq: streams has only content, lead_s, split"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings.from_options(options)


def test_a_forged_confirmation_counts_only_from_the_broker() -> None:
    lab = build(weather=Weather())
    consumer = lab.consumers["10.0.2.3"]
    consumer.subscribe(Header(1, 1, Content.TEXT), 0.0)
    consumer.receive_datagram(b"\x44", ("10.0.0.66", 50001), 0.0, 50003)
    assert consumer.busy
    assert consumer.datagrams_to_send(0.0)[0].data == subscribe(Header(1, 1, Content.TEXT))

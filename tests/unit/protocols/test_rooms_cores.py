"""What broker, publisher and subscriber say and send, without any impairment."""

import pytest
from roomslab import BROKER, Lab, build, plan
from simnet import SimNet

from lab.protocols.core import Answered, PublishDone
from lab.protocols.rooms import texts
from lab.protocols.rooms.broker import Broker
from lab.protocols.rooms.core import Settings, room_number
from lab.protocols.rooms.publisher import Publisher
from lab.protocols.rooms.wire import Message, Type, decode, encode

MODES = [Settings("none"), Settings("sliding-window")]
PEER = ("10.0.2.9", 50002)
modes = pytest.mark.parametrize("settings", MODES, ids=lambda settings: settings.arq)


def exchange(broker: Broker, *requests: Message, reliable: bool = False) -> list[tuple[str, int, str]]:
    """The broker's answers to a well-behaved peer."""
    answers = []
    for seq, request in enumerate(requests):
        broker.receive_datagram(encode(request, seq if reliable else 0), PEER, 0.0)
        for datagram in broker.datagrams_to_send(0.0):
            message = decode(datagram.data)
            assert message is not None
            answers.append((message.type.name, message.room, message.text))
            if message.type is not Type.ACK:
                broker.receive_datagram(b"\x01" + datagram.data[1:], PEER, 0.0)
    return answers


@pytest.mark.parametrize(
    ("request_", "answers"),
    [
        (Message(Type.NEW, 4, b"4"), [("ACK", 4, "4"), ("MES", 4, "Room 4 was created.")]),
        (Message(Type.NEW, 3, b"3"), [("ACK", 3, "3"), ("MES", 3, "This Room already exists.")]),
        (Message(Type.NEW, 4, b"5"), [("ACK", 4, "5"), ("MES", 4, "Invalid input.")]),
        (Message(Type.PUB, 1, b"t"), [("ACK", 1, "t"), ("MES", 1, "No one has Subscribed to this Room")]),
        (Message(Type.PUB, 9, b"t"), [("ACK", 9, "t"), ("MES", 9, "This Room does not exist.")]),
        (Message(Type.SUB, 1, b"1"), [("ACK", 1, "1"), ("MES", 1, "A new subscriber subscribed to 1.")]),
        (Message(Type.SUB, 9, b"9"), [("ACK", 9, "9"), ("MES", 9, "This Room does not exist.")]),
        (Message(Type.SUB, 1, b"2"), [("ACK", 1, "2"), ("MES", 2, "This Room does not exist.")]),
        (Message(Type.USUB, 0, b"1"), [("ACK", 0, "1"), ("MES", 1, "You are not subscribed to the room 1")]),
        (
            Message(Type.USUB, 0, b"x"),
            [("ACK", 0, "x"), ("MES", 2**31 - 1, "You are not subscribed to the room x")],
        ),
    ],
)
@modes
def test_every_request_gets_ack_then_outcome(
    settings: Settings, request_: Message, answers: list[tuple[str, int, str]]
) -> None:
    assert exchange(Broker(settings), request_, reliable=settings.reliable) == answers


@modes
def test_unsubscribing_gets_ack_brk_and_outcome(settings: Settings) -> None:
    broker = Broker(settings)
    subscribe = Message(Type.SUB, 1, b"1")
    answers = exchange(broker, subscribe, Message(Type.USUB, 0, b"1"), reliable=settings.reliable)
    assert answers[2:] == [("ACK", 0, "1"), ("BRK", 0, "1"), ("MES", 1, "A subscriber unsubscribed from 1.")]
    assert broker.rooms[1] == {}


@modes
def test_a_publication_is_passed_on_as_received_before_the_outcome(settings: Settings) -> None:
    broker = Broker(settings)
    raw = b"\xff\x00\xfe binary \x01"
    answers = exchange(broker, Message(Type.SUB, 2, b"2"), Message(Type.PUB, 2, raw), reliable=settings.reliable)
    assert [kind for kind, _, _ in answers[2:]] == ["ACK", "PUB", "MES"]
    assert answers[3] == ("PUB", 2, Message(Type.PUB, 2, raw).text)
    said = [event.text for event in iter(broker.next_event, None) if hasattr(event, "text")]
    assert said == ["A new subscriber subscribed to 2.", "Room 2 was published."]


@modes
def test_subscribing_twice_delivers_once(settings: Settings) -> None:
    lab = build(settings)
    lab.subscribe(1)
    lab.subscribe(1)
    lab.publish(3, (1,))
    assert lab.net.shown("10.0.2.3") == [text for _, text in plan("p1", 3, (1,))]


@modes
def test_many_rooms_many_subscribers(settings: Settings) -> None:
    lab = build(settings, publishers=2, subscribers=3)
    lab.subscribe(1, 2, 3)
    lab.publish(30, (1, 2, 3))
    for host, subscriber in lab.subscribers.items():
        shown = lab.net.shown(host)
        for name in ("p1", "p2"):
            assert [t for t in shown if f"m-{name}-" in t] == [t for _, t in plan(name, 30, (1, 2, 3))]
        assert subscriber.counters["shown"] == 60
    ports = {d.local for _, host, d in lab.net.wire if host == "10.0.2.3"}
    assert ports == {50002, 50003, 50004}
    assert lab.broker.counters["published"] == 60
    assert lab.broker.counters["forwarded"] == 180
    assert lab.broker.counters["retransmitted"] == 0


@modes
def test_unsubscribed_rooms_are_not_shown(settings: Settings) -> None:
    lab = build(settings)
    lab.subscribe(1, 2)
    lab.subscribers["10.0.2.3"].unsubscribe(1, lab.net.now)
    lab.net.run()
    lab.publish(4, (1, 2))
    assert lab.net.shown("10.0.2.3") == [text for room, text in plan("p1", 4, (1, 2)) if room == 2]
    done = lab.net.events["10.0.1.3"][-1]
    assert done == PublishDone(planned=4, sent=4, refused=2, unanswered=0)


def job_times(lab: Lab) -> list[float]:
    return [t for t, host, d in lab.net.wire if host == "10.0.1.3" and d.data[0] == Type.PUB]


def test_without_arq_the_publisher_waits_for_each_answer_and_keeps_the_rate() -> None:
    lab = build(Settings("none"))
    lab.subscribe(1)
    lab.publish(5, (1,), rate=10.0)
    gaps = [b - a for a, b in zip(job_times(lab), job_times(lab)[1:], strict=False)]
    assert gaps == pytest.approx([0.1] * 4)


def test_without_arq_a_lost_answer_costs_the_reply_timeout_and_the_job_goes_on() -> None:
    lab = build(Settings("none", reply_timeout_s=0.25))
    del lab.net.hosts[BROKER[0]]
    lab.publish(3, (1,), rate=100.0)
    assert job_times(lab) == pytest.approx([0.0, 0.25, 0.5])
    assert lab.net.said("10.0.1.3") == ["No answer."] * 3
    assert lab.net.events["10.0.1.3"][-1] == PublishDone(3, 3, 0, 3)


def test_never_waits_for_ever() -> None:
    lab = build(Settings.from_options({"reply_timeout_s": "never"}))
    del lab.net.hosts[BROKER[0]]
    lab.publish(3, (1,))
    assert len(job_times(lab)) == 1
    assert lab.net.said("10.0.1.3") == []
    assert lab.publishers["p1"].get_timer() is None


def test_sliding_window_pipelines_on_schedule_and_catches_up_when_late() -> None:
    lab = build(Settings("sliding-window", window=8))
    lab.subscribe(1)
    lab.net.now = start = 100.0
    publisher = lab.publishers["p1"]
    publisher.publish(plan("p1", 20, (1,)), 100.0, start)
    lab.net.collect()
    lab.net.now = 100.055
    publisher.handle_timer(lab.net.now)  # nobody called it in time: five more are due
    lab.net.run()
    times = [round(t - start, 3) for t in job_times(lab)]
    assert times == [0.0, *[0.055] * 5, *[round(0.01 * i, 3) for i in range(6, 20)]]


def test_sliding_window_gives_a_dead_broker_up_and_says_so() -> None:
    lab = build(Settings("sliding-window", window=4))
    del lab.net.hosts[BROKER[0]]
    lab.publish(10, (1,))
    assert lab.net.events["10.0.1.3"][-1] == PublishDone(10, 4, 0, 4)
    assert lab.net.said("10.0.1.3") == ["No answer."] * 4
    assert lab.net.now == pytest.approx(15.8, abs=0.1)
    assert lab.publishers["p1"].get_timer() is None


def test_a_dead_subscriber_is_dropped_and_stalls_nobody() -> None:
    lab = build(Settings("sliding-window"), subscribers=2)
    lab.subscribe(1)
    del lab.net.hosts["10.0.2.4"]
    lab.publish(200, (1,))
    assert len(lab.net.shown("10.0.2.3")) == 200
    last = max(t for t, host, d in lab.net.wire if d.address[0] == "10.0.2.3" and d.data[0] == Type.PUB)
    assert last < 0.5
    assert list(lab.broker.rooms[1]) == [("10.0.2.3", 50002)]
    assert lab.net.said(BROKER[0])[-1] == "10.0.2.4:50002 did not answer and was dropped."


@pytest.mark.parametrize("before", [1, 10, 100, 230, 300])
def test_a_restarted_publisher_is_heard_again(before: int) -> None:
    settings = Settings("sliding-window")
    lab = build(settings)
    lab.subscribe(1)
    lab.publish(before, (1,))
    lab.publishers["p1"] = Publisher(settings, BROKER)
    lab.net.add("10.0.1.3", lab.publishers["p1"])
    for _attempt in range(3):
        lab.publishers["p1"].publish(plan("again", 3, (1,)), 100.0, lab.net.now)
        lab.net.run()
        done = lab.net.events["10.0.1.3"][-1]
        if done == PublishDone(3, 3, 0, 0):
            break
    assert done == PublishDone(3, 3, 0, 0)
    assert [t for t in lab.net.shown("10.0.2.3") if "again" in t][-3:] == [t for _, t in plan("again", 3, (1,))]


def test_peers_are_bounded_and_the_idle_make_room() -> None:
    broker = Broker(Settings("sliding-window"), max_peers=3)
    net = SimNet()
    for number in range(10):
        broker.receive_datagram(encode(Message(Type.SUB, 1, b"1"), 0), (f"10.9.9.{number}", 50002), 0.0)
    assert len(broker.rooms[1]) == 3  # all subscribed: strangers are ignored
    assert broker.counters["ignored"] == 7
    net.add(BROKER[0], broker)
    net.run()  # nobody acknowledges: dropped, so that there is room again
    assert not broker.rooms[1]
    broker.receive_datagram(encode(Message(Type.SUB, 1, b"1"), 0), ("10.9.9.77", 50002), net.now)
    assert list(broker.rooms[1]) == [("10.9.9.77", 50002)]


def test_answered_events_tell_refusal_from_silence() -> None:
    lab = build(Settings("none"))
    subscriber = lab.subscribers["10.0.2.3"]
    subscriber.subscribe(9, 0.0)
    lab.net.run()
    del lab.net.hosts[BROKER[0]]
    subscriber.subscribe(1, lab.net.now)
    lab.net.run()
    answers = [event for event in lab.net.events["10.0.2.3"] if isinstance(event, Answered)]
    assert answers == [
        Answered("SUB", "9", False, texts.NO_SUCH_ROOM),
        Answered("SUB", "1", False, None),
    ]
    assert subscriber.rooms == {1}  # it may be subscribed: only the answer is missing


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arq": "go-back-n"}, "option arq: none or sliding-window, not 'go-back-n'"),
        ({"window": "128"}, "option window: a number from 1 to 127, not '128'"),
        ({"window": "2.5"}, "option window: a whole number, not '2.5'"),
        ({"reply_timeout_s": "soon"}, "option reply_timeout_s: a number from 0.001 to 3600, not 'soon'"),
        ({"colour": "red"}, "option colour: rooms has only arq, reply_timeout_s, window"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings.from_options(options)


@pytest.mark.parametrize(("name", "number"), [("1", 1), ("15534", 15534), ("15535", None), ("0", None), ("01", None)])
def test_room_names(name: str, number: int | None) -> None:
    assert room_number(name) == number
    assert room_number(name + "x") is None
    assert room_number("٣") is None

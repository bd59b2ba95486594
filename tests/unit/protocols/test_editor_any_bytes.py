"""Any bytes from anywhere: no core ever raises, none grows without bound."""

from __future__ import annotations

import random

from editorlab import BROKER, STORAGE, WORDS, Shelf, spell
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.protocols.core import Abort, Action, Close, Connect, Core, Send
from lab.protocols.editor import http, rpc, soap, wire
from lab.protocols.editor.broker import Broker
from lab.protocols.editor.publisher import Publisher
from lab.protocols.editor.settings import Settings
from lab.protocols.editor.storage import Storage
from lab.protocols.editor.subscriber import Subscriber
from lab.protocols.editor.words import Words

topics = st.sampled_from([b"weather", b"", b"t" * 128, b"t" * 129, "é".encode(), b"\xff\xfe"])
numbers = st.sampled_from([b"40000", b"0", b"65536", b"-1", b"x", b"9" * 30])
requests = st.one_of(
    st.binary(max_size=300),
    st.builds(lambda t, x: b"PUBLISH\0" + t + b"\0" + x + b"\0", topics, st.binary(max_size=1100)),
    st.builds(
        lambda v, t, p: v + t + b"\0" + p + b"\0", st.sampled_from([b"SUBSCRIBE\0", b"UNSUBSCRIBE\0"]), topics, numbers
    ),
)
calls = st.one_of(
    st.binary(max_size=300),
    st.builds(
        rpc.call,
        st.integers(0, 2**32 - 1),
        st.sampled_from(rpc.Procedure),
        st.binary(max_size=60),
    ),
    st.builds(
        lambda s, n, t, x: rpc.call(
            1, rpc.Procedure.APPEND, rpc.hyper(s) + rpc.hyper(n) + rpc.opaque(t) + rpc.opaque(x)
        ),
        st.integers(0, 2**64 - 1),
        st.integers(0, 9),
        topics,
        st.binary(max_size=60),
    ),
)
replies = st.one_of(
    st.binary(max_size=300),
    st.builds(lambda n, r: rpc.reply(n, rpc.Accepted.SUCCESS, r), st.integers(0, 9), st.binary(max_size=30)),
    st.builds(
        lambda n, s: rpc.reply(n, rpc.Accepted.SUCCESS, rpc.uints(s) + rpc.hyper(5)),
        st.integers(0, 9),
        st.integers(0, 3),
    ),
    st.builds(rpc.reply, st.integers(0, 9), st.sampled_from(rpc.Accepted)),
)
web = st.one_of(
    st.binary(max_size=300),
    st.text(max_size=60).map(lambda text: http.request("/words", "w", soap.request(text), {})),
    st.binary(max_size=60).map(lambda body: http.request("/words", "w", body, {"Connection": "close"})),
    st.text(max_size=60).map(lambda text: http.answer(200, "text/xml", soap.answer(text))),
    st.sampled_from([200, 404, 500]).map(lambda status: http.answer(status, "text/plain", b"x", last=True)),
)


def drive(core: Core, now: float) -> list[Action]:
    while core.next_event() is not None:
        pass
    return core.actions_to_take(now)


def cut(data: bytes, rng: random.Random) -> list[bytes]:
    at = rng.randint(0, len(data))
    return [piece for piece in (data[:at], data[at:]) if piece]


Steps = list[tuple[bytes, int, float]]


def steps(data: st.SearchStrategy[bytes]) -> st.SearchStrategy[Steps]:
    return st.lists(st.tuples(data, st.integers(0, 7), st.floats(0, 20)), max_size=25)


def feed(core: Core, script: Steps, names: list[int | str], address: tuple[str, int]) -> None:
    """Bytes to connections, old and new, and everything else that can happen to them."""
    rng, now = random.Random(len(script)), 0.0
    for data, what, wait in script:
        if core.listeners and len(names) < 20:
            accepted = core.accepted(core.listeners[0].name, address, now)
            names += [accepted] if accepted is not None else []
        for action in drive(core, now):
            if isinstance(action, Connect):
                names.append(action.connection)
                core.connected(action.connection, now)
        name = rng.choice(names) if names else 0
        if what < 5:
            for piece in cut(data, rng):
                core.receive_bytes(name, piece, now)
        elif what == 5:
            core.peer_finished(name, now)
        else:
            core.closed(name, rng.choice(("closed", "lost", "refused", "aborted")), now)
        now += wait
        timer = core.get_timer()
        if timer is not None and timer <= now:
            core.handle_timer(now)
    drive(core, now)


@settings(max_examples=150)
@given(steps(requests | replies))
def test_a_broker_never_raises(script: Steps) -> None:
    core = Broker(Settings(), STORAGE)
    core.start(0.0)
    core.connected("storage", 0.0)
    core.receive_bytes("storage", rpc.reply(1, rpc.Accepted.SUCCESS, rpc.uints(0) + rpc.hyper(1)), 0.0)
    assert core.archive.session == 1
    feed(core, script, ["storage", "storage"], ("10.0.2.9", 1))


@settings(max_examples=150)
@given(steps(calls))
def test_a_storage_never_raises(script: Steps) -> None:
    feed(Storage(Shelf()), script, [], ("10.0.3.2", 1))


@settings(max_examples=150)
@given(steps(web))
def test_a_words_service_never_raises(script: Steps) -> None:
    feed(Words(spell), script, [], ("10.0.2.9", 1))


@settings(max_examples=150)
@given(steps(requests | web | st.sampled_from([b"0", b"1", b"weather\x007 42 9\0"])))
def test_clients_never_raise(script: Steps) -> None:
    subscriber = Subscriber(Settings(), BROKER, words=WORDS)
    subscriber.topics.add("weather")
    for what in ("subscribe", "unsubscribe", "subscribe"):
        subscriber.request(what, "weather", 0.0)  # type: ignore[arg-type]
    feed(subscriber, script, [], BROKER)
    publisher = Publisher(Settings(), BROKER)
    publisher.publish_one("weather", "rain", 0.0)
    publisher.request("create", "weather", 0.0)
    feed(publisher, script, [], BROKER)


def held(core: Core, names: tuple[str, ...]) -> int:
    """Bytes and entries that a core keeps, roughly."""
    return sum(len(getattr(core, name)) for name in names)


def test_a_flood_leaves_the_broker_small() -> None:
    rng = random.Random(1)
    broker = Broker(Settings(), STORAGE)
    broker.start(0.0)
    broker.connected("storage", 0.0)
    broker.receive_bytes("storage", rpc.reply(1, rpc.Accepted.SUCCESS, rpc.uints(0) + rpc.hyper(1)), 0.0)
    drive(broker, 0.0)
    xid, open_now = 2, 0
    for number in range(30_000):
        now = number * 1e-3
        name = broker.accepted("requests", (f"10.2.{rng.randint(0, 99)}.{rng.randint(0, 99)}", 1), now)
        topic = b"t%d" % rng.randint(0, 20_000)
        kind = rng.randint(0, 3)
        if kind == 0:
            broker.receive_bytes(name, b"PUBLISH\0" + topic + b"\0text\0", now)
        elif kind == 1:
            broker.receive_bytes(name, b"SUBSCRIBE\0" + topic + b"\0%d\0" % rng.randint(1, 65535), now)
        elif kind == 2:
            broker.receive_bytes(name, rng.randbytes(50).replace(b"\0", b"1"), now)
        else:
            broker.receive_bytes(name, b"PUBLISH\0" + b"x" * 5000, now)
        for action in drive(broker, now):
            if isinstance(action, Abort | Close):
                broker.closed(action.connection, "aborted" if isinstance(action, Abort) else "closed", now)
            elif isinstance(action, Send) and action.connection == "storage" and rng.random() < 0.9:
                broker.receive_bytes("storage", rpc.reply(xid, rpc.Accepted.SUCCESS, rpc.uints(0)), now)
                xid += 1
            elif isinstance(action, Connect):
                open_now += 1
    assert len(broker.topics) <= 4096
    assert held(broker, ("_asking", "_early", "_publishing", "_held")) <= 3 * 4096
    assert open_now <= 256
    assert len(broker.archive._calls) <= 4096


def test_a_subscriber_that_takes_nothing_is_given_up_before_it_costs_much() -> None:
    broker = Broker(Settings(), STORAGE)
    subscriber = ("10.0.2.9", 5000)
    broker.topics["weather"] = {subscriber: None}
    for _ in range(20_000):
        broker.forward("weather", "rain", 0.0)
        drive(broker, 0.0)
    assert broker.topics["weather"] == {}
    assert broker.deliveries.held <= 4096 + 16


def test_one_connection_holds_no_more_than_a_message() -> None:
    broker = Broker(Settings(), STORAGE)
    name = broker.accepted("requests", ("10.0.2.9", 1), 0.0)
    broker.receive_bytes(name, b"PUBLISH\0" + bytes(range(1, 200)) * 100_000, 0.0)
    assert isinstance(drive(broker, 0.0)[-1], Abort)
    assert not broker._asking
    records, most = rpc.Records(), rpc.LONGEST_RECORD
    for begun in (rpc.uints(most - 10) + bytes(most - 11), rpc.uints(0) * 1000, rpc.uints(1000) + bytes(1000)):
        records = rpc.Records()
        records.feed(begun)
        assert len(records._whole) + len(records._held) <= most + 4
    assert wire.LONGEST_REQUEST < 1200

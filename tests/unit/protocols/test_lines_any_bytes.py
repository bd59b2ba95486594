"""Any bytes from anywhere: no core ever raises, none grows without bound."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.protocols.core import Close, Core, Publication, Send
from lab.protocols.lines.broker import Broker
from lab.protocols.lines.core import Settings
from lab.protocols.lines.log import MAX_BYTES, Log
from lab.protocols.lines.publisher import Publisher
from lab.protocols.lines.subscriber import Subscriber
from lab.protocols.lines.wire import MAX_LINE, Lines

BROKER = ("10.0.0.2", 9000)
words = st.sampled_from(
    [
        b"s5", b"sub", b"unsub", b"pub", b"at", b"back", b"#hello", b"#", b"#\xff", b"7", b"OK", b"ERROR",
        b"#hello text", b"too many subscribers", b"ERROR too many publishers", b"99999999999999999",
        b"\0", b"\r", b"\n", b" ",
    ]
)  # fmt: skip
lines = st.lists(words, max_size=6).map(lambda parts: b" ".join(parts) + b"\n")
chunks = st.binary(max_size=300) | lines | st.sampled_from([b"OK\n0\n", b"OK\n2\n#hello a\n#hello b\n", b"x" * 9000])
traffic = st.lists(st.tuples(chunks, st.integers(0, 3), st.floats(0, 40)), max_size=40)


def cores(options: Settings) -> list[Core]:
    publisher = Publisher(options, BROKER, "p1")
    publisher.workload([Publication("hello", str(n)) for n in range(100)], 10.0, 0.0)
    subscriber = Subscriber(options, BROKER, "s1")
    subscriber.request("subscribe", "hello", 0.0)
    subscriber.request("unsubscribe", "magic", 0.0)
    return [Broker(options), publisher, subscriber]


def drain(core: Core, now: float) -> None:
    core.actions_to_take(now)
    core.datagrams_to_send(now)
    while core.next_event() is not None:
        pass


@settings(max_examples=200, deadline=None)
@given(traffic, st.sampled_from(["poll", "push"]), st.booleans())
def test_no_bytes_make_a_core_raise(pieces: list[tuple[bytes, int, float]], mode: str, resume: bool) -> None:
    broker, publisher, subscriber = cores(Settings(mode, resume=resume, chatter=True))
    names = [broker.accepted(kind, ("10.0.1.3", n), 0.0) for n, kind in enumerate(("subscriber", "publisher") * 2)]
    now = 0.0
    for core in (publisher, subscriber):
        core.start(now)
        core.connected(1, now)
    for data, which, wait in pieces:
        name = names[which]
        assert name is not None
        broker.receive_bytes(name, data, now)
        for client in (publisher, subscriber):
            connection = max(1, client._attempts)  # type: ignore[attr-defined]
            client.receive_bytes(connection, data, now)
            if which == 3:
                client.closed(connection, "lost", now)
                client.connected(connection + 1, now)
        now += wait
        for core in (broker, publisher, subscriber):
            timer = core.get_timer()
            if timer is not None and timer <= now:
                core.handle_timer(now)
            drain(core, now)


def test_a_line_without_end_is_not_kept() -> None:
    cut = Lines()
    for _ in range(10_000):
        assert cut.feed(b"x" * 1000) == []
        assert len(cut._held) <= MAX_LINE
    assert cut.feed(b"x\ns5 sub #hello\nhal") == [None, b"s5 sub #hello"]
    assert cut.feed(b"f\n") == [b"half"]


def test_the_longest_line_is_one_and_a_longer_one_is_none() -> None:
    assert Lines().feed(b"x" * MAX_LINE + b"\n" + b"x" * (MAX_LINE + 1) + b"\n") == [b"x" * MAX_LINE, None]


def test_a_flood_of_names_leaves_the_broker_small() -> None:
    rng = random.Random(1)
    log = Log(max_ids=50, max_pairs=200, max_bytes=10_000)
    broker = Broker(Settings("push", resume=True), log=log)
    reader, writer = (broker.accepted(kind, ("10.0.1.3", 1), 0.0) for kind in ("subscriber", "publisher"))
    assert reader is not None
    assert writer is not None
    for _ in range(20_000):
        ident, topic, verb = rng.randint(0, 500), rng.randint(0, 500), rng.choice(["sub", "unsub", "at", "back"])
        broker.receive_bytes(reader, b"s%d %s #t%d%s\n" % (ident, verb.encode(), topic, b" 0" * (verb == "back")), 0.0)
        broker.receive_bytes(writer, b"p%d pub #t%d some text\n" % (ident, topic), 0.0)
        drain(broker, 0.0)
    assert max(len(log.readers), len(log.came)) <= 50
    assert sum(len(one.sent) for one in log.readers.values()) + sum(map(len, log.came.values())) <= 200
    assert sum(len(text) for texts in log.topics.values() for text in texts) <= 10_000 < MAX_BYTES
    assert broker.counters["refused"] > 1000
    broker.closed(reader, "lost", 0.0)
    broker.closed(writer, "lost", 0.0)
    assert not broker._peers
    assert not broker._places


def test_those_who_are_one_too_many_are_told_and_leave_nothing() -> None:
    broker = Broker(Settings(connections=5))
    names = [broker.accepted("subscriber", ("10.0.2.3", n), 0.0) for n in range(6)]
    assert broker.actions_to_take(0.0) == [Send(names[5], b"ERROR too many subscribers\n"), Close(names[5])]
    broker.receive_bytes(names[5], b"s5 sub #hello\n", 0.0)
    assert broker.actions_to_take(0.0) == []
    assert broker.accepted("publisher", ("10.0.1.3", 1), 0.0) is not None  # they have places of their own
    assert broker.actions_to_take(0.0) == []
    broker.closed(names[5], "closed", 0.0)
    broker.closed(names[0], "lost", 0.0)
    broker.accepted("subscriber", ("10.0.2.3", 7), 0.0)
    assert broker.actions_to_take(0.0) == []

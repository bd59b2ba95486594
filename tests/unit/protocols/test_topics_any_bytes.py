"""Any bytes from anywhere: no topics core ever raises, none grows without bound."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.protocols.core import Core
from lab.protocols.fixed.long import MAX_MESSAGE
from lab.protocols.topics import broker as broker_module
from lab.protocols.topics.broker import Broker
from lab.protocols.topics.core import Settings
from lab.protocols.topics.publisher import Publisher
from lab.protocols.topics.subscriber import Subscriber
from lab.protocols.topics.wire import Message, Type, encode

BROKER = ("10.0.0.2", 50001)

numbers = st.integers(0, 2**32 - 1) | st.integers(0, 9)
headers = st.tuples(st.integers(0, 11), st.integers(0, 255) | st.integers(0, 6), numbers)
texts = st.binary(max_size=1394) | st.sampled_from(
    [b"", b"a", b"b", b"15 20000", b"2 1400", b"1 5", b"99 99", "١ ٢".encode(), b"\xff\xfe"]
)
datagrams = st.binary(max_size=1500) | st.builds(
    lambda header, text: (bytes(header[:2]) + header[2].to_bytes(4, "big") + text).ljust(1400, b"\0"),
    headers,
    texts,
)
addresses = st.sampled_from([BROKER, ("10.0.0.3", 50000), ("10.0.0.4", 50002)])
traffic = st.lists(st.tuples(datagrams, addresses, st.floats(0, 40)), max_size=40)


def cores(arq: str) -> list[Core]:
    options = Settings(arq, window=4, chatter=True)
    publisher = Publisher(options, BROKER)
    publisher.topics = {"a": 0}
    long = "x" * (5000 if options.reliable else 1000)
    publisher.publish([("a", "1"), ("a", long), ("b", "2"), ("a", "3")], 10.0, 0.0)
    subscriber = Subscriber(options, BROKER)
    subscriber.subscribe("a", 0.0)
    subscriber.unsubscribe("b", 0.0)
    broker = Broker(options)
    for seq, request in enumerate((Message(Type.CREATION, 0, b"a"), Message(Type.SUBSCRIPTION, 0, b"a"))):
        broker.receive_datagram(encode(request, seq if options.reliable else 0), ("10.0.0.3", 50000), 0.0, 50001)
    return [broker, publisher, subscriber]


@settings(max_examples=200, deadline=None)
@given(traffic, st.sampled_from(["none", "go-back-n"]))
def test_no_bytes_make_a_core_raise(packets: list[tuple[bytes, tuple[str, int], float]], arq: str) -> None:
    for core, local in zip(cores(arq), (50001, 50000, 50002), strict=True):
        now = 0.0
        for data, address, wait in packets:
            core.receive_datagram(data, address, now, local)
            now += wait
            timer = core.get_timer()
            if timer is not None and timer <= now:
                core.handle_timer(now)
            for datagram in core.datagrams_to_send(now):
                assert len(datagram.data) == 1400
            while core.next_event() is not None:
                pass


def test_a_flood_from_everywhere_leaves_the_broker_small() -> None:
    rng = random.Random(1)
    broker = Broker(Settings("go-back-n", window=8), max_peers=50)
    for number in range(20_000):
        kind, seq, topic = rng.randint(1, 9), rng.randint(0, 255), rng.randint(0, 5)
        text = rng.choice((str(topic).encode(), b"47 65000", b"x" * 1394))
        data = bytes([kind, seq]) + topic.to_bytes(4, "big") + text.ljust(1394, b"\0")
        broker.receive_datagram(data, (f"10.1.{rng.randint(0, 40)}.{rng.randint(0, 40)}", 50002), number * 1e-4)
        broker.datagrams_to_send(0.0)
        while broker.next_event() is not None:
            pass
    assert len(broker._links) <= 50
    assert len(broker.numbers) <= 50
    assert len(broker.wishes) <= 50
    for link in broker._links.values():
        assert len(link._flying) <= 8
        assert len(link._queue) <= 8192
        assert len(link._early) <= 1
        assert len(link._seen) <= 248
        assert len(link._announced) <= 128
        assert link._assembly is None or len(link._assembly.got) <= MAX_MESSAGE


def test_names_and_subscriptions_are_bounded(monkeypatch: object) -> None:
    broker = Broker(Settings("none"))
    peer = ("10.0.0.3", 50000)
    most = broker_module.MAX_NAME_BYTES // 1394
    broker._name_bytes = (most - 3) * 1394
    for number in range(10):
        name = b"%d" % number
        broker.receive_datagram(encode(Message(Type.CREATION, number, name.ljust(1394, b"x")), 0), peer, 0.0)
    assert len(broker.topics) == 3
    broker._subscriptions = broker_module.MAX_SUBSCRIPTIONS - 1
    for name in list(broker.topics):
        broker.receive_datagram(encode(Message(Type.SUBSCRIPTION, 0, name), 0), peer, 0.0)
    assert len(broker.wishes[peer]) == 1

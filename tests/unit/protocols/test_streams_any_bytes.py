"""Any bytes from anywhere: no core ever raises, none grows without bound."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.protocols.core import Core, Publication
from lab.protocols.streams.broker import Broker
from lab.protocols.streams.consumer import MOST_SUBSCRIPTIONS, Consumer
from lab.protocols.streams.core import LIST_PORT, PRODUCER_PORT, Settings
from lab.protocols.streams.parts import MOST_HELD
from lab.protocols.streams.producer import Producer
from lab.protocols.streams.wire import CONTENTS, Content, Header

BROKER = ("10.0.0.2", 50001)
CODES = [bytes([one]) for one in (0x11, 0x22, 0x33, 0x44, 0x66, 0x88, 0x18)]

ids = st.sampled_from([b"\xa0\0\0", b"\xa0\0\1", b"\xa0\0\2", b"\x90\0\0", b"\x90\0\1"])
streams = st.sampled_from([b"\0", b"\1", b"\2", b"\x99", b"\xff"])
contents = st.sampled_from([bytes([one]) for one in (*CONTENTS, 0x12)])
bodies = st.binary(max_size=12) | st.sampled_from([b"", b"\0END\0", b"\0\1\0\2x", b"\0\1\1\2y"])
packets = (
    st.binary(max_size=40)
    | st.sampled_from([*CODES, b"\xa0\0\0", b"\xa0\0\1", b"\x90\0\0"])
    | st.builds(lambda *parts: b"".join(parts), ids, streams, contents, bodies)
)
addresses = st.sampled_from([BROKER, ("10.0.0.3", 50000), ("10.0.0.4", 50003), ("10.0.0.4", 50004)])
traffic = st.lists(st.tuples(packets, addresses, st.floats(0, 15)), max_size=40)


def cores(options: Settings) -> list[tuple[Core, int]]:
    producer = Producer(options, BROKER, seed=1)
    producer.start(0.0)
    producer.receive_datagram(b"\xa0\0\1", BROKER, 0.0)
    producer.create("1", 0.0)
    producer.workload([Publication("1", text) for text in "abc"], 10.0, 0.0)
    producer.begin_streams(Content.ALL, 0.0)
    consumer = Consumer(options, BROKER)
    consumer.request("subscribe", "1", 0.0)
    consumer.take(0.0)
    consumer.subscribe(Header(1, 1, Content.ALL), 0.0)
    return [(Broker(options), 50001), (producer, PRODUCER_PORT), (consumer, LIST_PORT), (consumer, LIST_PORT + 1)]


@settings(max_examples=300, deadline=None)
@given(traffic, st.sampled_from(["none", "ip", "protocol"]))
def test_no_bytes_make_a_core_raise(given_: list[tuple[bytes, tuple[str, int], float]], split: str) -> None:
    for core, local in cores(Settings(split, chatter=True)):
        now = 0.0
        for data, address, wait in given_:
            core.receive_datagram(data, address, now, local)
            now += wait
            for _ in range(50):
                timer = core.get_timer()
                if timer is None or timer > now:
                    break
                core.handle_timer(now)
            assert all(0 < len(datagram.data) <= 65507 for datagram in core.datagrams_to_send(now))
            while core.next_event() is not None:
                pass
        core.stop(now)


def packet(rng: random.Random) -> bytes:
    """Mostly something that means something."""
    if rng.random() < 0.3:
        return rng.choice([*CODES, b"\xa0\0\0", b"\x90\0\0"])
    head = rng.choice([0xA00000, 0x900000]) | rng.randint(0, 60)
    body = rng.choice([b"", b"", b"\0END\0", b"text", rng.randbytes(rng.randint(1, 60))])
    return head.to_bytes(3, "big") + bytes([rng.randint(0, 255), rng.choice([*CONTENTS])]) + body


def test_a_flood_from_everywhere_leaves_the_broker_small() -> None:
    rng = random.Random(1)
    broker = Broker(Settings(), most_producers=50)
    for number in range(60_000):
        now = number * 1e-3
        broker.receive_datagram(packet(rng), (f"10.1.{rng.randint(0, 9)}.{rng.randint(0, 40)}", 50002), now)
        timer = broker.get_timer() if number % 10 == 0 else None
        if timer is not None and timer <= now:
            broker.handle_timer(now)
        broker.datagrams_to_send(now)
        while broker.next_event() is not None:
            pass
    assert 0 < len(broker.producers) <= 50
    assert set(broker._ids.values()) == set(broker.producers)
    assert len(broker.streams) <= 50 * 254
    held = sum(len(one.takers) for one in (*broker.streams.values(), *broker.producers.values()))
    assert broker._subscriptions == held
    assert len(broker._ended) < 10_000
    assert len(broker.critical._lanes) <= 50 + 10 * 41


def test_a_flood_leaves_a_consumer_and_a_producer_small() -> None:
    rng = random.Random(2)
    consumer, producer = Consumer(Settings("protocol"), BROKER), Producer(Settings(), BROKER)
    consumer.request("subscribe", "1", 0.0)
    consumer.subscribe(Header(1, 0x99, Content.ALL), 0.0)
    for number in range(30_000):
        now = number * 1e-3
        data = packet(rng)
        if rng.random() < 0.3:
            many = rng.randint(1, 200)
            data = b"\x90\0\0" + b"".join(rng.choice([b"\xa0\0", b"\xb0\0"]) + rng.randbytes(3) for _ in range(many))
        elif rng.random() < 0.3:
            data = b"\xa0\0\1" + rng.randbytes(2) + rng.randbytes(3) + b"\xff" + bytes(1400)
        consumer.receive_datagram(data, BROKER, now, LIST_PORT + rng.randint(0, 3))
        producer.receive_datagram(data, BROKER, now, PRODUCER_PORT)
        for core in (consumer, producer):
            core.datagrams_to_send(now)
            while core.next_event() is not None:
                pass
    assert len(consumer.subscriptions) <= MOST_SUBSCRIPTIONS
    assert consumer._joiner.held <= MOST_HELD
    assert len(consumer._recorder._have) <= 255 + MOST_SUBSCRIPTIONS
    assert not producer.streams

"""Any bytes from anywhere: no core ever raises, none grows without bound."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.protocols.core import Core
from lab.protocols.rooms.broker import Broker
from lab.protocols.rooms.core import Settings
from lab.protocols.rooms.publisher import Publisher
from lab.protocols.rooms.subscriber import Subscriber

BROKER = ("10.0.0.2", 50001)

headers = st.tuples(st.integers(0, 9), st.integers(0, 255), st.integers(0, 2**32 - 1) | st.integers(0, 20000))
texts = st.binary(max_size=494) | st.sampled_from([b"1", b"2", b"4", b"15534", b"15535", b"-1", "١".encode()])
datagrams = st.binary(max_size=600) | st.builds(
    lambda header, text: (bytes(header[:2]) + header[2].to_bytes(4, "big") + text).ljust(500, b"\0"),
    headers,
    texts,
)
addresses = st.sampled_from([BROKER, ("10.0.0.3", 50000), ("10.0.0.4", 50002)])
traffic = st.lists(st.tuples(datagrams, addresses, st.floats(0, 40)), max_size=40)


def cores(arq: str) -> list[Core]:
    options = Settings(arq, chatter=True)
    publisher = Publisher(options, BROKER)
    publisher.publish([(1, "a"), (2, "b"), (3, "c")], 10.0, 0.0)
    subscriber = Subscriber(options, BROKER)
    subscriber.subscribe(1, 0.0)
    subscriber.unsubscribe(2, 0.0)
    return [Broker(options), publisher, subscriber]


@settings(max_examples=200, deadline=None)
@given(traffic, st.sampled_from(["none", "sliding-window"]))
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
                assert len(datagram.data) == 500
            while core.next_event() is not None:
                pass


def test_a_flood_from_everywhere_leaves_the_broker_small() -> None:
    rng = random.Random(1)
    broker = Broker(Settings("sliding-window", window=8), max_peers=50)
    for number in range(20000):
        kind, seq, room = rng.randint(1, 7), rng.randint(0, 255), rng.randint(0, 5)
        data = bytes([kind, seq]) + room.to_bytes(4, "big") + str(room).encode().ljust(494, b"\0")
        broker.receive_datagram(data, (f"10.1.{rng.randint(0, 40)}.{rng.randint(0, 40)}", 50002), number * 1e-4)
        broker.datagrams_to_send(0.0)
        while broker.next_event() is not None:
            pass
    assert len(broker._links) <= 50
    assert len(broker.rooms) <= 6
    assert sum(len(room) for room in broker.rooms.values()) <= 50 * 5
    for link in broker._links.values():
        held = [len(getattr(link, name)) for name in ("_flying", "_queue", "_early", "_seen")]
        assert held[0] <= 8
        assert held[1] <= 8192
        assert held[2] <= 8
        assert held[3] <= 248

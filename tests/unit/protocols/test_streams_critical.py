"""What is repeated until it is confirmed, one at a time in a lane."""

from collections import Counter

from lab.protocols.core import Address
from lab.protocols.streams.critical import GUARD_S, REPEAT_S, TRIES, Critical

PEER = ("10.0.0.9", 50000)


class Wire:
    def __init__(self, last_wait_s: float = REPEAT_S) -> None:
        self.sent: list[tuple[float, bytes]] = []
        self.given_up: list[tuple[float, object]] = []
        self.now = 0.0
        self.counters: Counter[str] = Counter()
        self.critical = Critical(self._emit, self.counters, last_wait_s)

    def _emit(self, data: bytes, address: Address, local: int) -> None:
        assert (address, local) == (PEER, 50001)
        self.sent.append((self.now, data))

    def send(self, lane: str, data: bytes) -> None:
        self.critical.send(lane, data.decode(), data, PEER, 50001, self.now)

    def until(self, end: float) -> None:
        while (timer := self.critical.get_timer()) is not None and timer <= end:
            self.now = timer
            self.given_up += [(self.now, key) for _, key in self.critical.handle_timer(self.now)]
        self.now = end


def test_ten_tries_a_second_apart_then_it_is_given_up() -> None:
    wire = Wire(last_wait_s=3.0)
    wire.send("l", b"a")
    wire.until(60)
    assert wire.sent == [(float(n), b"a") for n in range(TRIES)]
    assert wire.given_up == [(12.0, "a")]
    assert wire.critical.get_timer() is None
    assert wire.counters["repeated"] == TRIES - 1


def test_a_lane_has_one_under_way_and_waits_after_it() -> None:
    wire = Wire()
    for data in (b"a", b"b", b"c"):
        wire.send("l", data)
    wire.send("other", b"x")
    assert wire.sent == [(0.0, b"a"), (0.0, b"x")]
    wire.until(0.5)
    assert wire.critical.settle("l", wire.now) == "a"
    assert wire.critical.settle("l", wire.now) is None  # a copy of the confirmation settles nothing else
    wire.until(0.5 + GUARD_S)
    assert wire.sent[2:] == [(0.5 + GUARD_S, b"b")]
    wire.until(2.0)  # b was repeated at 1.7: both may be confirmed
    assert wire.critical.settle("l", wire.now) == "b"
    wire.until(2.6)
    assert wire.critical.settle("l", wire.now) is None
    wire.until(2.8)
    assert [data for _, data in wire.sent].count(b"c") == 1
    wire.critical.drop("l")
    assert not wire.critical.pending("l")


def test_lanes_that_are_empty_are_forgotten() -> None:
    wire = Wire()
    for number in range(100):
        wire.send(str(number), b"a")
        wire.critical.settle(str(number), 0.0)
    wire.until(1.0)
    assert not wire.critical._lanes

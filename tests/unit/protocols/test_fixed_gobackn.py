"""Go-back-n by itself, and long messages on both repeating links: numbers, NAKs, pieces, giving up."""

from __future__ import annotations

from collections import Counter

import pytest

from lab.protocols.fixed.gobackn import GO_BACK_GAP_S, GoBackNLink
from lab.protocols.fixed.link import GIVE_UP_S, STALE_S, Limits
from lab.protocols.fixed.long import MAX_MESSAGE
from lab.protocols.topics.wire import MAX_TEXT, WIRE, Message, Type, ack, decode, encode


class End:
    """A link and what it has sent."""

    def __init__(self, window: int = 64, **limits: int) -> None:
        self.sent: list[bytes] = []
        self.counters: Counter[str] = Counter()
        self.link = GoBackNLink(WIRE, self.sent.append, self.counters, Limits(window, **limits))

    def take(self) -> list[bytes]:
        sent, self.sent[:] = list(self.sent), []
        return sent

    def told(self) -> list[tuple[str, int]]:
        return [(message.type.name, message.seq) for data in self.take() if (message := decode(data))]

    def get(self, data: bytes, now: float = 0.0) -> list[str]:
        message = decode(data)
        assert message is not None
        return [one.text for one in self.link.receive(message, data, now) if one.type is not Type.ACK]

    def send(self, *texts: str, now: float = 0.0) -> None:
        for text in texts:
            self.link.send(pub(text), now)


def pub(text: str) -> Message:
    return Message(Type.PUBLICATION, 1, text.encode())


def data(text: str, seq: int) -> bytes:
    return encode(pub(text), seq)


def nak(seq: int) -> bytes:
    return encode(Message(Type.NAK, 0), seq)


def converse(one: End, other: End, now: float = 0.0) -> list[str]:
    """Carry everything both have to say; what the other hands up."""
    got: list[str] = []
    while one.sent or other.sent:
        for datagram in one.take():
            got += other.get(datagram, now)
        for datagram in other.take():
            one.get(datagram, now)
    return got


def test_an_ack_stands_for_everything_before_it() -> None:
    end = End(window=4)
    end.send("a", "b", "c", "d", "e", "f")
    assert end.told() == [("PUBLICATION", n) for n in range(4)]
    end.get(ack(data("c", 2)))
    assert end.told() == [("PUBLICATION", 4), ("PUBLICATION", 5)]
    assert not end.link.idle
    end.get(ack(data("f", 5)))
    assert end.link.idle
    assert end.link.due == float("inf")


def test_what_comes_early_is_not_kept_and_named_once() -> None:
    end = End()
    assert end.get(data("b", 1)) == []
    assert end.get(data("c", 2)) == []
    assert end.told() == [("NAK", 0)]
    assert end.get(data("a", 0)) == ["a"]
    assert end.get(data("c", 2)) == []
    assert end.told() == [("ACK", 0), ("NAK", 1)]
    assert end.get(data("c", 2), 0.3) == []
    assert end.told() == [("NAK", 1)]  # after a while it is named again


def test_a_nak_brings_everything_from_its_number() -> None:
    end = End()
    end.send("a", "b", "c", "d")
    end.take()
    end.get(nak(2), 1.0)  # a and b have arrived
    assert end.told() == [("PUBLICATION", 2), ("PUBLICATION", 3)]
    end.get(nak(3), 1.0 + GO_BACK_GAP_S / 2)  # sent before the other's answer: not at once
    assert end.told() == []
    end.link.on_timer(1.0 + GO_BACK_GAP_S)
    assert end.told() == [("PUBLICATION", 3)]
    end.get(nak(4), 1.1)  # nothing is missing
    assert end.link.idle


def test_a_nak_for_what_was_never_sent_is_ignored() -> None:
    end = End()
    end.get(nak(0))
    end.send("a")
    end.take()
    end.get(nak(7))
    assert end.told() == []
    assert not end.link.idle


def test_silence_brings_the_whole_window_again_then_the_end() -> None:
    end = End()
    end.send("a", "b")
    end.take()
    times = []
    while True:
        now = end.link.due
        if not end.link.on_timer(now):
            break
        assert end.told() == [("PUBLICATION", 0), ("PUBLICATION", 1)]
        times.append(round(now, 3))
    assert times[:4] == [0.2, 0.6, 1.4, 2.2]
    assert now == pytest.approx(GIVE_UP_S)
    assert end.link.idle


def test_a_duplicate_is_acked_again_and_not_handed_up() -> None:
    end = End()
    assert end.get(data("a", 0)) == ["a"]
    assert end.get(data("a", 0)) == []
    assert end.take() == [ack(data("a", 0))] * 2


def test_numbers_wrap() -> None:
    one, other = End(127), End(127)
    got = []
    for number in range(1000):
        one.send(str(number))
        got += converse(one, other)
    assert got == [str(number) for number in range(1000)]
    assert other.counters["contradictions"] == other.counters["restarts"] == 0


def test_a_program_that_started_again_is_recognised() -> None:
    end = End()
    for number in range(10):
        end.get(data(f"old {number}", number))
    assert end.get(data("new 0", 0)) == ["new 0"]
    assert end.get(data("new 1", 1)) == ["new 1"]
    assert end.counters["restarts"] == 1
    end = End()
    for number in range(200):
        end.get(data(f"old {number}", number))
    assert end.get(data("new 0", 0)) == []  # looks like one that is ahead
    assert end.get(data("new 0", 0), STALE_S + 1) == ["new 0"]


# Long messages.

LONG = "".join(chr(65 + n % 26) for n in range(20_000))


def test_a_long_message_is_announced_granted_and_put_together() -> None:
    one, other = End(), End(window=4)
    one.send("short", LONG, "after")
    told = one.take()
    rts = decode(told[-1])
    assert rts is not None
    assert (rts.type, rts.seq, rts.topic, rts.text) == (Type.RTS, 1, 1, "15 20000")
    assert len(told) == 2  # nothing overtakes it
    one.sent[:] = told
    assert converse(one, other) == ["short", LONG, "after"]
    assert one.link.idle


def test_no_more_than_what_was_granted_is_under_way() -> None:
    one = End(window=100)
    one.send(LONG)
    one.take()
    one.get(encode(Message(Type.CTS, 3), 0))
    assert one.told() == [("PUBLICATION", 0), ("PUBLICATION", 1), ("PUBLICATION", 2)]


def test_a_lost_rts_or_cts_is_asked_for_again_and_a_silent_peer_given_up() -> None:
    one, other = End(), End()
    one.send(LONG)
    one.take()  # lost
    assert one.link.due == 0.2
    one.link.on_timer(0.2)
    [rts] = one.take()
    other.get(rts)
    other.take()  # the CTS is lost
    one.link.on_timer(one.link.due)
    assert converse(one, other, 0.7) == [LONG]
    one.send(LONG, now=1.0)
    while one.link.on_timer(one.link.due):
        pass
    assert one.link.idle


def test_many_long_messages_whose_announcements_overtake_the_pieces() -> None:
    one, other = End(), End()
    texts = [letter * 3000 for letter in "abc"]
    one.send(*texts)
    held: list[bytes] = []  # everything but control is slow
    got: list[str] = []
    for _ in range(50):
        for datagram in one.take():
            control = datagram[0] in (Type.RTS, Type.CTS)
            if control:
                got += other.get(datagram)
            else:
                held.append(datagram)
        for datagram in other.take():
            one.get(datagram)
        if not one.sent and held:
            for datagram in held:
                got += other.get(datagram)
            held = []
    assert got == texts


@pytest.mark.parametrize("text", ["1 5", "14 20000", "1 70000", "51 70000", "0 0", "x", "2 -5", ""])
def test_what_cannot_come_is_refused(text: str) -> None:
    end = End()
    end.get(encode(Message(Type.RTS, 1, text.encode()), 0))
    cts = decode(end.take()[0])
    assert cts is not None
    assert (cts.type, cts.number) == (Type.CTS, 64 if text == "1 5" else 0)


def test_a_refused_message_is_dropped_and_the_next_one_goes() -> None:
    one = End()
    one.send("x" * MAX_MESSAGE, "next")
    one.take()
    one.get(encode(Message(Type.CTS, 0), 0))
    assert one.told() == [("PUBLICATION", 0)]
    assert one.counters["too_long"] == 1
    one.get(encode(Message(Type.CTS, 5), 0))  # again: nobody asked
    assert one.told() == []


def test_pieces_may_hold_anything_at_their_ends() -> None:
    text = "a" * (MAX_TEXT - 2) + "\0\0" + "\0" * 10 + "é" * MAX_TEXT
    one, other = End(), End()
    one.link.send(Message(Type.PUBLICATION, 1, text.encode()), 0.0)
    got = []
    while one.sent or other.sent:
        for datagram in one.take():
            message = decode(datagram)
            assert message is not None
            got += [bytes(whole.payload) for whole in other.link.receive(message, datagram, 0.0)]
        for datagram in other.take():
            one.get(datagram)
    assert got == [text.encode()]


def test_a_broken_announcement_costs_one_message_only() -> None:
    end = End()
    end.get(encode(Message(Type.RTS, 1, b"3 4000"), 0))
    assert end.get(data("x" * MAX_TEXT, 0)) == []
    other_topic = encode(Message(Type.PUBLICATION, 2, b"short"), 1)
    assert end.get(other_topic) == ["short"]
    assert end.counters["broken_messages"] == 1
    assert end.get(data("next", 2)) == ["next"]


def test_a_restarted_program_may_begin_with_a_long_message() -> None:
    other = End()
    for number in range(5):
        other.get(data(f"old {number}", number))
    other.take()
    one = End()
    one.send(LONG)
    assert converse(one, other) == [LONG]
    assert other.counters["restarts"] == 1


def test_the_queue_is_bounded_in_messages_and_in_bytes() -> None:
    end = End(window=1, queue=3)
    assert [end.link.send(pub("x"), 0.0) for _ in range(6)] == [True] * 4 + [False] * 2
    end = End(window=1, queue_bytes=50_000)
    assert [end.link.send(pub(LONG), 0.0) for _ in range(4)] == [True, True, False, False]
    assert end.counters["overflowed"] == 2


# A peer that started again, and one that only repeats.


def grown(now: float = 0.0) -> tuple[End, End]:
    """Two ends that have exchanged a little, some time ago."""
    one, other = End(), End()
    for number in range(5):
        one.send(f"request {number}", now=now)
        assert converse(one, other, now) == [f"request {number}"]
        other.send(f"outcome {number}", now=now)
        assert converse(other, one, now) == [f"outcome {number}"]
    return one, other


def test_a_repeat_of_the_first_is_told_from_a_new_start() -> None:
    one, other = grown()
    first = data("request 0", 0)
    assert other.get(first, 5.0) == []  # its ACK was lost again and again, or it is a new program
    [probe] = other.take()
    assert decode(probe) == decode(data("outcome 4", 4))
    assert one.get(probe, 5.0) == []
    [known] = one.take()
    assert other.get(known, 5.0) == []  # it remembers
    assert other.take() == [ack(first)]
    assert other.counters["restarts"] == 0
    one.send("request 5", now=5.1)
    assert converse(one, other, 5.1) == ["request 5"]


@pytest.mark.parametrize("busy", [False, True])
def test_a_new_program_with_the_same_first_words_is_heard_and_gets_what_was_under_way(busy: bool) -> None:
    _, other = grown()
    if busy:
        other.send("news 1", "news 2", now=5.0)
        other.take()
    fresh = End()
    fresh.send("request 0", now=5.0)
    heard: dict[str, list[str]] = {"other": [], "fresh": []}
    for _ in range(20):
        for datagram in fresh.take():
            heard["other"] += other.get(datagram, 5.0)
        for datagram in other.take():
            heard["fresh"] += fresh.get(datagram, 5.0)
        if other.link.due <= 6.0:
            other.link.on_timer(other.link.due)
    assert heard == {"other": ["request 0"], "fresh": ["news 1", "news 2"] if busy else []}
    assert other.counters["restarts"] == 1
    other.send("outcome 0", now=6.0)
    assert converse(other, fresh, 6.0) == ["outcome 0"]
    assert fresh.link.idle


def test_what_is_lost_while_a_new_start_is_found_out_comes_again() -> None:
    _, other = grown()
    fresh = End()
    fresh.send("request 0", now=5.0)
    fresh.take()  # lost
    fresh.link.on_timer(fresh.link.due)
    [again] = fresh.take()
    other.get(again, 5.2)
    other.take()  # the probe is lost
    fresh.link.on_timer(fresh.link.due)
    [again] = fresh.take()
    other.get(again, 5.6)
    fresh.get(other.take()[0], 5.6)
    fresh.take()  # the NAK is lost
    fresh.link.on_timer(fresh.link.due)
    got = []
    while fresh.sent or other.sent:
        for datagram in fresh.take():
            got += other.get(datagram, 6.4)
        for datagram in other.take():
            fresh.get(datagram, 6.4)
    assert got == ["request 0"]


def test_a_new_broker_gets_what_is_under_way_but_for_pieces_of_long_messages() -> None:
    one, _ = grown()
    one.send("short", "x" * 3000, now=5.0)
    one.get(encode(Message(Type.CTS, 64), 6), 5.0)
    one.take()
    fresh = End()
    one.get(nak(0), 5.1)
    one.send("after", now=5.1)
    assert converse(one, fresh, 5.1) == ["short", "after"]
    assert one.counters["cut_off"] == 1

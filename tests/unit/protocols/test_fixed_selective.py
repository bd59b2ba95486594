"""The sliding window by itself: numbers, repeats, giving up, starting again."""

from collections import Counter

import pytest

from lab.protocols.fixed.link import GIVE_UP_S, STALE_S, TRIES, Limits
from lab.protocols.fixed.selective import SelectiveLink
from lab.protocols.rooms.wire import WIRE, Message, Type, ack, decode, encode


class End:
    """A link and what it has sent."""

    def __init__(self, window: int = 64, max_queue: int = 8192) -> None:
        self.sent: list[bytes] = []
        self.counters: Counter[str] = Counter()
        self.link = SelectiveLink(WIRE, self.sent.append, self.counters, Limits(window, max_queue))

    def take(self) -> list[bytes]:
        sent, self.sent[:] = list(self.sent), []
        return sent

    def get(self, data: bytes, now: float = 0.0) -> list[Message]:
        message = decode(data)
        assert message is not None
        return self.link.receive(message, data, now)


def pub(text: str) -> Message:
    return Message(Type.PUB, 1, text.encode())


def data(text: str, seq: int) -> bytes:
    return encode(pub(text), seq)


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def test_numbers_wrap_and_stay_in_order_over_a_thousand_messages() -> None:
    sender, receiver = End(127), End(127)
    got: list[str] = []
    for number in range(1000):
        sender.link.send(pub(str(number)), 0.0)
        for datagram in sender.take():
            assert datagram[1] == number % 256
            got += texts(receiver.get(datagram))
            for reply in receiver.take():
                sender.get(reply)
    assert got == [str(number) for number in range(1000)]
    assert sender.link.idle


def test_no_more_than_the_window_is_under_way_and_the_base_holds_it() -> None:
    end = End(window=4)
    for number in range(10):
        end.link.send(pub(str(number)), 0.0)
    first = end.take()
    assert [datagram[1] for datagram in first] == [0, 1, 2, 3]
    assert not end.link.open
    end.get(ack(first[1]))
    assert end.take() == []  # 0 is still missing
    end.get(ack(first[0]))
    assert [datagram[1] for datagram in end.take()] == [4, 5]


def test_selective_repeat_keeps_what_came_early_and_acks_each() -> None:
    end = End()
    assert end.get(data("b", 1)) == []
    assert end.get(data("c", 2)) == []
    assert texts(end.get(data("a", 0))) == ["a", "b", "c"]
    assert [(d[0], d[1]) for d in end.take()] == [(1, 1), (1, 2), (1, 0)]


def test_a_duplicate_is_acked_again_and_not_handed_up() -> None:
    end = End()
    end.get(data("a", 0))
    assert end.get(data("a", 0)) == []
    assert end.take() == [ack(data("a", 0))] * 2
    assert end.counters["duplicates_ignored"] == 1


def test_only_the_missing_one_is_repeated_with_doubling_waits_then_given_up() -> None:
    end = End()
    end.link.send(pub("a"), 0.0)
    end.link.send(pub("b"), 0.0)
    end.get(ack(end.take()[1]))
    times = []
    while end.link.due < 1000:
        now = end.link.due
        alive = end.link.on_timer(now)
        if not alive:
            break
        times += [round(now, 3)] * len(end.take())
    assert times[:5] == [0.2, 0.6, 1.4, 2.2, 3.0]
    assert len(times) == TRIES - 1
    assert now == pytest.approx(GIVE_UP_S) == pytest.approx(15.8)
    assert end.link.idle


def test_the_queue_is_bounded() -> None:
    end = End(window=2, max_queue=3)
    assert [end.link.send(pub("x"), 0.0) for _ in range(7)] == [True] * 5 + [False] * 2
    assert end.counters["overflowed"] == 2


def test_a_program_that_started_again_is_recognised_by_its_contradiction() -> None:
    end = End()
    for number in range(10):
        end.get(data(f"old {number}", number))
    end.link.send(pub("for the old one"), 0.0)
    end.take()
    assert end.get(data("new 1", 1)) == []  # nothing to tell yet, and not acked: it will come again
    assert end.take() == []
    assert texts(end.get(data("new 0", 0))) == ["new 0"]
    assert texts(end.get(data("new 1", 1))) == ["new 1"]
    end.take()
    end.link.send(pub("for the new one"), 0.0)
    assert end.take()[0][1] == 0
    assert end.counters["restarts"] == 1


def test_an_identical_first_message_is_a_repeat_until_it_can_be_none() -> None:
    end = End()
    assert texts(end.get(data("1", 0), 0.0)) == ["1"]
    assert end.get(data("1", 0), STALE_S - 0.1) == []
    assert texts(end.get(data("1", 0), STALE_S + 0.1)) == ["1"]


def test_a_gap_that_outlived_every_repeat_means_a_new_start() -> None:
    end = End()
    for number in range(230):
        end.get(data(f"old {number}", number))
    assert end.get(data("new 0", 0)) == []  # looks like an early one
    assert texts(end.get(data("new 1", 1), STALE_S + 1)) == ["new 0", "new 1"]


@pytest.mark.parametrize("window", [0, 128])
def test_impossible_windows(window: int) -> None:
    with pytest.raises(ValueError, match="1 to 127"):
        End(window)

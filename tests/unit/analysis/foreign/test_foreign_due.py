"""From subscriptions that were seen to the times during which a consumer wants a topic."""

from __future__ import annotations

from lab.analysis.foreign.due import NEVER, Seen, Wish, wishes_seen


def test_from_a_subscription_to_its_end() -> None:
    seen = [Seen("c1", "1", 10, True), Seen("c1", "1", 30, False), Seen("c1", "2", 20, True)]
    assert set(wishes_seen(seen)) == {Wish("c1", "1", 10, 30), Wish("c1", "2", 20, NEVER)}


def test_a_subscription_that_is_repeated_goes_on() -> None:
    seen = [Seen("c1", "1", 10, True), Seen("c1", "1", 20, True), Seen("c1", "1", 30, False)]
    assert wishes_seen(seen) == [Wish("c1", "1", 10, 30)]


def test_subscribed_again_after_its_end() -> None:
    seen = [Seen("c1", "1", 50, True), Seen("c1", "1", 30, False), Seen("c1", "1", 10, True)]
    assert wishes_seen(seen) == [Wish("c1", "1", 10, 30), Wish("c1", "1", 50, NEVER)]


def test_the_end_of_what_never_began() -> None:
    assert wishes_seen([Seen("c1", "1", 30, False)]) == []


def test_consumers_are_apart() -> None:
    seen = [Seen("c1", "1", 10, True), Seen("c2", "1", 30, False)]
    assert wishes_seen(seen) == [Wish("c1", "1", 10, NEVER)]

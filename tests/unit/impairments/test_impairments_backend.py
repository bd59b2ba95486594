"""What counts as being as it was asked for: what a kernel rounds off does, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.impairments.backend import agree
from lab.impairments.wanted import EVERYONE, Bursts, Wanted

ASKED = Wanted(
    loss_pct=5,
    bursts=Bursts(1, 30, 90, 1),
    delay_ms=20,
    jitter_ms=5,
    reorder_pct=2,
    duplicate_pct=3,
    rate_kbit=1000,
    queue_bytes=30_000,
    cut_off=("a@lan", "b@lan"),
)


@pytest.mark.parametrize(
    "observed",
    [
        ASKED,
        replace(ASKED, loss_pct=5.00000001),
        replace(ASKED, delay_ms=19.999, jitter_ms=5.001),
        replace(ASKED, rate_kbit=1000.008),
        replace(ASKED, cut_off=("b@lan", "a@lan")),
        replace(ASKED, bursts=Bursts(1.0000001, 30, 90, 1)),
    ],
)
def test_rounding_is_no_difference(observed: Wanted) -> None:
    assert agree(ASKED, observed)


@pytest.mark.parametrize(
    "observed",
    [
        None,
        Wanted(),
        replace(ASKED, loss_pct=5.001),
        replace(ASKED, bursts=None),
        replace(ASKED, bursts=Bursts(1, 30, 90, 0)),
        replace(ASKED, delay_ms=20.01),
        replace(ASKED, jitter_ms=0),
        replace(ASKED, reorder_pct=0),
        replace(ASKED, duplicate_pct=0.3),
        replace(ASKED, corrupt_pct=1),
        replace(ASKED, rate_kbit=None),
        replace(ASKED, rate_kbit=1001),
        replace(ASKED, queue_bytes=30_001),
        replace(ASKED, cut_off=("a@lan",)),
        replace(ASKED, cut_off=(EVERYONE,)),
    ],
)
def test_everything_else_is(observed: Wanted | None) -> None:
    assert not agree(ASKED, observed)


def test_nothing_agrees_with_nothing() -> None:
    assert agree(Wanted(), Wanted())
    assert not agree(Wanted(), replace(Wanted(), rate_kbit=8, queue_bytes=2000))
    assert agree(Wanted(queue_bytes=7), Wanted()), "without a rate there is no queue"

"""Fixtures of the model's tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

HANG_S = 20.0


@pytest.fixture
def no_hang() -> Iterator[None]:
    """Ends a test that waits for ever on something it should have refused."""

    def stop(_number: int, _frame: Any) -> None:
        raise AssertionError(f"still waiting after {HANG_S:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, HANG_S)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)

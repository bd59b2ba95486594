"""netem proven on a kernel that has it: user-mode-linux boots, and the lab's own backend is measured in there.

What was measured lies in a JSON file, with the guest's kernel and its queueing disciplines; its path is printed.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from uml.figures import SLACK_MS, Figure, figures, quantile, share
from uml.guest import CASES, SIZE, WAYS
from uml.probe import Seen

from lab.impairments.wanted import Bursts, Wanted

HERE = Path(__file__).resolve().parent / "uml"
LATEST_S = 240.0  # it takes about 25 on an idle machine


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("netem")
    started = time.monotonic()
    boot(folder)
    path = folder / "result.json"
    assert path.exists(), f"the guest measured nothing; its console:\n{console(folder)}"
    reporter = request.config.pluginmanager.getplugin("terminalreporter")
    reporter.write_line(f"\nnetem, measured in {time.monotonic() - started:.0f} s: {path}")
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def boot(folder: Path) -> None:
    """Start the guest and wait until it has switched itself off."""
    init = folder / "init"
    words = [sys.executable, "-ISu", str(HERE / "guest.py"), str(folder)]
    init.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n", encoding="utf-8")
    init.chmod(0o755)
    kernel = shutil.which("linux.uml")
    assert kernel is not None
    with (folder / "console.log").open("wb") as log:
        guest = subprocess.Popen(
            [sys.executable, str(HERE / "start.py"), kernel, str(init), str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            guest.wait(LATEST_S)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the guest did not end within {LATEST_S:g} s; its console:\n{console(folder)}")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(guest.pid, signal.SIGKILL)  # its helpers would outlive it
            guest.wait()


def console(folder: Path) -> str:
    return "\n".join((folder / "console.log").read_text(encoding="utf-8", errors="replace").splitlines()[-40:])


@pytest.mark.uml
def test_it_was_measured_in_a_guest_that_has_netem(result: dict[str, Any]) -> None:
    assert "Linux" in result["uname"]
    assert result["usable"] == {"cbpf": None, "netem": None}
    assert all("qdisc netem" in case["qdiscs"] for case in result["cases"].values())


@pytest.mark.uml
def test_without_netem_nothing_is_lost_or_late(result: dict[str, Any]) -> None:
    for way in result["without netem"]:
        assert way["lost"] == 0
        assert way["delay_ms"]["p50"] < 2
        assert all(figure["right"] for figure in way["figures"])


@pytest.mark.uml
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("direction", WAYS)
def test_what_was_set_is_what_is_measured(result: dict[str, Any], direction: str, name: str) -> None:
    case = result["cases"][name]
    way = case["attempts"][-1][direction]
    assert way["sent"] > 0
    assert way["refused"] == 0
    assert [figure for figure in way["figures"] if not figure["right"]] == []


@pytest.mark.uml
@pytest.mark.parametrize("name", CASES)
def test_what_was_set_is_read_back_and_every_loss_is_counted(result: dict[str, Any], name: str) -> None:
    case = result["cases"][name]
    assert case["agrees"], case["observed"]
    for attempt in case["attempts"]:
        assert attempt["dropped"] == attempt["lost"]


@pytest.mark.uml
def test_addresses_are_found_though_all_data_is_lost_and_not_when_cut_off(result: dict[str, Any]) -> None:
    assert result["cases"]["all data lost"]["resolves"] is True
    assert result["cases"]["cut off"]["resolves"] is False


@pytest.mark.uml
def test_nothing_is_left(result: dict[str, Any]) -> None:
    assert result["left"] == []


# --- the figures can be wrong ------------------------------------------------------------------------------


def pretended(
    count: int = 1000, *, lose: int = 0, double: int = 0, delay_ms: float = 20.0, early: int = 0, spread_ms: float = 0.0
) -> Seen:
    """Every so manieth packet lost, doubled or not delayed; delays spread evenly."""

    def hit(number: int, every: int) -> bool:
        return every > 0 and number % every == every - 1

    def arrivals() -> Iterator[tuple[int, int]]:
        for number in range(count):
            if hit(number, lose):
                continue
            shift_ms = spread_ms * (number * 7 % 100 - 50) / 50
            at = number * 2_000_000 + (0 if hit(number, early) else round((delay_ms + shift_ms) * 1e6))
            yield from [(number, at)] * (2 if hit(number, double) else 1)

    return Seen({number: number * 2_000_000 for number in range(count)}, tuple(arrivals()))


def wrong(wanted: Wanted, seen: Seen) -> list[str]:
    return [figure.name for figure in figures(wanted, seen, SIZE) if not figure.right]


DELAY = Wanted(delay_ms=20)


@pytest.mark.parametrize(
    ("wanted", "seen", "names"),
    [
        (DELAY, pretended(), []),
        (DELAY, pretended(delay_ms=20 + SLACK_MS - 0.1), []),
        (DELAY, pretended(delay_ms=20 + SLACK_MS + 0.1), ["median delay (ms)"]),
        (DELAY, pretended(delay_ms=19.8), ["sooner than allowed (ms)", "median delay (ms)"]),
        (DELAY, pretended(lose=1000), ["loss (%)"]),
        (DELAY, pretended(double=1000), ["duplicates (%)"]),
        (DELAY, pretended(early=1000), ["reordered (%)"]),
        (replace(DELAY, loss_pct=10), pretended(lose=10), []),
        (replace(DELAY, loss_pct=10), pretended(lose=20), ["loss (%)"]),
        (replace(DELAY, loss_pct=10), pretended(lose=7), ["loss (%)"]),
        (replace(DELAY, loss_pct=100), pretended(lose=2), ["loss (%)"]),
        (replace(DELAY, duplicate_pct=10), pretended(double=10), []),
        (replace(DELAY, duplicate_pct=10), pretended(double=20), ["duplicates (%)"]),
        (replace(DELAY, reorder_pct=10), pretended(early=10), []),
        (replace(DELAY, reorder_pct=10), pretended(), ["reordered (%)"]),
        (replace(DELAY, jitter_ms=5), pretended(spread_ms=5), []),
        (replace(DELAY, jitter_ms=5), pretended(), ["middle half of delays (ms)"]),
        (
            replace(DELAY, jitter_ms=2),
            pretended(spread_ms=5),
            ["sooner than allowed (ms)", "middle half of delays (ms)"],
        ),
        (Wanted(), pretended(delay_ms=0.1), []),
        (Wanted(), pretended(delay_ms=2.5), ["median delay (ms)"]),
        (Wanted(bursts=Bursts(5, 25)), pretended(delay_ms=0, lose=6), ["packets lost in a row"]),
    ],
)
def test_a_figure_is_right_or_wrong(wanted: Wanted, seen: Seen, names: list[str]) -> None:
    assert wrong(wanted, seen) == names


@pytest.mark.parametrize(
    ("kbit", "held", "names"), [(1000, 200, []), (1100, 200, ["rate (kbit/s)"]), (1000, 300, ["bytes that waited"])]
)
def test_a_rate_is_kept_or_not(kbit: float, held: int, names: list[str]) -> None:
    """All sent at once: the bucket at once as well, then the queue at the rate."""
    gap_ns = round(SIZE * 8 / kbit * 1e6)
    arrivals = [(number, max(0, number - 16) * gap_ns) for number in range(held + 16)]
    seen = Seen(dict.fromkeys(range(1000), 0), tuple(arrivals))
    assert wrong(Wanted(rate_kbit=1000, queue_bytes=20_000), seen) == names


def test_intervals_are_known_ones() -> None:
    one = share("loss", 10, 300, 3000)
    assert (round(one.low, 2), round(one.high, 2)) == (8.34, 11.95)
    wide = share("loss", 10, 300, 3000, stretch=4)
    assert wide.high - wide.low == pytest.approx(2 * (one.high - one.low), rel=0.05)
    assert quantile(list(range(1001)), 0.5) == (500, 448, 552)
    assert share("loss", 5, 0, 0).right
    assert not Figure("x", 1, 0, math.nan, 2).right

"""The same seed hits the same packets, on either runtime; another seed hits others.

What is sent again has a new chance.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from netruns import hits, run_only, told_by_relay
from sources import manifest_of, shown_markers

pytestmark = pytest.mark.netns
TIMES = 10
SCENARIO = """\
name: repeatable
protocol: rooms
options: {{arq: {arq}}}
seed: 5
nodes: {{producers: 2, consumers: 2}}
workload: {{topics: 2, messages: 60, rate: 150/s, size: 64}}
impairments:
  - {{on: consumers, loss: 8%, duplicate: 4%, corrupt: 3%, delay: 3ms, jitter: 2ms, reorder: 5%}}
expect: {{delivery: ">= 50%"}}
settle: {{quiet: {quiet}, at_most: 30s}}
"""
AS_BUILT = SCENARIO.format(arq="none", quiet="300ms")
AGAIN = SCENARIO.format(arq="sliding-window", quiet="900ms").replace(
    "corrupt: 3%, ", ""
)  # rooms has no check of its own


def runs(text: str, folder: Path, runtime: str, count: int, seed: int | None = None) -> list[Path]:
    return [run_only(text, folder / f"{runtime}{seed}-{number}", runtime, seed) for number in range(count)]


def test_ten_runs_with_one_seed_hit_the_same_packets(tmp_path: Path) -> None:
    done = runs(AS_BUILT, tmp_path, "netns", TIMES)
    found = [hits(folder) for folder in done]
    assert all(one == found[0] for one in found), [len(one ^ found[0]) for one in found]
    kinds = {what for what, *_ in found[0]}
    assert kinds == {"lost", "duplicated", "corrupted", "reordered"}
    assert len(found[0]) > 40
    assert all(manifest_of(folder)["seed_honoured"] for folder in done)


def test_another_seed_hits_others(tmp_path: Path) -> None:
    found = [hits(runs(AS_BUILT, tmp_path, "netns", 1, seed)[0]) for seed in (5, 6, 7)]
    for one, other in itertools.combinations(found, 2):
        assert len(one & other) < 0.5 * min(len(one), len(other))


@pytest.mark.docker
def test_containers_are_hit_as_namespaces_are(tmp_path: Path) -> None:
    found = [hits(runs(AS_BUILT, tmp_path, runtime, 1)[0]) for runtime in ("netns", "compose")]
    assert found[0] == found[1]


@pytest.mark.docker
@pytest.mark.full
def test_ten_runs_in_containers_hit_the_same_packets(tmp_path: Path) -> None:
    found = [hits(folder) for folder in runs(AS_BUILT, tmp_path, "compose", TIMES)]
    assert all(one == found[0] for one in found), [len(one ^ found[0]) for one in found]
    assert found[0]


def test_what_is_sent_again_has_a_new_chance(tmp_path: Path) -> None:
    (folder,) = runs(AGAIN, tmp_path, "netns", 1)
    lost = {
        (one["link"].partition("@")[0], one["marker"])
        for one in told_by_relay(folder)
        if (one["what"], one["type"], one["direction"]) == ("lost", "PUB", "down")
    }
    assert len(lost) > 5
    shown = {
        (consumer, marker) for consumer in ("consumer1", "consumer2") for marker in shown_markers(folder, consumer)
    }
    assert lost <= shown, "what was lost once got through later"

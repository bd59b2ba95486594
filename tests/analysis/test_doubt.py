"""Constructed runs with holes in their evidence: unknown, never pass, and never fail for what is missing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from runbuilder import RunBuilder

from lab.analysis.job import analyse
from lab.errors import InputError
from lab.model.results import Results

pytestmark = pytest.mark.spark
Analysed = Callable[[RunBuilder], Results]
OF_THE_WIRE = {"delivery", "latency", "isolation", "fabricated"}
ALL = OF_THE_WIRE | {"duplicates", "order"}


def unknown(results: Results) -> set[str]:
    assert not [one for one in results.checks if one.verdict == "fail"]
    return {one.name for one in results.checks if one.verdict == "unknown"}


def reasons(results: Results) -> str:
    return "; ".join(one.reason for one in results.checks)


@pytest.mark.parametrize("dropped", [3, None])
def test_a_capture_with_drops(analysed: Analysed, dropped: int | None) -> None:
    run = RunBuilder().everything(but=(2,))
    run.publish(2, 210)  # missing only in the capture, for all one can know
    run.forward(2, 211, "consumer2")
    count = len(run.frames["consumer1@consumers"])
    run.links = {"consumer1@consumers": {"capture": {"packets": count, "dropped": dropped}}}
    results = analysed(run)
    # Duplicates and order are judged on what was shown, which needs no capture.
    assert unknown(results) == OF_THE_WIRE
    assert "capture consumer1@consumers: " in reasons(results)
    assert results.verdict == "unknown"


def test_drops_do_not_hide_what_is_proof_in_itself(analysed: Analysed) -> None:
    run = RunBuilder().everything()
    run.show("consumer1", "m-producer1-9-00000000", 700)
    run.show("consumer1", run.text(1, 1), 701)
    count = len(run.frames["consumer1@consumers"])
    run.links = {"consumer1@consumers": {"capture": {"packets": count, "dropped": 9}}}
    verdicts = {one.name: one.verdict for one in analysed(run).checks}
    assert verdicts == {
        "delivery": "unknown",
        "duplicates": "fail",
        "order": "pass",
        "latency": "unknown",
        "isolation": "unknown",
        "fabricated": "fail",
    }


def test_a_run_that_was_not_completed(analysed: Analysed) -> None:
    results = analysed(RunBuilder(manifest={"completed": False}).everything(but=(4,)))
    assert unknown(results) == ALL
    assert "the run was not completed" in reasons(results)


def test_problems_of_the_lab(analysed: Analysed) -> None:
    results = analysed(RunBuilder(manifest={"problems": ["the tap of broker closed early"]}).everything())
    assert unknown(results) == ALL
    assert "the tap of broker closed early" in reasons(results)


def test_an_impairment_that_did_not_take(analysed: Analysed) -> None:
    down = {"direction": "down", "backend": "cbpf", "requested": {"loss_pct": 5.0}, "observed": None}
    run = RunBuilder(impairments=[("consumer1@consumers", "down", 5.0)]).everything()
    run.links = {"consumer1@consumers": {"impairments": [down | {"matches": False, "applied_ns": 1}]}}
    results = analysed(run)
    assert unknown(results) == {"delivery", "duplicates", "order", "latency"}
    assert "the impairment of consumer1@consumers (down) is not what was asked for" in reasons(results)


def test_an_impairment_that_was_never_applied(analysed: Analysed) -> None:
    run = RunBuilder(impairments=[("consumer1@consumers", "down", 5.0)]).everything()
    run.links = {"consumer1@consumers": {"impairments": [], "tc_dropped": None}}
    results = analysed(run)
    assert unknown(results) == {"delivery", "duplicates", "order", "latency"}
    assert "was never applied" in reasons(results)
    assert "the kernel's drop counter of consumer1@consumers is not known" in reasons(results)


def test_a_cut_capture_is_read_as_far_as_it_goes(spark: SparkSession, tmp_path: Path) -> None:
    path = RunBuilder().everything().write(tmp_path / "run")
    capture = path / "pcap" / "consumer1@consumers.pcap"
    capture.write_bytes(capture.read_bytes()[:-100])
    results = analyse(path, spark)
    assert unknown(results) >= OF_THE_WIRE
    assert "capture consumer1@consumers: it ends inside a packet, after frame 7" in reasons(results)
    assert results.links["consumer1@consumers"].capture.packets == 7


def test_a_missing_capture_and_a_missing_log(spark: SparkSession, tmp_path: Path) -> None:
    path = RunBuilder().everything().write(tmp_path / "run")
    (path / "pcap" / "producer1@producers.pcap").unlink()
    (path / "logs" / "consumer2.log").unlink()
    results = analyse(path, spark)
    assert unknown(results) == ALL
    assert "capture producer1@producers: there is no such file" in reasons(results)
    assert "the output of consumer2 was not recorded" in reasons(results)


def test_without_any_check_nothing_can_pass(analysed: Analysed) -> None:
    results = analysed(RunBuilder(messages=1, expect={"isolation": False, "fabricated": False}).everything())
    assert (results.verdict, results.checks) == ("unknown", [])


def test_a_copy_elsewhere_gives_the_same_bytes(spark: SparkSession, tmp_path: Path) -> None:
    run = RunBuilder(producers=2, impairments=[("consumer1@consumers", "down", 5.0)]).everything(but=(2,))
    run.publish(2, 210)
    run.forward(2, 211, "consumer1", lost=True)
    run.tc_dropped = {"consumer1@consumers": 1}
    path = run.write(tmp_path / "run")
    analyse(path, spark)
    copy = Path(shutil.copytree(path, tmp_path / "elsewhere" / "copy"))
    shutil.rmtree(copy / "tables")
    (copy / "results.json").unlink()
    analyse(copy, spark)
    for name in ("results.json", "ledger.jsonl"):
        assert (copy / name).read_bytes() == (path / name).read_bytes()
    assert str(tmp_path) not in (path / "results.json").read_text()
    assert sorted(child.name for child in (path / "tables").iterdir()) == [
        "deliveries.parquet",
        "events.parquet",
        "packets.parquet",
    ]
    assert spark.read.parquet(str(path / "tables" / "deliveries.parquet")).where("expected").count() == 16
    assert Results.model_validate_json((path / "results.json").read_text()).verdict == "fail"


@pytest.mark.parametrize("name", ["plan.json", "manifest.json", "messages.jsonl"])
def test_not_a_run_folder(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = RunBuilder(messages=1).write(tmp_path / "run")
    (path / name).unlink()
    with pytest.raises(InputError, match=f"it has no {name}"):
        analyse(path, spark)


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 1}'])
@pytest.mark.parametrize("name", ["plan.json", "manifest.json"])
def test_files_that_cannot_be_used(spark: SparkSession, tmp_path: Path, name: str, text: str) -> None:
    path = RunBuilder(messages=1).write(tmp_path / "run")
    (path / name).write_text(text)
    with pytest.raises(InputError, match=name):
        analyse(path, spark)


def test_a_manifest_without_a_link(spark: SparkSession, tmp_path: Path) -> None:
    path = RunBuilder(messages=1).everything().write(tmp_path / "run")
    manifest: dict[str, Any] = json.loads((path / "manifest.json").read_text())
    del manifest["links"]["consumer1@consumers"]
    (path / "manifest.json").write_text(json.dumps(manifest))
    results = analyse(path, spark)
    assert "capture consumer1@consumers: the manifest does not know the link" in reasons(results)
    assert unknown(results) >= OF_THE_WIRE

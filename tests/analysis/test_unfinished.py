"""The folder of a run that was killed: there is a verdict, and it is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from runbuilder import RunBuilder

from lab.analysis.job import analyse
from lab.model.runfolder import RunFolder
from lab.orchestrate.record import UNFINISHED, Record


@pytest.mark.parametrize("captures", [True, False])
def test_a_killed_run_is_unknown(spark: SparkSession, tmp_path: Path, captures: bool) -> None:
    folder = RunFolder(RunBuilder().everything().write(tmp_path / "run"))
    Record(folder.read_plan(), "netns", "a test").write_unfinished(folder.manifest)
    if not captures:  # killed before the taps were open
        for file in [*folder.pcaps.iterdir(), *(folder.path / "logs").iterdir()]:
            file.unlink()
    results = analyse(folder.path, spark)
    assert results.verdict == "unknown"
    assert {check.verdict for check in results.checks} == {"unknown"}
    assert all("the run was not completed" in (check.reason or "") for check in results.checks)
    assert UNFINISHED in (results.checks[0].reason or "")

"""A short way to an analysed run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from runbuilder import RunBuilder

from lab.analysis.job import analyse
from lab.model.results import Results


@pytest.fixture
def analysed(spark: SparkSession, tmp_path: Path) -> Callable[[RunBuilder], Results]:
    """Write a built run to tmp_path/run and analyse it."""

    def run(built: RunBuilder) -> Results:
        return analyse(built.write(tmp_path / "run"), spark)

    return run

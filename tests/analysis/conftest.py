"""The Spark session that all tests of the analysis share, and short ways to an analysed run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from runbuilder import RunBuilder

from lab.analysis.job import analyse
from lab.analysis.session import start_session
from lab.model.results import Results


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = start_session()
    yield session
    session.stop()


@pytest.fixture
def analysed(spark: SparkSession, tmp_path: Path) -> Callable[[RunBuilder], Results]:
    """Write a built run to tmp_path/run and analyse it."""

    def run(built: RunBuilder) -> Results:
        return analyse(built.write(tmp_path / "run"), spark)

    return run

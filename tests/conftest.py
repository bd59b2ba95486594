"""What all tests share: one Spark session a test run, and a watch over skipped tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lab.analysis.session import start_session

pytest_plugins = ["skips", "pytester"]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = start_session()
    yield session
    session.stop()

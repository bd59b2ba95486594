"""What all tests share: one Spark session a test run, and a watch over skipped tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession

from lab.analysis.session import start_session

pytest_plugins = ["skips", "pytester"]

# A slow machine is no defect: examples are bounded in number, not in time.
settings.register_profile("lab", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lab")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = start_session()
    yield session
    session.stop()

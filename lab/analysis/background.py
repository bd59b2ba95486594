"""Spark comes up in a thread while the network does. Imports Spark only in that thread."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Spark(Protocol):
    """A session that is there, or will be."""

    def get(self) -> SparkSession: ...
    def gate(self) -> None: ...


class SparkStart:
    """A session on its way; `get` waits for it and raises its errors."""

    def __init__(self, master: str) -> None:
        pool = ThreadPoolExecutor(1, thread_name_prefix="spark")
        self._future: Future[SparkSession] = pool.submit(_start, master)
        pool.shutdown(wait=False)

    def get(self) -> SparkSession:
        return self._future.result()

    def gate(self) -> None:
        """Wait until it is up, with nothing left to disturb what is measured."""
        self.get()


def _start(master: str) -> SparkSession:
    from lab.analysis.session import start_session, warm_up

    spark = start_session(master)
    warm_up(spark)
    return spark

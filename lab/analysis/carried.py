"""Traffic → what carries messages: packets for UDP, messages cut out of streams for TCP. Knows tables, no protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from lab.analysis.header import HEADER, message_columns
from lab.analysis.reading.messages import MESSAGES, messages_of
from lab.analysis.wire import TableFramers
from lab.protocols.wire.table import Table

_KEPT = ("capture", "last_frame", "time_ns")
DECODED = pa.schema([*(MESSAGES.field(name) for name in _KEPT), *HEADER])


def carriers(packets: DataFrame, traffic: DataFrame, table: Table | None, *, keyed: bool = False) -> DataFrame:
    """Rows like those of traffic, one for each thing that can hold a message.

    A message in a stream has the frame with its last byte, and the time at which the stream had all of it.
    """
    if table is None or table.transport == "udp":
        return traffic
    messages = messages_of(packets, TableFramers(table)).where("kind = 'message'")
    decoded = messages.mapInArrow(_decoder(table, keyed), from_arrow_schema(DECODED))
    ends = traffic.drop("time_ns", "lost", "again", "unsent", "harmless", *HEADER.names)
    return (
        decoded.withColumnRenamed("last_frame", "frame")
        .join(ends, ["capture", "frame"])
        .withColumn("lost", F.lit(False))
        .withColumn("again", F.lit(False))
        .withColumn("unsent", F.lit(False))
        .withColumn("harmless", F.lit(None).cast("boolean"))  # its own text tells whether it is what was sent
    )


def _decoder(table: Table, keyed: bool) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = {name: batch[name] for name in _KEPT} | message_columns(table, batch, keyed=keyed)
            yield pa.RecordBatch.from_arrays([columns[name] for name in DECODED.names], schema=DECODED)

    return decode

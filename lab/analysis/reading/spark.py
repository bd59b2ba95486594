"""Captures as Spark tables: `spark.read.format("pcap").load(path)`, and the same decoder through mapInArrow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from lab.analysis.reading.read import Part, read_part
from lab.analysis.reading.rows import SCHEMA
from lab.analysis.reading.split import PART_BYTES, split

SUFFIXES = (".pcap", ".pcapng", ".cap", ".gz")


def register(spark: SparkSession) -> None:
    """Make the format `pcap` known to a session."""
    spark.dataSource.register(PcapSource)


class PcapSource(DataSource):
    """Options: `path` (a file, a folder or a pattern; load also takes a list), `partBytes` (default 32 MB)."""

    @classmethod
    def name(cls) -> str:
        return "pcap"

    def schema(self) -> StructType:
        return from_arrow_schema(SCHEMA)

    def reader(self, schema: StructType) -> PcapReader:
        return PcapReader(self.options, schema.names)


@dataclass
class Share(InputPartition):
    """A part of a file, as Spark hands it out."""

    part: Part


class PcapReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str], columns: list[str]) -> None:
        unknown = set(columns) - set(SCHEMA.names)
        if unknown:
            raise ValueError(f"a capture has no column {', '.join(sorted(unknown))}")
        self.files = files_of(paths_of(options))
        self.part_bytes = int(options.get("partBytes", PART_BYTES))
        self.columns = columns

    def partitions(self) -> list[Share]:
        return [Share(part) for file in self.files for part in split(file, file, self.part_bytes)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        for batch in read_part(partition.part):
            yield batch.select(self.columns)


def paths_of(options: Mapping[str, str]) -> list[str]:
    """What load was given: one path, or several as Spark hands them on."""
    several = json.loads(options["paths"]) if options.get("paths") else []
    paths = [*several, *filter(None, [options.get("path")])]
    if not paths:
        raise ValueError("which capture? Say load(path)")
    return [path.removeprefix("file://") for path in paths]


def files_of(paths: list[str]) -> list[str]:
    """The capture files that these paths mean; one that is not there stays, to be told of in the table."""
    files: list[str] = []
    for path in paths:
        place = Path(path).absolute()
        if place.is_dir():
            files += sorted(str(one) for one in place.iterdir() if one.suffix in SUFFIXES)
        elif not place.exists() and any(sign in path for sign in "*?["):
            files += sorted(glob(str(place)))
        else:
            files.append(str(place))
    return files

"""The format `pcap` of Spark, and the same decoder in the analysis: whole, in parts, and with damaged files."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession
from runbuilder import RunBuilder, datagram, ethernet, ipv4, udp

from lab.analysis import packets as packets_module
from lab.analysis.inputs import open_run
from lab.analysis.packets import read_packets, shares_of, taps_of
from lab.analysis.reading.read import read_whole
from lab.analysis.reading.rows import SCHEMA
from lab.analysis.reading.split import PART_BYTES, split
from lab.analysis.taps import Tap, read_share

pytestmark = pytest.mark.spark
CORPUS = Path(__file__).parents[1] / "data" / "captures"


def direct(path: Path) -> list[dict[str, Any]]:
    return [row for batch in read_whole(str(path), str(path)) for row in batch.to_pylist()]


def loaded(spark: SparkSession, paths: str | list[str], **options: int) -> list[dict[str, Any]]:
    frame = spark.read.format("pcap").options(**options).load(paths)
    rows = [row.asDict() for row in frame.collect()]
    for row in rows:
        row["payload"] = None if row["payload"] is None else bytes(row["payload"])
    return sorted(rows, key=lambda row: (row["capture"], row["frame"] == 0, row["frame"], row["offset"] or 0))


def test_several_captures_in_parts(spark: SparkSession) -> None:
    files = sorted(CORPUS / name for name in ("ethernet-us.pcap", "sections.pcapng", "members.pcap.gz"))
    rows = loaded(spark, [str(file) for file in files], partBytes=3000)
    assert rows == [row for file in files for row in direct(file)]
    assert list(rows[0]) == SCHEMA.names


def test_a_folder_a_pattern_and_fewer_columns(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("vlan.pcap", "plain.pcapng"):
        (tmp_path / name).write_bytes((CORPUS / name).read_bytes())
    assert len(loaded(spark, str(tmp_path))) == len(direct(CORPUS / "vlan.pcap")) * 2
    assert len(loaded(spark, f"file://{tmp_path}/*.pcap")) == len(direct(CORPUS / "vlan.pcap"))
    few = spark.read.format("pcap").schema("frame int, vlan short").load(str(tmp_path / "vlan.pcap"))
    counts = {row.vlan: row["count"] for row in few.groupBy("vlan").count().collect()}
    assert counts == {None: 10, 5: 10, 100: 18}
    assert few.columns == ["frame", "vlan"]


def test_what_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    (row,) = loaded(spark, str(tmp_path / "none.pcap"))
    assert (row["frame"], row["problem"]) == (0, "there is no such file")


def test_damaged_captures(spark: SparkSession, tmp_path: Path) -> None:
    """Fifty, each with a few bytes changed; parts and whole must say the same, and all bytes be accounted for."""
    chance = random.Random(9)
    whole = (CORPUS / "ethernet-us.pcap").read_bytes()
    for number in range(50):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(24, len(data) - 8)
            data[at : at + 8] = chance.choice((bytes(8), b"\xff" * 8, chance.randbytes(8)))
        (tmp_path / f"{number:02}.pcap").write_bytes(data)
    rows = loaded(spark, str(tmp_path), partBytes=3000)
    assert rows == [row for file in sorted(tmp_path.iterdir()) for row in direct(file)]
    total = sum(row["unreadable"] if not row["frame"] else row["captured"] + 16 for row in rows)
    assert total == 50 * (len(whole) - 24)
    assert any(not row["frame"] for row in rows)


def analysed(spark: SparkSession, taps: list[Tap], path: Path, part_bytes: int | None = None) -> list[Any]:
    def small(file: str, capture: str) -> Any:
        return split(file, capture, part_bytes or PART_BYTES)

    with patch.object(packets_module, "split", small):
        shares = shares_of(taps)
    assert (len(shares) > len(taps)) == (part_bytes is not None)
    rows = read_packets(spark, shares, read_share, path).collect()
    assert [one.name for one in path.parent.iterdir() if one.suffix == ".parquet"] == [path.name]
    return sorted(rows, key=lambda row: (row.capture, row.frame))


def test_the_analysis_reads_a_large_capture_in_parts(spark: SparkSession, tmp_path: Path) -> None:
    taps = taps_of(open_run(RunBuilder().everything().write(tmp_path / "run")))
    at_once = analysed(spark, taps, tmp_path / "one" / "packets.parquet")
    assert analysed(spark, taps, tmp_path / "many" / "packets.parquet", 1500) == at_once


def test_a_datagram_whose_fragments_lie_in_different_parts(spark: SparkSession, tmp_path: Path) -> None:
    run = RunBuilder(messages=8).everything()
    link, subnet = "consumer1@consumers", "consumers"
    whole = udp(50001, 50002, datagram("PUB", 1, run.text(1, 1)))
    ends = run.address("broker", subnet), run.address("consumer1", subnet)
    for ms, flags, piece in ((1, 0x2000, whole[:240]), (10_000, 240 // 8, whole[240:])):  # everything else in between
        packet = bytearray(ipv4(*ends, 17, piece))
        packet[4:8] = struct.pack(">HH", 7, flags)
        run.put(link, ms, ethernet(run.mac("broker@consumers"), run.mac(link), 0x0800, bytes(packet)))
    taps = taps_of(open_run(run.write(tmp_path / "run")))
    at_once = analysed(spark, taps, tmp_path / "one" / "packets.parquet")
    in_parts = analysed(spark, taps, tmp_path / "many" / "packets.parquet", 1500)
    assert in_parts == at_once
    last = [row for row in in_parts if row.capture == link][-1]
    assert (last.type, last.markers, last.problem) == ("PUB", [run.marker(1, 1)], None)

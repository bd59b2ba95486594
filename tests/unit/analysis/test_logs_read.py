"""What counts as shown in a node's output."""

from __future__ import annotations

from pathlib import Path

from lab.analysis.logs import Log, read_log

A, B = "m-producer1-1-9f3ab2c4", "m-producer1-2-00ff00ff"


def test_only_standard_output_with_a_marker_counts(tmp_path: Path) -> None:
    path = tmp_path / "consumer1.log"
    path.write_bytes(
        b"1794985262.000000001 out ready\n"
        + f"1794985262.000000002 out New publication: x {A}\n".encode()
        + f'1794985262.000000003 out @lab {{"text":"{A}"}}\n'.encode()
        + f"1794985262.000000004 err {A}\n".encode()
        + f"{A} without a time\n".encode()
        + f"1794985263.000000005 out \xff {B} {A} {B}\n".encode("latin-1")
        + f"1794985263.500000000 out {B}".encode()  # cut off, no line end
    )
    found = [row for batch in read_log(Log("consumer1", str(path))) for row in batch.to_pylist()]
    assert [(row["line"], row["time_ns"] % 10**10, row["marker"]) for row in found] == [
        (2, 5262000000002 % 10**10, A),
        (6, 5263000000005 % 10**10, B),
        (6, 5263000000005 % 10**10, A),
        (7, 5263500000000 % 10**10, B),
    ]


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    assert list(read_log(Log("consumer1", str(tmp_path / "none.log")))) == []

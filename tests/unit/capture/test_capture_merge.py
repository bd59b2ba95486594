"""Captures merged into one pcapng, read back by a reader that is not ours."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.utils import RawPcapNgReader, RawPcapWriter

from lab.capture.merge import merge, records

SECOND = 1_000_000_000
MAC, OTHER = bytes.fromhex("02420a50000b"), bytes.fromhex("02420a500002")
TO_NODE, FROM_NODE = MAC + OTHER + b"\x08\x00", OTHER + MAC + b"\x08\x00"
MACS = {"producer1@producers": "02:42:0a:50:00:0b", "broker@producers": "02:42:0a:50:00:02"}
Frames = list[tuple[int, bytes]]


def capture(frames: Frames, magic: int = 0xA1B23C4D) -> bytes:
    """A classic capture, byte by byte."""
    head = struct.pack("<IHHiIII", magic, 2, 4, 0, 0, 65535, 1)
    return head + b"".join(
        struct.pack("<IIII", time // SECOND, time % SECOND, len(frame), len(frame)) + frame for time, frame in frames
    )


def merged(folder: Path, captures: dict[str, bytes]) -> tuple[int, list[tuple[Any, ...]]]:
    """Merge and read back: (time in ns, interface, direction, frame) each."""
    files = {}
    for number, (name, data) in enumerate(captures.items()):
        files[name] = folder / f"{number}.pcap"
        files[name].write_bytes(data)
    target = folder / "capture.pcapng"
    count = merge(files, {name: MACS.get(name, "") for name in captures}, target, "a run")
    with RawPcapNgReader(str(target)) as reader:
        seen = [
            ((info.tshigh << 32) + info.tslow, info.ifname, info.direction, frame)
            for frame, info in reader
            if (info.tsresol, info.linktype, info.wirelen) == (SECOND, 1, len(frame))
        ]
    return count, seen


def test_frames_stand_in_order_of_time_with_their_link_and_direction(tmp_path: Path) -> None:
    late = 1_790_000_000 * SECOND + 999_999_999
    count, seen = merged(
        tmp_path,
        {
            "producer1@producers": capture([(late - 5, FROM_NODE + b"one"), (late + 7, TO_NODE + b"four")]),
            "broker@producers": capture([(late, FROM_NODE + b"two"), (late + 1, TO_NODE + b"three")]),
        },
    )
    assert count == 4
    assert seen == [
        (late - 5, b"producer1@producers", 1, FROM_NODE + b"one"),
        (late, b"broker@producers", 2, FROM_NODE + b"two"),
        (late + 1, b"broker@producers", 1, TO_NODE + b"three"),
        (late + 7, b"producer1@producers", 2, TO_NODE + b"four"),
    ]


def test_ties_keep_the_order_of_links_then_of_frames(tmp_path: Path) -> None:
    names = ("producer1@producers", "broker@producers")
    same = {name: capture([(5, FROM_NODE + b"z" + bytes([n])), (5, FROM_NODE + b"a")]) for n, name in enumerate(names)}
    _, seen = merged(tmp_path, same)
    assert [(name, frame[14:]) for _, name, _, frame in seen] == [
        (b"producer1@producers", b"z\0"),
        (b"producer1@producers", b"a"),
        (b"broker@producers", b"z\1"),
        (b"broker@producers", b"a"),
    ]


@pytest.mark.parametrize("cut", [1, 15, 16, 17, 31])
def test_a_record_that_was_cut_off_is_left_out(tmp_path: Path, cut: int) -> None:
    whole = capture([(1, FROM_NODE + b"first"), (2, FROM_NODE + b"x")])
    count, seen = merged(tmp_path, {"producer1@producers": whole[:-cut]})
    assert count == 1
    assert [frame for _, _, _, frame in seen] == [FROM_NODE + b"first"]


@pytest.mark.parametrize(
    "data",
    [b"", b"\x4d\x3c", capture([]), capture([])[:23], capture([(1, FROM_NODE)], magic=0xA1B2C3D4), b"text" * 20],
    ids=["nothing", "two bytes", "no frames", "half a header", "microseconds", "no capture"],
)
def test_a_capture_without_frames_keeps_its_interface(tmp_path: Path, data: bytes) -> None:
    count, seen = merged(tmp_path, {"broker@producers": data, "producer1@producers": capture([(1, FROM_NODE)])})
    assert count == 1
    assert seen == [(1, b"producer1@producers", 1, FROM_NODE)]


def test_nothing_at_all_is_a_whole_file(tmp_path: Path) -> None:
    assert merged(tmp_path, {}) == (0, [])


def test_the_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    merged(tmp_path, {"producer1@producers": capture([(1, FROM_NODE)])})
    before = (tmp_path / "capture.pcapng").read_bytes()
    with pytest.raises(KeyError):
        merge({"nobody@x": tmp_path / "0.pcap"}, {}, tmp_path / "capture.pcapng", "")
    assert (tmp_path / "capture.pcapng").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"0.pcap", "capture.pcapng"}


def test_the_comment_and_every_interface_are_in_the_file(tmp_path: Path) -> None:
    merged(tmp_path, {"producer1@producers": capture([]), "broker@producers": capture([])})
    with RawPcapNgReader(str(tmp_path / "capture.pcapng")) as reader:
        assert list(reader) == []
        assert [interface[2]["name"] for interface in reader.interfaces] == [
            b"producer1@producers",
            b"broker@producers",
        ]
    assert b"a run" in (tmp_path / "capture.pcapng").read_bytes()[:60]


def test_what_scapy_writes_for_the_taps_can_be_read(tmp_path: Path) -> None:
    with RawPcapWriter(str(tmp_path / "a.pcap"), linktype=1, nano=True, endianness="<") as writer:
        writer.write_header(None)
        writer.write_packet(FROM_NODE, sec=3, usec=4)
    data = (tmp_path / "a.pcap").read_bytes()
    assert [(time, data[at : at + length]) for time, at, length in records(data)] == [(3 * SECOND + 4, FROM_NODE)]


frames = st.lists(st.tuples(st.integers(0, 20), st.binary(max_size=40)), max_size=12)


@given(st.lists(frames, max_size=4))
def test_no_frame_is_lost_or_invented(tmp_path_factory: pytest.TempPathFactory, links: list[Frames]) -> None:
    folder = tmp_path_factory.mktemp("merge")
    count, seen = merged(folder, {f"node{n}@x": capture(sorted(one)) for n, one in enumerate(links)})
    expected = sorted(
        (time, number, place, frame)
        for number, one in enumerate(links)
        for place, (time, frame) in enumerate(sorted(one))
    )
    assert count == len(expected)
    assert [(time, name, frame) for time, name, _, frame in seen] == [
        (time, f"node{number}@x".encode(), frame) for time, number, _, frame in expected
    ]

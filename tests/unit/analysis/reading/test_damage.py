"""Damaged captures: all that is readable, where it is not, and never a crash or unbounded memory."""

from __future__ import annotations

import gzip
import random
import resource
import struct
from pathlib import Path

import numpy as np
import pytest
from captures import CORPUS, block, classic, covered, packet, pcapng, record_ends, rows

from lab.analysis.reading.classic import Classic
from lab.analysis.reading.read import MOST_STATEMENTS, read_whole

FORMS = {"pcap": CORPUS / "ethernet-us.pcap", "pcapng": CORPUS / "comments.pcapng"}
MUTANTS = 400
KB_MORE = 200_000  # of memory, over all mutants


@pytest.mark.parametrize("form", FORMS)
def test_cut_at_any_byte(form: str) -> None:
    whole = FORMS[form].read_bytes()
    records = record_ends(whole)
    edges = {end for _, end in records} | {24 if form == "pcap" else 0}
    chance = random.Random(4)
    places = [*range(4000), *chance.sample(range(4000, len(whole)), 500)]
    decoded = set(chance.sample(places, 60))
    for k in places:
        begins, gaps = covered(whole[:k])
        expected = [begin for begin, end in records if end <= k and (form != "pcap" or k >= 24)]
        assert begins == expected, k
        assert [gap.end for gap in gaps] == ([] if k in edges and k else [k]), k
        assert not gaps or gaps[0].reason.startswith(("it ends inside", "its section header")), k
        if k in decoded:
            found = rows(whole[:k])
            frames = rows(whole)[: len([row for row in found if row["frame"]])]
            assert [row for row in found if row["frame"]] == frames
            assert sum(row["unreadable"] or 0 for row in found) == sum(gap.end - gap.start for gap in gaps)


def mutant(data: bytes, chance: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        at = chance.randrange(len(out))
        match chance.randrange(6):
            case 0:
                out[at] ^= 1 << chance.randrange(8)
            case 1:
                out[at : at + 4] = chance.choice((b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", bytes(4), b"\xff\xff\0\0"))
            case 2:
                size = chance.randrange(1, 300)
                out[at : at + size] = chance.randbytes(size)
            case 3:
                del out[at : at + chance.randrange(1, 100)]
            case 4:
                out[at:at] = chance.randbytes(chance.randrange(1, 100))
            case _:
                size = chance.randrange(1, 300)
                out[at : at + size] = bytes(size)
        out = out or bytearray(b"\0")
    return bytes(out)


def mutate(count: int, seed: int) -> None:
    chance = random.Random(seed)
    sources = [path.read_bytes() for path in sorted(CORPUS.glob("*.pcap*")) if path.suffix != ".gz"]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    damaged = 0
    for _ in range(count):
        data = mutant(chance.choice(sources), chance)
        _, gaps = covered(data)
        found = rows(data)
        frames = [row["frame"] for row in found if row["frame"]]
        assert frames == list(range(1, len(frames) + 1))
        assert sum(row["captured"] for row in found if row["frame"]) <= len(data)
        assert sum(row["unreadable"] or 0 for row in found) == sum(gap.end - gap.start for gap in gaps)
        damaged += bool(gaps)
    assert damaged > count / 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < KB_MORE


def test_mutants() -> None:
    mutate(MUTANTS, 1)


@pytest.mark.full
def test_many_mutants() -> None:
    mutate(10_000, 2)


FRAMES = [packet(bytes([number]) * (20 + 7 * number)) for number in range(20)]
RECORDS = record_ends(classic(FRAMES))


def payloads(data: bytes) -> list[bytes]:
    return [row["payload"] for row in rows(data) if row["frame"]]


@pytest.mark.parametrize("length", [0xFFFFFFFF, 0x7FFFFFFF, 262_144, 65_535, 400])
@pytest.mark.parametrize("both", [True, False], ids=["both lengths lie", "one length lies"])
def test_a_lying_length_costs_one_packet(length: int, both: bool) -> None:
    data = bytearray(classic(FRAMES + FRAMES * 100))
    at = RECORDS[5][0]
    struct.pack_into("<I", data, at + 8, length)
    if both:
        struct.pack_into("<I", data, at + 12, length)
    found = rows(bytes(data))
    wanted = [*FRAMES[:5], *FRAMES[6:], *FRAMES * 100]
    assert [row["payload"] for row in found if row["frame"]] == [frame[42:] for frame in wanted]
    (said,) = [row for row in found if not row["frame"]]
    assert (said["offset"], said["unreadable"]) == (at, RECORDS[5][1] - at)
    assert f"after frame 5: {said['unreadable']} bytes from byte {at} on" in said["problem"]


def test_a_length_that_is_too_short_keeps_the_rest() -> None:
    data = bytearray(classic(FRAMES))
    struct.pack_into("<I", data, RECORDS[5][0] + 8, 50)
    found = rows(bytes(data))
    assert [row["payload"] for row in found if row["frame"] not in (0, 6)] == [
        frame[42:] for number, frame in enumerate(FRAMES) if number != 5
    ]
    assert found[5]["problem"] == "captured only in part"


@pytest.mark.parametrize("filler", [b"\0", b"\xff", b"\x11"])
@pytest.mark.parametrize("form", [classic, pcapng])
def test_a_hole_in_the_middle(form: object, filler: bytes) -> None:
    data = bytearray(form(FRAMES))  # type: ignore[operator]
    spans = [span for span in record_ends(bytes(data)) if span[1] - span[0] > 60]
    first, last = spans[4][0] - 3, spans[8][0] + 5  # damages records 4 to 8, and the last bytes of number 3
    data[first:last] = filler * (last - first)
    found = payloads(bytes(data))
    assert found[-11:] == [frame[42:] for frame in FRAMES[9:]]
    assert found[:3] == [frame[42:] for frame in FRAMES[:3]]
    assert len(found) in (14, 15)


def test_a_file_in_a_packet_before_damage_stays_a_payload() -> None:
    nested = packet(classic([packet(b"inner") for _ in range(9)]))
    data = classic([*FRAMES[:3], nested]) + b"\xee" * 30 + classic(FRAMES[3:])[24:]
    assert payloads(data) == [frame[42:] for frame in (*FRAMES[:3], nested, *FRAMES[3:])]


def test_a_section_of_which_the_header_is_damaged() -> None:
    first, second = pcapng(FRAMES[:4]), pcapng(FRAMES[4:], ">")
    assert payloads(first + second) == [frame[42:] for frame in FRAMES]
    assert payloads(b"\x0a\x0d\x0d\x0a" + bytes(24) + second) == [frame[42:] for frame in FRAMES[4:]]


def test_blocks_that_lie_within() -> None:
    head = pcapng([])
    said = [
        block(6, struct.pack("<5I", 0, 0, 1, 5000, 5000) + FRAMES[0]),  # more than the block holds
        block(6, struct.pack("<5I", 7, 0, 1, len(FRAMES[0]), len(FRAMES[0])) + FRAMES[0]),  # no such interface
        block(6, b"tiny"),
        block(3, b""),
    ]
    found = rows(head + b"".join(said))
    assert [row["problem"] for row in found][:2] == [
        "its record is shorter than it says",
        "its interface is not described",
    ]
    assert (len(found), found[1]["link_type"], found[1]["time_ns"]) == (4, None, None)


def test_many_places_are_summed_up() -> None:
    piece = classic(FRAMES[:4])[24:] + b"\xee" * 50
    found = rows(classic([]) + piece * 100)
    said = [row for row in found if not row["frame"]]
    assert len(said) == MOST_STATEMENTS + 1
    assert sum(row["unreadable"] for row in said) == 100 * 50
    assert len(found) - len(said) == 400


@pytest.mark.parametrize("name", ["ethernet-us.pcap.gz", "plain.pcapng.gz", "members.pcap.gz"])
def test_gzip_that_is_cut_off(tmp_path: Path, name: str) -> None:
    packed = (CORPUS / name).read_bytes()
    whole = len(list(rows_of(CORPUS / name)))
    cut = tmp_path / "cut.gz"
    counts = []
    for k in range(2, len(packed), 40):
        cut.write_bytes(packed[:k])
        found = rows_of(cut)
        assert any("gzip data is cut off" in (row["problem"] or "") for row in found) or name.startswith("members")
        counts.append(sum(row["frame"] > 0 for row in found))
    assert counts == sorted(counts)
    assert counts[-1] > whole / 2


def test_gzip_with_something_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "c.gz"
    path.write_bytes(gzip.compress(classic(FRAMES)) + b"garbage")
    found = rows_of(path)
    assert (len(found), found[-1]["unreadable"]) == (21, 7)
    path.write_bytes(gzip.compress(classic(FRAMES)) + bytes(700))
    assert len(rows_of(path)) == 20


def rows_of(path: Path) -> list[dict[str, object]]:
    return [row for batch in read_whole(str(path), "c") for row in batch.to_pylist()]


def test_damage_of_the_very_first_record() -> None:
    data = bytearray(classic(FRAMES))
    data[24:40] = b"\xff" * 16
    assert payloads(bytes(data)) == [frame[42:] for frame in FRAMES[1:]]


def test_a_clock_that_was_set_after_damage() -> None:
    later = bytearray(classic(FRAMES)[24:])
    for begin, _ in RECORDS:
        struct.pack_into("<I", later, begin - 24, 5)
    assert payloads(classic(FRAMES) + b"\xee" * 30 + later) == [frame[42:] for frame in FRAMES * 2]


def test_no_packet_is_longer_than_any_program_writes() -> None:
    data = classic([bytes(262_144)])
    longer = classic([bytes(262_145)])
    for one, readable in ((data, True), (longer, False)):
        steps = Classic.of(one).steps(one)
        assert (steps.next(24) > 0, bool(steps.after(np.array([24]))[0] > 0)) == (readable, readable)
    assert "(it claims 262145 bytes)" in rows(longer)[0]["problem"]

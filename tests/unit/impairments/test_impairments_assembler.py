"""The assembler: labels become the jumps that were meant, at every distance; and the machine that tests it all."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from bpf_machine import check, fate, meaning, run
from hypothesis import given
from hypothesis import strategies as st
from link_frames import IPV4, arp, ethernet, ipv4

from lab.impairments.bpf import JEQ, JGE, JSET, LD_B, LD_H, LD_LENGTH, LD_W, RANDOM, Program, as_bytecode


@dataclass(frozen=True)
class Line:
    """An instruction as a person would write it: where it goes is the number of a line."""

    kind: str
    value: int = 0
    test: int = JEQ
    yes: int | None = None
    no: int | None = None


def assemble(lines: list[Line]) -> Program:
    program = Program()
    for number, line in enumerate(lines):
        program.label(f"line {number}")
        yes, no = (None if to is None else f"line {to}" for to in (line.yes, line.no))
        if line.kind == "load":
            program.load(line.value, LD_B)
        elif line.kind == "jump":
            program.jump_if(line.value, yes=yes, no=no, test=line.test)
        elif line.kind == "go":
            assert yes is not None
            program.go(yes)
        else:
            program.leave(line.value)
    return program


def follow(lines: list[Line], frame: bytes) -> int:
    """What the lines mean, without any jump distance."""
    number, loaded = 0, 0
    while True:
        line = lines[number]
        number += 1
        if line.kind == "leave":
            return line.value
        if line.kind == "load":
            loaded = frame[line.value]
        elif line.kind == "go":
            assert line.yes is not None
            number = line.yes
        else:
            tests = {JEQ: loaded == line.value, JGE: loaded >= line.value, JSET: bool(loaded & line.value)}
            target = line.yes if tests[line.test] else line.no
            number = number if target is None else target


@st.composite
def programs(draw: st.DrawFn) -> list[Line]:
    size = draw(st.integers(1, 400))
    lines = []
    for number in range(size - 1):
        ahead = st.integers(number + 1, min(size - 1, number + 256))
        kind = draw(st.sampled_from(["load", "jump", "jump", "jump", "go", "leave"]))
        if kind == "load":
            lines.append(Line(kind, draw(st.integers(0, 15))))
        elif kind == "jump":
            where = st.none() | ahead
            test = draw(st.sampled_from([JEQ, JGE, JSET]))
            lines.append(Line(kind, draw(st.integers(0, 3)), test, draw(where), draw(where)))
        elif kind == "go":
            lines.append(Line(kind, yes=draw(ahead)))
        else:
            lines.append(Line(kind, number))
    return [*lines, Line("leave", size)]


@given(programs(), st.lists(st.integers(0, 3), min_size=16, max_size=16).map(bytes))
def test_every_jump_lands_where_it_was_aimed(lines: list[Line], frame: bytes) -> None:
    assert run(assemble(lines).ops(), frame) == follow(lines, frame)


def spread(distance: int, *, jump: bool) -> Program:
    """One jump over so many instructions."""
    program = Program()
    if jump:
        program.jump_if(0, yes="end")
    else:
        program.go("end")
    for _ in range(distance):
        program.leave(1)
    program.label("end")
    program.leave(2)
    return program


@pytest.mark.parametrize("jump", [True, False])
def test_a_jump_reaches_255_instructions_and_no_further(jump: bool) -> None:
    assert run(spread(0, jump=jump).ops(), b"") == 2
    assert run(spread(255, jump=jump).ops(), b"") == 2
    with pytest.raises(ValueError, match=r"the label end is out of reach \(256 instructions\)"):
        spread(256, jump=jump).ops()


def test_a_jump_backwards_is_refused() -> None:
    program = Program()
    program.label("start")
    program.load(0)
    program.go("start")
    with pytest.raises(ValueError, match="the label start is out of reach"):
        program.ops()


def test_the_text_for_tc() -> None:
    program = Program()
    program.load(12, LD_H)
    program.jump_if(0x0800, no="pass")
    program.load(RANDOM)
    program.jump_if(429_496_729, yes="pass", test=JGE)
    program.leave(2)
    program.label("pass")
    program.leave(0xFFFFFFFF)
    expected = "6,40 0 0 12,21 0 3 2048,32 0 0 4294963256,53 1 0 429496729,6 0 0 2,6 0 0 4294967295"
    assert as_bytecode(program.ops()) == expected


# What tcpdump makes of `udp and src host 10.80.0.11`, with tc's numbers for the two ends.
UDP_FROM_NODE = (
    (0x28, 0, 0, 12), (0x15, 0, 5, 0x800), (0x30, 0, 0, 23), (0x15, 0, 3, 17),
    (0x20, 0, 0, 26), (0x15, 0, 1, 0x0A50000B), (0x06, 0, 0, 2), (0x06, 0, 0, 0xFFFFFFFF),
)  # fmt: skip


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (ethernet(IPV4, ipv4("10.80.0.11", "10.80.0.2")), "drop"),
        (ethernet(IPV4, ipv4("10.80.0.12", "10.80.0.2")), "go on"),
        (ethernet(0x86DD, ipv4("10.80.0.11", "10.80.0.2")), "go on"),
        (ethernet(0x0806, arp("10.80.0.11", "10.80.0.2")), "go on"),
        (ethernet(IPV4, ipv4("10.80.0.11", "10.80.0.2"))[:29], "let pass at once"),
        (ethernet(IPV4, ipv4("10.80.0.11", "10.80.0.2"))[:30], "drop"),
    ],
)
def test_the_machine_runs_a_known_program(frame: bytes, expected: str) -> None:
    assert fate(UDP_FROM_NODE, frame) == expected


@pytest.mark.parametrize(
    "ops",
    [
        (),
        ((LD_W, 0, 0, 0),),  # no return
        ((JEQ, 1, 0, 0), (0x06, 0, 0, 1)),  # a jump past the end
        ((0x05, 0, 0, 1), (0x06, 0, 0, 1)),
        ((JEQ, 256, 0, 0), *[(0x06, 0, 0, 1)] * 300),
    ],
)
def test_the_machine_refuses_what_the_kernel_refuses(ops: tuple[tuple[int, int, int, int], ...]) -> None:
    with pytest.raises(AssertionError):
        check(ops)


def test_the_machine_knows_lengths_and_meanings() -> None:
    program = Program()
    program.load(0, LD_LENGTH)
    program.jump_if(14, yes="end")
    program.leave(2)
    program.label("end")
    program.leave(4)
    assert [fate(program.ops(), bytes(length)) for length in (13, 14)] == ["drop", "steal"]
    assert [meaning(number) for number in (0, 99)] == ["let pass at once", "go on"]

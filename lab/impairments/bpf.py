"""A small assembler for classic BPF as `tc … bpf da bytecode` takes it. Knows instructions, not their purpose.

Jumps name labels; they reach 255 instructions forward, so programs are laid out with their exits last.
"""

from __future__ import annotations

from dataclasses import dataclass, field

LD_W, LD_H, LD_B = 0x20, 0x28, 0x30  # load 4, 2, 1 bytes of the frame, from its Ethernet header on
LD_LENGTH = 0x80  # load the length of the frame, Ethernet header included
JMP, JEQ, JGE, JSET, RET = 0x05, 0x15, 0x35, 0x45, 0x06
RANDOM = 0xFFFFF000 + 56  # load from here: a fresh random number of the kernel
TAGGED = 0xFFFFF000 + 48  # load from here: 1 if the kernel has taken a VLAN tag off the frame, else 0

SHOT, STOLEN, GO_ON = 2, 4, 0xFFFFFFFF  # drop and count; drop uncounted; leave it to the next filter

Op = tuple[int, int, int, int]
Ops = tuple[Op, ...]


@dataclass
class Program:
    """Instructions in order; `ops()` resolves the labels."""

    _lines: list[tuple[int, str | None, str | None, int]] = field(default_factory=list)
    _labels: dict[str, int] = field(default_factory=dict)

    def label(self, name: str) -> None:
        self._labels[name] = len(self._lines)

    def load(self, offset: int, width: int = LD_W) -> None:
        self._lines.append((width, None, None, offset))

    def jump_if(self, value: int, *, yes: str | None = None, no: str | None = None, test: int = JEQ) -> None:
        """Compare the loaded number; without a label the program goes on with the next instruction."""
        self._lines.append((test, yes, no, value))

    def go(self, label: str) -> None:
        self._lines.append((JMP, label, None, 0))

    def leave(self, verdict: int) -> None:
        self._lines.append((RET, None, None, verdict))

    def ops(self) -> Ops:
        return tuple(self._op(index, *line) for index, line in enumerate(self._lines))

    def _op(self, index: int, code: int, yes: str | None, no: str | None, value: int) -> Op:
        if code == JMP:
            return code, 0, 0, self._reach(index, yes)
        return code, self._reach(index, yes), self._reach(index, no), value

    def _reach(self, index: int, label: str | None) -> int:
        if label is None:
            return 0
        distance = self._labels[label] - index - 1
        if not 0 <= distance <= 255:
            raise ValueError(f"the label {label} is out of reach ({distance} instructions)")
        return distance


def as_bytecode(ops: Ops) -> str:
    """The form that tc reads: the count, then `code jt jf k` each."""
    return f"{len(ops)}," + ",".join(" ".join(map(str, op)) for op in ops)

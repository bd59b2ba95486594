"""Errors that a person sees, split by who is at fault. Knows nothing of the rest of the lab.

Each says what was wrong, where, what was expected and what to do next; all of them end the command with 3,
because only a verdict may end it with 1 or 2.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """A name from outside, with what a terminal would act on or could not print written as an escape."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


class LabError(Exception):
    """Something that stops the lab, told so that a second-year student can act on it."""

    def __init__(
        self, what: str, *, where: str | None = None, expected: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.expected = expected
        self.hint = hint

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.what}" if self.where else self.what]
        if self.expected:
            lines.append(f"  expected: {self.expected}")
        if self.hint:
            lines.append(f"  try: {self.hint}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, str | None]:
        """The same for programs (`--json`)."""
        return {
            "error": type(self).__name__,
            "what": self.what,
            "where": self.where,
            "expected": self.expected,
            "hint": self.hint,
        }


class InputError(LabError):
    """What the user gave (a scenario, a run folder, an option) cannot be used."""


class HostError(LabError):
    """This machine lacks something, or something on it refused: the engine, Java, rights, the kernel."""


class LateError(HostError):
    """A wait ran out; the message names who was late."""


class LeftoverError(HostError):
    """The engine keeps something of a run that it was told to remove."""


class InternalError(LabError):
    """The lab itself is at fault."""

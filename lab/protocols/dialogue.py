"""A terminal dialogue as data, and both of its ends: the program that asks, and whoever answers from outside.

A program is at one question at a time. A line either chooses (a word leads on) or is a value; when all is said, an
action is due and it is at its first question again. Neither end knows a terminal, a pipe or a clock: lines, bytes and
times go in, lines and events come out. Standard library only, no protocol.
"""

from __future__ import annotations

import codecs
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

PATIENCE_S = 10.0
MOST_UNREAD = 64 * 1024  # of what a program has written since it was last told something; older text is forgotten


@dataclass(frozen=True)
class Choice:
    """A word that a line may contain, in any case, and where it leads: to a question, or to an action at once."""

    word: str
    to: str | None = None
    does: str | None = None


@dataclass(frozen=True)
class Question:
    """A prompt and what a line that answers it is: one of the choices (the first that fits counts), or a value."""

    name: str
    prompt: str
    choices: tuple[Choice, ...] = ()
    value: str | None = None
    to: str | None = None  # the question after a value …
    does: str | None = None  # … or the action


@dataclass(frozen=True)
class Dialogue:
    """Questions of a program; it begins with the first, and comes back to it after each action."""

    questions: tuple[Question, ...]
    quit: str = "QUIT"  # ends the program at any prompt
    invalid: str = "Invalid input."

    @property
    def first(self) -> Question:
        return self.questions[0]

    def question(self, name: str) -> Question:
        return next(one for one in self.questions if one.name == name)

    @property
    def settled(self) -> Step:
        """What to wait for, behind the steps of an action, until the program is done with it."""
        return Step(self.first.prompt)

    def steps(self, action: str) -> tuple[Step, ...]:
        """What to wait for and what to say until this action is done. ValueError if nothing leads to it."""
        ways: deque[tuple[Question, tuple[Step, ...]]] = deque([(self.first, ())])
        seen = {self.first.name}
        while ways:
            question, before = ways.popleft()
            for line, to, does in _answers(question):
                steps = (*before, Step(question.prompt, line))
                if does == action:
                    return steps
                if to is not None and to not in seen:
                    seen.add(to)
                    ways.append((self.question(to), steps))
        raise ValueError(f"nothing in this dialogue leads to {action!r}")


def _answers(question: Question) -> list[tuple[str, str | None, str | None]]:
    """Lines that fit: (what to say, the question it leads to, the action it brings about)."""
    if question.value is not None:
        return [(f"{{{question.value}}}", question.to, question.does)]
    return [(choice.word, choice.to, choice.does) for choice in question.choices]


class Desk(ABC):
    """What stands behind a program's prompts: it refuses what cannot be, and does what is asked."""

    dialogue: Dialogue

    def refusal(self, question: str, text: str) -> str | None:
        """What to tell a person whose value cannot be taken; None if it can."""
        return None

    @abstractmethod
    def do(self, action: str, values: Mapping[str, str], now: float) -> None: ...


@dataclass(frozen=True)
class Do:
    action: str
    values: Mapping[str, str]


@dataclass(frozen=True)
class Tell:
    text: str


@dataclass(frozen=True)
class Quit: ...


class Asking:
    """The program's end: where it is, and what a line means there."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._question = desk.dialogue.first
        self._values: dict[str, str] = {}

    @property
    def prompt(self) -> str:
        return self._question.prompt

    def line(self, text: str) -> Do | Tell | Quit | None:
        """What has to be done about a line; None: only the next question is due."""
        text, dialogue, question = text.strip(), self._desk.dialogue, self._question
        if text.upper() == dialogue.quit:
            return Quit()
        if not text:
            return Tell(dialogue.invalid)
        if question.value is None:
            return self._chosen(text)
        refusal = self._desk.refusal(question.name, text)
        if refusal is not None:
            self._begin_again()
            return Tell(refusal)
        self._values[question.value] = text
        return self._on(question.to, question.does)

    def _chosen(self, text: str) -> Do | Tell | None:
        for choice in self._question.choices:
            if choice.word.upper() in text.upper():
                return self._on(choice.to, choice.does)
        return Tell(self._desk.dialogue.invalid)

    def _on(self, to: str | None, does: str | None) -> Do | None:
        if to is not None:
            self._question = self._desk.dialogue.question(to)
            return None
        values = dict(self._values)
        self._begin_again()
        return Do(does or "", values)

    def _begin_again(self) -> None:
        self._question = self._desk.dialogue.first
        self._values.clear()


@dataclass(frozen=True)
class Step:
    """Wait until the program has written this, then send a line with its values filled in (None: only wait)."""

    prompt: str
    line: str | None = None
    pattern: bool = False  # the prompt is a regular expression, searched as it stands


@dataclass(frozen=True)
class Told:
    """All steps of a request are done; `wrote` is what the program wrote meanwhile, up to the last thing waited for."""

    request: str
    wrote: str


@dataclass(frozen=True)
class Failed:
    """A prompt did not come, in time or before the program's end; the rest of its request is not said."""

    request: str
    prompt: str
    reason: str
    wrote: str


@dataclass
class _Pending:
    request: str
    steps: deque[Step]
    wrote: list[str] = field(default_factory=list)


class Answering:
    """The end outside: drives any program by its prompts. Requests are said one after the other."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._pending: deque[_Pending] = deque()
        self._events: deque[Told | Failed] = deque()
        self._lines: deque[str] = deque()
        self._unread = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._deadline: float | None = None
        self._gone = False

    @property
    def busy(self) -> bool:
        return bool(self._pending)

    def ask(self, request: str, steps: Sequence[Step], values: Mapping[str, str], now: float) -> None:
        """Say these steps when those before are through. ValueError if a value is missing, or is not one line."""
        filled = deque(Step(step.prompt, _filled(step.line, values), step.pattern) for step in steps)
        self._pending.append(_Pending(request, filled))
        if len(self._pending) == 1:
            self._deadline = now + self._patience_s
        self._advance(now)

    def receive(self, data: bytes, now: float) -> None:
        """What the program wrote, in any pieces."""
        text = self._decoder.decode(data).replace("\r", "")
        self._unread = (self._unread + text)[-MOST_UNREAD:]
        self._advance(now)

    def end_of_output(self, now: float) -> None:
        """The program has ended, or closed its output."""
        self._gone = True
        self._advance(now)

    def lines_to_send(self) -> list[str]:
        sending = list(self._lines)
        self._lines.clear()
        return sending

    def get_timer(self) -> float | None:
        return self._deadline if self._pending else None

    def handle_timer(self, now: float) -> None:
        if self._pending and self._deadline is not None and self._deadline <= now:
            self._fail(f"did not come within {self._patience_s:g} s", now)
            self._advance(now)

    def next_event(self) -> Told | Failed | None:
        return self._events.popleft() if self._events else None

    def _advance(self, now: float) -> None:
        while self._pending:
            request = self._pending[0]
            if request.steps and not self._seen(request.steps[0]):
                if not self._gone:
                    return
                self._fail("did not come before the program's end", now)
                continue
            if request.steps:
                self._take(request, request.steps.popleft(), now)
            if not request.steps:
                self._events.append(Told(request.request, "".join(request.wrote)))
                self._pending.popleft()

    def _take(self, request: _Pending, step: Step, now: float) -> None:
        self._deadline = now + self._patience_s
        if step.line is None:
            if not request.steps:
                request.wrote.append(self._unread)
            return
        request.wrote.append(self._unread)
        self._unread = ""  # a prompt that stood there before the line is no answer to it
        self._lines.append(step.line)

    def _seen(self, step: Step) -> bool:
        if step.pattern:
            return re.search(step.prompt, self._unread) is not None
        return _plain(step.prompt) in _plain(self._unread)

    def _fail(self, why: str, now: float) -> None:
        request = self._pending.popleft()
        prompt = request.steps[0].prompt
        reason = f"the prompt {prompt.strip()!r} {why}"
        self._events.append(Failed(request.request, prompt, reason, "".join(request.wrote) + self._unread))
        self._deadline = now + self._patience_s


def _plain(text: str) -> str:
    """For comparing: programs differ in blanks and line ends."""
    return " ".join(text.split()).lower()


def _filled(line: str | None, values: Mapping[str, str]) -> str | None:
    if line is None:
        return None
    try:
        filled = line.format_map(values)
    except (KeyError, IndexError) as error:
        known = ", ".join(f"{{{name}}}" for name in values) or "none"
        raise ValueError(f"{line!r} has no value for {error}; there are {known}") from None
    if "\n" in filled or "\r" in filled:
        raise ValueError(f"{filled!r} is more than one line")
    return filled

"""The fabric as the orchestrator sees it: answers, its errors, its silence, its end."""

from __future__ import annotations

import json

import pytest
from fakes import Command, FakeStreams

from lab.errors import HostError, LateError
from lab.orchestrate.channel import FabricChannel


def channel(answer: dict[str, object] | str | None) -> FabricChannel:
    def said(_: Command) -> list[str] | None:
        if answer is None or answer == "silence":
            return [] if answer else None
        return [json.dumps(answer)]

    return FabricChannel(FakeStreams(said, []))


def test_an_answer() -> None:
    assert channel({"ok": True, "quiet": False}).ask(1, do="settle")["quiet"] is False


def test_its_errors_are_raised_here() -> None:
    with pytest.raises(HostError) as raised:
        channel({"ok": False, "what": "no clsact", "expected": "a kernel", "hint": "lab doctor"}).ask(1, do="open")
    assert (raised.value.what, raised.value.expected, raised.value.hint) == ("no clsact", "a kernel", "lab doctor")


def test_its_silence_is_named() -> None:
    with pytest.raises(LateError, match=r"the fabric did not answer 'open' within 0.05 s"):
        channel("silence").ask(0.05, do="open")


def test_its_end_is_told_with_its_last_words() -> None:
    with pytest.raises(HostError, match="the fabric ended during 'open': no reason given"):
        channel(None).ask(1, do="open")


def test_its_end_is_told_as_often_as_it_is_asked() -> None:
    ended = channel(None)
    for _ in range(3):
        with pytest.raises(HostError, match="the fabric ended during 'stop'"):
            ended.ask(1, do="stop")


def test_its_end_before_the_question_is_told_the_same_way() -> None:
    class Gone(FakeStreams):
        def write(self, data: bytes) -> None:
            raise BrokenPipeError("nobody reads")

    gone = Gone(lambda _: None, [])
    gone.end()
    with pytest.raises(HostError, match="the fabric ended during 'hello'"):
        FabricChannel(gone).ask(1, do="hello")

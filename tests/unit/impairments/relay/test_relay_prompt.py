"""The turn that the relay gets, and gives back: in a process of its own, which may be refused it."""

from __future__ import annotations

import subprocess
import sys

BUSY = """
import time
from lab.impairments.relay import prompt
prompt.RESTLESS_US = 100_000
print(prompt.be_prompt(), prompt.priority())
until = time.monotonic() + {seconds}
while time.monotonic() < until and prompt.priority() == "real-time":
    {rest}
print(prompt.priority())
"""


def words(seconds: float, rest: str) -> list[str]:
    code = BUSY.format(seconds=seconds, rest=rest)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


def test_it_has_what_it_says_and_keeps_it_while_it_rests() -> None:
    got, has, kept = words(0.4, "time.sleep(0.01)")
    assert got == has == kept


def test_one_that_never_rests_gives_its_turn_back() -> None:
    got, has, kept = words(30, "pass")
    assert got == has
    assert kept != "real-time"

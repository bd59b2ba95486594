"""The real programs on loopback: sockets, pipes, signals. Every wait ends with what it waits for."""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PATIENCE_S = 20.0
NET = f"127.{os.getpid() % 254 + 1}.{os.getpid() // 254 % 256}"


class Program:
    """One node program, driven through its pipes."""

    def __init__(self, *arguments: str, driven: bool = True) -> None:
        command = [sys.executable, "-m", "lab.node", "rooms", *arguments, *(["--driven"] if driven else [])]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            bufsize=0,
        )
        self.output = b""

    def write(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())

    def tell(self, **command: Any) -> None:
        self.write(json.dumps(command) + "\n")

    def wait_for(self, text: str) -> str:
        """The output so far, once it contains this text."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE_S
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while text.encode() not in self.output:
                left = deadline - time.monotonic()
                assert selector.select(max(0.0, left)), f"{text!r} did not come in {PATIENCE_S} s: {self.output!r}"
                chunk = os.read(self.process.stdout.fileno(), 65536)
                assert chunk, f"{text!r} did not come before the end: {self.output!r}"
                self.output += chunk
        return self.output.decode()

    def answer(self, event: str) -> dict[str, Any]:
        """The first `@lab` line of this event; it is taken out of the output."""
        while True:
            self.wait_for(f'"event": "{event}"')
            self.wait_for("\n")
            for line in self.output.decode().splitlines(keepends=True):
                if line.startswith("@lab ") and f'"event": "{event}"' in line and line.endswith("\n"):
                    self.output = self.output.replace(line.encode(), b"", 1)
                    found: dict[str, Any] = json.loads(line[5:])
                    return found

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, (self.output + out).decode(), err.decode()


@pytest.fixture
def start() -> Iterator[Any]:
    programs: list[Program] = []

    def launch(*arguments: str, driven: bool = True) -> Program:
        programs.append(Program(*arguments, driven=driven))
        return programs[-1]

    yield launch
    for program in programs:
        if program.process.poll() is None:
            program.process.kill()
        with program.process:  # closes its pipes and waits for its end
            pass


@pytest.mark.parametrize("arq", ["none", "sliding-window"])
def test_a_whole_run_from_ready_to_counters(start: Any, arq: str) -> None:
    option = ("--option", f"arq={arq}", "--option", "reply_timeout_s=5", "--option", "window=64")
    broker = start("broker", "--bind", f"{NET}.1", *option)
    consumer = start("consumer", "--bind", f"{NET}.2", "--broker", f"{NET}.1", *option)
    producer = start("producer", "--bind", f"{NET}.3", "--broker", f"{NET}.1", *option)
    for program in (broker, consumer, producer):
        assert program.answer("ready") == {"event": "ready"}
    producer.tell(do="create", topics=["4"])
    assert producer.answer("done") == {"event": "done", "phase": "create", "ok": True}
    consumer.tell(do="subscribe", topics=["1", "4"])
    assert consumer.answer("done")["ok"]
    messages = [{"number": n, "topic": "14"[n % 2], "text": f"t m-producer1-{n}-0badcafe"} for n in range(300)]
    producer.tell(do="publish", rate_per_s=3000, messages=messages)
    done = producer.answer("done")
    assert (done["ok"], done["sent"], done["unanswered"], done["refused"]) == (True, 300, 0, 0)
    consumer.wait_for("m-producer1-298-0badcafe\n")
    shown = consumer.wait_for("m-producer1-299-0badcafe\n").splitlines()
    for topic in "14":  # each room has a socket of its own: order is promised within a room
        due = [f"New publication: {message['text']}" for message in messages if message["topic"] == topic]
        assert [line for line in shown if line in set(due)] == due
    consumer.tell(do="stop")
    assert consumer.answer("counters")["shown"] == 300
    assert consumer.end()[0] == 0
    assert producer.process.stdin is not None
    producer.process.stdin.close()  # end of input is a stop too
    assert producer.answer("counters")["sent"] == 300
    assert producer.process.wait(PATIENCE_S) == 0
    broker.process.send_signal(signal.SIGTERM)
    counters = broker.answer("counters")
    assert (counters["published"], counters["forwarded"]) == (300, 300)
    assert broker.process.wait(PATIENCE_S) == 0


def test_people_at_their_prompts(start: Any, tmp_path: Path) -> None:
    commands = tmp_path / "commands"
    commands.write_text("SUBSCRIBE\n2\n")
    broker = start("broker", "--bind", f"{NET}.11", driven=False)
    broker.wait_for("Waiting for packets on port 50001.")
    consumer = start("consumer", "--bind", f"{NET}.12", "--broker", f"{NET}.11", "--file", str(commands), driven=False)
    producer = start("producer", "--bind", f"{NET}.13", "--broker", f"{NET}.11", "--seed", "5", driven=False)
    producer.wait_for("PUBLISH to publish new details: ")
    consumer.wait_for("Message received: A new subscriber subscribed to 2.")
    producer.write("publish\n2\n")
    producer.wait_for("Message received: Room 2 was published.")
    shown = consumer.wait_for("New publication: The Temp is ")
    assert "\nNew publication: " in shown  # on a line of its own, though a prompt was open
    broker.wait_for("Room 2 was published.")
    producer.write("quit\n")
    assert producer.end()[0] == 0
    consumer.process.send_signal(signal.SIGTERM)
    assert consumer.process.wait(PATIENCE_S) == 0
    broker.process.send_signal(signal.SIGINT)
    assert broker.process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["broker", "--mutant", "nobody"], "mutant nobody does not exist; the mutants of a broker are"),
        (["consumer", "--broker", "127.0.0.1", "--mutant", "doubles"], "mutant doubles is a broker"),
        (["producer"], "a producer needs --broker HOST"),
        (["broker", "--option", "window=999"], "option window: a number from 1 to 127, not '999'"),
        (["broker", "--option", "window"], "option window: expected name=value"),
        (["consumer", "--broker", "127.0.0.1", "--file", "/nowhere/at/all"], "No such file"),
    ],
)
def test_a_wrong_command_line_is_told_and_ends_with_2(start: Any, arguments: list[str], message: str) -> None:
    code, out, err = start(*arguments).end()
    assert (code, out) == (2, "")
    assert message in err


def test_a_port_that_is_taken_is_told(start: Any) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind((f"{NET}.21", 50001))
        code, _, err = start("broker", "--bind", f"{NET}.21").end()
        assert code == 1
        assert "Address already in use" in err
        taken_too = start("consumer", "--bind", f"{NET}.22", "--broker", f"{NET}.21")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as room:
            room.bind((f"{NET}.22", 50002))
            taken_too.tell(do="subscribe", topics=["1"])
            assert taken_too.answer("done")["detail"] == "1: No answer."
        assert "Port 50002 cannot be used: Address already in use" in taken_too.output.decode()

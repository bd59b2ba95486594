"""The real streams programs on loopback: files bit for bit, a session at the prompts, a broker under fire."""

from __future__ import annotations

import json
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import time
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PATIENCE_S = 30.0
NET = f"127.{os.getpid() % 254 + 1}.{os.getpid() // 254 % 256}"
FORGED = 10_000


class Program:
    """One node program, driven through its pipes."""

    def __init__(self, *arguments: str, driven: bool = True) -> None:
        command = [sys.executable, "-m", "lab.node", "streams", *arguments, *(["--driven"] if driven else [])]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, bufsize=0
        )
        self.output = ""

    def write(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())

    def tell(self, **command: Any) -> None:
        self.write(json.dumps(command) + "\n")

    def wait_for(self, text: str, times: int = 1) -> str:
        """The output so far, once it contains this text so often."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE_S
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while self.output.count(text) < times:
                left = deadline - time.monotonic()
                ready = selector.select(max(0.0, left))
                assert ready, f"{text!r} did not come in {PATIENCE_S} s: {self.output[-500:]!r}"
                chunk = os.read(self.process.stdout.fileno(), 65536)
                assert chunk, f"{text!r} did not come before the end: {self.output[-500:]!r}"
                self.output += chunk.decode()
        return self.output

    def done(self, phase: str) -> dict[str, Any]:
        self.wait_for(f'"phase": "{phase}"')
        self.wait_for("\n", self.output.count("\n") + (not self.output.endswith("\n")))
        [found] = [line for line in self.output.splitlines() if f'"phase": "{phase}"' in line]
        report: dict[str, Any] = json.loads(found.removeprefix("@lab "))
        return report

    def counters(self) -> dict[str, int]:
        self.tell(do="stop")
        self.wait_for('"event": "counters"')
        assert self.process.wait(PATIENCE_S) == 0
        assert self.process.stdout is not None
        self.output += self.process.stdout.read().decode()
        [found] = [line for line in self.output.splitlines() if '"event": "counters"' in line]
        report: dict[str, int] = json.loads(found.removeprefix("@lab "))
        return report

    def memory_kb(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


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


def files_in(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("split", ["ip", "protocol"])
def test_a_consumers_files_are_its_producers_bit_for_bit(start: Any, tmp_path: Path, split: str) -> None:
    options = ("--option", f"split={split}", "--option", "content=all", "--option", "lead_s=0.3")
    last = {"ip": 1, "protocol": 11}[split]
    made, kept = tmp_path / "made", tmp_path / "kept"
    broker, consumer, producer = f"{NET}.{last}", f"{NET}.{last + 1}", f"{NET}.{last + 2}"
    start("broker", "--bind", broker, *options).wait_for('"ready"')
    taker = start("consumer", "--bind", consumer, "--broker", broker, "--out", str(kept), *options)
    maker = start("producer", "--bind", producer, "--broker", broker, "--seed", "5", "--out", str(made), *options)
    maker.tell(do="create", topics=["1", "2"])
    assert maker.done("create")["ok"]
    taker.tell(do="subscribe", topics=["1", "2"])
    assert taker.done("subscribe")["ok"]
    messages = [{"number": n, "topic": "12"[n % 2], "text": f"line m-producer1-{n}-0badcafe"} for n in range(60)]
    maker.tell(do="publish", rate_per_s=100, messages=messages)
    taker.wait_for("has ended.\n", 2)
    assert maker.done("publish") == {
        "event": "done", "phase": "publish", "ok": True, "sent": 60, "refused": 0, "unanswered": 0,
    }  # fmt: skip
    assert taker.counters()["shown"] == 60
    assert files_in(kept) == files_in(made)
    assert len(files_in(kept)) == 60 + 2 + 2
    with wave.open(str(kept / "producer1-stream2.wav")) as sound:
        assert sound.getnframes() == 30 * 800
    lines = (kept / "producer1-stream1.txt").read_text().splitlines()
    assert lines == [message["text"] for message in messages if message["topic"] == "1"]


def test_people_at_their_prompts(start: Any, tmp_path: Path) -> None:
    commands = tmp_path / "commands"
    commands.write_text("CREATE\n1\n")
    option = ("--option", "lead_s=0.1")
    broker = start("broker", "--bind", f"{NET}.21", driven=False)
    broker.wait_for("Waiting for packets on port 50001.")
    producer = start(
        "producer", "--bind", f"{NET}.22", "--broker", f"{NET}.21", "--file", str(commands), *option, driven=False
    )
    producer.wait_for("Stream 1 of producer 1 was announced (text).")
    consumer = start("consumer", "--bind", f"{NET}.23", "--broker", f"{NET}.21", driven=False)
    consumer.write("LIST\nSUBSCRIBE\n1 1 text\n")
    consumer.wait_for("Stream 1 of producer 1 is running (text).")
    consumer.wait_for("Subscription successful.")
    producer.write("PUBLISH\n1\nhello there\n\nEND\n1\n")
    shown = consumer.wait_for("Stream 1 of producer 1 has ended.\n")
    assert "\nStream 1 of producer 1: hello there\n" in shown  # on a line of its own, though a prompt was open
    assert "Invalid input." in producer.wait_for("Stream 1 of producer 1 has ended.\n")
    producer.write("START\naudio\n")
    producer.wait_for("Stream 2 of producer 1 was announced (audio).")
    consumer.write("TAKE\n")
    consumer.wait_for("Subscription successful.", 2)
    producer.write("quit\n")  # it says the end of what runs
    assert producer.process.wait(PATIENCE_S) == 0
    consumer.wait_for("has ended.\n", 2)
    consumer.process.send_signal(signal.SIGTERM)
    assert consumer.process.wait(PATIENCE_S) == 0
    broker.process.send_signal(signal.SIGINT)
    assert broker.process.wait(PATIENCE_S) == 0


def malformed(rng: random.Random) -> bytes:
    """Random, truncated, oversize, of the wrong type, or in another's name."""
    header = rng.choice([b"\xa0\0\1\1", b"\xa0\0\1\2", b"\xa0\0\2\1", b"\x90\0\1\1", b"\xa0\0\0\0", b"\xb0\0\1\1"])
    kinds = (
        rng.randbytes(rng.randint(1, 50)),
        header[: rng.randint(1, 4)],
        header + bytes([rng.randint(0, 255)]) + rng.randbytes(rng.choice([0, 5, 5000])),
        header + b"\xaa\0END\0",
        rng.choice([b"\x88", b"\x22", b"\x18", b"\x90\0\0", b"\xa0\0\0"]),
        header + b"\xaaforged",
    )
    return rng.choice(kinds)


def test_ten_thousand_malformed_packets_harm_nobody(start: Any) -> None:
    address = f"{NET}.31"
    broker = start("broker", "--bind", address)
    broker.wait_for('"ready"')
    taker = start("consumer", "--bind", f"{NET}.32", "--broker", address)
    maker = start("producer", "--bind", f"{NET}.33", "--broker", address)
    maker.tell(do="create", topics=["1", "2"])
    assert maker.done("create")["ok"]
    taker.tell(do="subscribe", topics=["1", "2"])
    assert taker.done("subscribe")["ok"]
    rng = random.Random(9)
    messages = [{"number": n, "topic": "12"[n % 2], "text": f"line m-producer1-{n}-0badcafe"} for n in range(200)]
    maker.tell(do="publish", rate_per_s=100, messages=messages)
    liars = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(8)]
    try:
        for number, liar in enumerate(liars):
            liar.bind((f"{NET}.{40 + number}", 0))
        for number in range(FORGED):  # as the stream goes on, a hundred with each of its lines
            if number % 100 == 0:
                taker.wait_for("m-producer1-", number // 100 + 1)
            rng.choice(liars).sendto(malformed(rng), (address, 50001))
        taker.wait_for("has ended.\n", 2)
    finally:
        for liar in liars:
            liar.close()
    assert maker.done("publish")["unanswered"] == 0
    counters = broker.counters()
    shown = [line.split(": ", 1)[1] for line in taker.output.splitlines() if "m-producer1-" in line]
    assert len(shown) == len(messages)
    for topic in "12":  # each stream has a socket of its own: order is kept within a stream
        due = [message["text"] for message in messages if message["topic"] == topic]
        assert [text for text in shown if text in due] == due
    assert "forged" not in taker.output
    assert counters["malformed"] > 1000  # not all of them: a socket's buffer may overflow
    assert counters["published"] >= 200  # liars may register, too, and have streams of their own


def test_memory_of_a_broker_under_fire_is_bounded(start: Any) -> None:
    address = f"{NET}.51"
    broker = start("broker", "--bind", address)
    broker.wait_for('"ready"')
    rng, before = random.Random(3), broker.memory_kb()
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as liar,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker,
    ):
        liar.bind((f"{NET}.52", 0))
        asker.bind((f"{NET}.53", 0))
        asker.settimeout(PATIENCE_S)
        for number in range(FORGED):
            liar.sendto(malformed(rng), (address, 50001))
            if number % 500 == 0:  # it goes on serving the others
                asker.sendto(b"\x90\0\0", (address, 50001))
                assert asker.recv(100) == b"\x33"
                assert asker.recv(65536)[:3] == b"\x90\0\0"
    assert broker.memory_kb() - before < 20_000
    assert broker.counters()["malformed"] > 1000

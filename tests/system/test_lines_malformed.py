"""Bytes that are no lines of the protocol, thousands of them, at a broker that serves others meanwhile."""

from __future__ import annotations

import contextlib
import json
import random
import socket
from collections.abc import Callable, Iterator

import pytest
from lineskit import Place, Program, place
from nets import inside

pytestmark = pytest.mark.netns
AT_MOST_KIB = 24_000  # more than before


@pytest.fixture
def lab() -> Iterator[Place]:
    with place("s5", "p6", "stranger") as one:
        yield one


def connect(lab: Place, port: int) -> socket.socket:
    """From the stranger's namespace."""
    made = inside(lab.net["stranger"].namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    made.settimeout(20.0)
    made.connect((lab.net["broker"].address, port))
    return made


def random_lines(rng: random.Random) -> bytes:
    return b"".join(rng.randbytes(rng.randint(0, 80)) + b"\n" * rng.randint(0, 2) for _ in range(2500))


def twisted_lines(rng: random.Random) -> bytes:
    words = (b"s5", b"sub", b"unsub", b"pub", b"#", b"hello", b"#hello", b"-1", b"99999999999999999999", b"\0", b"OK")
    return b"".join(
        b" ".join(rng.choices(words, k=rng.randint(1, 7))).replace(b"s5", b"x5") + b"\n" for _ in range(2500)
    )


def oversize(rng: random.Random) -> bytes:
    return b"".join(b"z" * rng.randint(4_300, 40_000) + b"\n" for _ in range(200))


def one_endless_line(rng: random.Random) -> bytes:
    return b"x5 pub #hello " + b"y" * 64_000_000


KINDS: dict[str, Callable[[random.Random], bytes]] = {
    "random": random_lines,
    "twisted": twisted_lines,
    "oversize": oversize,
    "endless": one_endless_line,
}


def bombard(lab: Place, rng: random.Random, kind: str, port: int, reads: bool) -> None:
    """One connection that says all this; the broker may end it."""
    with connect(lab, port) as stranger, contextlib.suppress(ConnectionError, TimeoutError):
        data = KINDS[kind](rng)
        for at in range(0, len(data), 50_000):
            stranger.sendall(data[at : at + 50_000])
            if reads:
                stranger.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    stranger.recv(1 << 20)
                stranger.settimeout(20.0)


def started(lab: Place, node: str, role: str) -> Program:
    where = () if role == "broker" else ("--broker", lab.net["broker"].address)
    program = lab.run(node, role, "--driven", "--name", node, "--option", "mode=push", *where)
    program.wait_for('"event": "ready"')
    return program


def tell(program: Program, **command: object) -> None:
    program.write(json.dumps(command) + "\n")


def test_the_others_are_served_whatever_comes(lab: Place) -> None:
    broker, s5, p6 = started(lab, "broker", "broker"), started(lab, "s5", "consumer"), started(lab, "p6", "producer")
    tell(s5, do="subscribe", topics=["topic1"])
    s5.wait_for('"phase": "subscribe", "ok": true')
    before, rng, number = broker.memory_kib(), random.Random(6), 0
    half = [connect(lab, port) for port in (9000, 8000)]  # half a line, for as long as it takes
    for sock in half:
        sock.sendall(b"x5 sub #hel")
    for kind in KINDS:
        for port in (9000, 8000):
            for reads in (True, False):
                bombard(lab, rng, kind, port, reads)
                number += 1
                tell(p6, do="publish", messages=[{"topic": "topic1", "text": f"message {number}."}])
                s5.wait_for(f"Received message for topic #topic1 : message {number}.\n")
                p6.wait_for('"ok": true, "sent": 1, "refused": 0, "unanswered": 0', number)
    assert broker.memory_kib() - before < AT_MOST_KIB
    assert s5.output.count(b"Received message") == number == 16
    for sock in half:
        sock.sendall(b"lo\n")
    assert half[0].recv(1000).startswith(b"OK\n")
    assert half[1].recv(1000).startswith(b"ERROR expected ID pub")
    for sock in half:
        sock.close()
    tell(broker, do="stop")
    broker.wait_for('"event": "counters"')
    counters = json.loads(broker.output.decode().splitlines()[-1].removeprefix("@lab "))
    assert counters["malformed"] >= 10_000
    assert (counters["published"] >= number, counters["turned_away"]) == (True, 0)


def test_more_connections_than_there_are_places(lab: Place) -> None:
    broker, s5, p6 = started(lab, "broker", "broker"), started(lab, "s5", "consumer"), started(lab, "p6", "producer")
    tell(s5, do="subscribe", topics=["topic1"])
    s5.wait_for('"phase": "subscribe", "ok": true')
    crowd = [connect(lab, 9000) for _ in range(300)]
    answers = []
    for sock in crowd:
        sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            answers.append(sock.recv(100))
    tell(p6, do="publish", messages=[{"topic": "topic1", "text": "in spite of it"}])
    s5.wait_for("Received message for topic #topic1 : in spite of it\n")
    for sock in crowd:
        sock.close()
    assert set(answers) == {b"ERROR too many subscribers\n"}
    tell(broker, do="stop")
    broker.wait_for('"turned_away": 296')

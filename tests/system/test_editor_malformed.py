"""Malformed input at a running broker, storage and words service: they go on serving, lose nothing, and stay small."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from editorkit import BROKER_PORT, PATIENCE_S, STORAGE_PORT, WORDS_PORT, Place, Program, place
from test_editor_kills import Editors

from lab.protocols.editor import http, rpc, soap, wire

GROWTH_BYTES = 24 * 1024 * 1024
HOLDING = 64  # connections that are begun and never finished, at once


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Place]:
    with place(tmp_path) as one:
        yield one


def resident(program: Program) -> int:
    text = Path(f"/proc/{program.process.pid}/status").read_text("ascii")
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS:")).split()[1]) * 1024


def noise(rng: random.Random, most: int = 200) -> bytes:
    return rng.randbytes(rng.randint(1, most))


def bad_request(rng: random.Random) -> bytes:
    """Something that is no request of the editor protocol, or one that is cut off."""
    whole = b"".join(wire.publication("weather", "rain " * rng.randint(0, 100)))
    return rng.choice(
        (
            lambda: noise(rng),
            lambda: whole[: rng.randint(1, len(whole) - 1)],
            lambda: b"PUBLISH\0weather\0" + bytes(rng.choices(range(1, 256), k=rng.choice((1025, 5000, 200_000)))),
            lambda: b"PUBLISH\0" + b"t" * 129 + b"\0text\0",
            lambda: b"PUBLISH\0\0text\0",
            lambda: rng.choice((b"publish", b"DELETE", b"SUBSCRIBED", b"UNPUBLISH")) + b"\0weather\x001\0",
            lambda: b"SUBSCRIBE\0weather\0" + rng.choice((b"0", b"65536", b"-1", b"x", b"9" * 40, b"")) + b"\0",
            lambda: b"UNSUBSCRIBE\0weather\0" + b"1" * rng.randint(20, 2000),
        )
    )()


def bad_call(rng: random.Random) -> bytes:
    """Something that is no call of the storage, or one that it cannot carry out."""
    article = rpc.append_arguments(rpc.Article(1, 1, b"weather", b"rain"))
    whole = rpc.call(rng.randrange(2**32), rpc.Procedure.APPEND, article)
    return rng.choice(
        (
            lambda: noise(rng),
            lambda: whole[: rng.randint(1, len(whole) - 1)],
            lambda: rpc.record(noise(rng)),
            lambda: struct.pack(">I", 0xFFFFFFFF) + noise(rng),
            lambda: rpc.uints(0) * 1000,
            lambda: rpc.call(1, rpc.Procedure.APPEND, noise(rng)),
            lambda: rpc.call(1, rpc.Procedure.LAST, rpc.opaque(b"t" * 129)),
            lambda: rpc.call(1, rng.randint(4, 2**32 - 1)),  # type: ignore[arg-type]
            lambda: rpc.record(rpc.uints(1, 0, rng.choice((1, 3)), rpc.PROGRAM, 1, 1, 0, 0, 0, 0)),
            lambda: rpc.record(rpc.uints(1, 0, 2, rng.randrange(2**32), rng.randint(0, 9), 1, 0, 0, 0, 0)),
        )
    )()


def bad_post(rng: random.Random) -> bytes:
    """Something that is no question for the words service."""
    headers = {"Content-Type": "text/xml"}
    return rng.choice(
        (
            lambda: noise(rng),
            lambda: http.request("/words", "w", noise(rng), headers),
            lambda: http.request("/elsewhere", "w", soap.request("7"), headers),
            lambda: http.request("/words", "w", soap.request(rng.choice(("x", "", "9" * 400, "1e5", "٣"))), headers),
            lambda: http.request("/words", "w", b'<!DOCTYPE a [<!ENTITY b "c">]>' + soap.request("7"), headers),
            lambda: http.request("/words", "w", b"<a>" * 4000, headers),
            lambda: b"POST /words HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
            lambda: b"POST /words HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            lambda: b"X" * 10_000,
            lambda: b"GET /words HTTP/1.1\r\n" + b"A: b\r\n" * rng.randint(1, 3000),
        )
    )()


def flood(address: tuple[str, int], made: Callable[[random.Random], bytes], count: int, seed: int) -> None:
    """So many connections with something malformed each; some of them stay open for a while."""
    rng = random.Random(seed)
    held: list[socket.socket] = []
    try:
        for _ in range(count):
            sock = socket.create_connection(address, PATIENCE_S)
            with contextlib.suppress(ConnectionError):
                sock.sendall(made(rng))
            held.append(sock)
            if len(held) > HOLDING:
                held.pop(rng.randrange(len(held))).close()
    finally:
        for sock in held:
            sock.close()


def test_ten_thousand_malformed_connections(lab: Place) -> None:
    storage, broker = lab.start()
    words = lab.words()
    lab.publish("weather", "at the beginning")
    subscriber = lab.subscriber(words=True)
    subscriber.write("SUBSCRIBE weather\n")
    subscriber.wait_for("beginning\n")
    flood((lab.broker_at, BROKER_PORT), bad_request, 200, seed=1)  # what a program needs once, it has now
    flood((lab.storage_at, STORAGE_PORT), bad_call, 200, seed=2)
    flood((lab.words_at, WORDS_PORT), bad_post, 200, seed=3)
    before = {program: resident(program) for program in (storage, broker, words)}
    with Editors(lab.broker_at) as editors:
        flood((lab.broker_at, BROKER_PORT), bad_request, 5000, seed=4)
        flood((lab.storage_at, STORAGE_PORT), bad_call, 3000, seed=5)
        flood((lab.words_at, WORDS_PORT), bad_post, 2000, seed=6)
        editors.wait_for_more(10)
    for program, size in before.items():
        assert program.process.poll() is None
        assert resident(program) - size < GROWTH_BYTES
    lab.publish("weather", "7 at the end")
    subscriber.wait_for("seven at the end\n")
    log = [text.decode() for _, text in lab.log()]
    assert editors.tried - len(editors.acknowledged) <= 0  # not one was refused or cut off
    assert Counter(log) == Counter([*editors.acknowledged, "at the beginning", "7 at the end"])
    delivered = Counter(line.rpartition(" : ")[2] for line in subscriber.lines if "MESSAGE FROM weather" in line)
    due = [text.decode() for topic, text in lab.log() if topic == b"weather"]
    assert len(delivered) == len(due)
    assert set(delivered.values()) == {1}


@pytest.mark.parametrize("pieces", [1, 3, 26], ids=["one write", "three writes", "byte by byte"])
def test_a_publication_in_any_pieces(lab: Place, pieces: int) -> None:
    lab.start()
    parts = {1: [b"PUBLISH\0weather\0rain at 7\0"], 3: [b"PUBLISH\0", b"weather\0", b"rain at 7\0"]}
    data = parts.get(pieces) or [bytes([byte]) for byte in b"PUBLISH\0weather\0rain at 7\0"]
    with socket.create_connection((lab.broker_at, BROKER_PORT), PATIENCE_S) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in data:
            sock.sendall(part)
        assert sock.recv(1) == b""
    assert lab.log() == [(b"weather", b"rain at 7")]


def test_what_is_no_publication_is_never_acknowledged(lab: Place) -> None:
    lab.start()
    for data in (b"PUBLISH\0weather\0half", b"PUBLISH\0weather\0" + b"x" * 1025 + b"\0", b"hello\n", b""):
        with socket.create_connection((lab.broker_at, BROKER_PORT), PATIENCE_S) as sock:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            with pytest.raises(ConnectionResetError):
                sock.recv(1)
    assert lab.log() == []

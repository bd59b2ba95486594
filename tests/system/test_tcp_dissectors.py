"""Sessions of the TCP protocols captured on loopback: tshark with the generated dissector, and our decoder on
reassembled streams, read the same messages in the same frames, field by field."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pytest
from editorkit import BROKER_PORT, STORAGE_PORT, WORDS_PORT, place
from lineskit import Program
from nets import ETH_P_ALL, SO_RCVBUFFORCE
from scapy.utils import RawPcapWriter

from lab.analysis.reading.messages import messages_in
from lab.analysis.reading.read import read_whole
from lab.analysis.wire import TableFramers
from lab.protocols.wire.codec import decode
from lab.protocols.wire.shipped import shipped
from lab.protocols.wire.table import Table
from tests.unit.report.wirekit import Message, Shark

pytestmark = [pytest.mark.netns, pytest.mark.tshark]
AFTER_S = 0.5  # so long after the end frames are still on their way to a tap
OUTGOING = 4  # loopback shows each frame twice
Frames = dict[int, list[Message]]


class Tap:
    """Everything that goes over loopback between addresses that begin so, until the block ends."""

    def __init__(self, net: str, file: Path) -> None:
        self._prefix = bytes(int(part) for part in net.split("."))
        self._file = file
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 32 * 1024 * 1024)
        self._socket.bind(("lo", ETH_P_ALL))
        self._socket.settimeout(AFTER_S)
        self._end: float | None = None
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Tap:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end = time.monotonic() + AFTER_S
        self._thread.join()
        self._socket.close()

    def _write(self) -> None:
        with RawPcapWriter(str(self._file), linktype=1, nano=True) as writer:
            writer.write_header(b"")
            while self._end is None or time.monotonic() < self._end:
                try:
                    frame, address = self._socket.recvfrom(1 << 18)
                except TimeoutError:
                    continue
                if address[2] != OUTGOING and frame[26:29] == self._prefix and frame[23] == socket.IPPROTO_TCP:
                    writer.write_packet(frame)


def segments(capture: Path, *others: int) -> pa.Table:
    """Without those of other protocols' ports."""
    rows = pa.Table.from_batches(list(read_whole(str(capture), "c")))
    keep = [
        row["src_port"] is not None and not {row["src_port"], row["dst_port"]} & set(others)
        for row in rows.select(["src_port", "dst_port"]).to_pylist()
    ]
    return rows.filter(pa.array(keep))


def ours(table: Table, rows: pa.Table) -> Frames:
    """What is no message has no name, as with tshark."""
    frames: Frames = defaultdict(list)
    for row in messages_in(rows, TableFramers(table)).to_pylist():
        assert row["kind"] in ("message", "damaged"), row
        found = decode(table, row["payload"], table.way(row["src_port"], row["dst_port"]))
        assert (found is None) == (row["kind"] == "damaged")
        frames[row["done_frame"]].append((found.name, dict(found.values)) if found else ("", {}))
    return frames


def sharks(frames: list[list[Message]]) -> Frames:
    return {number: messages for number, messages in enumerate(frames, 1) if messages}


@contextmanager
def running(*programs: Program) -> Iterator[None]:
    try:
        yield
    finally:
        for program in programs:
            if program.process.poll() is None:
                program.process.kill()
            program.gone()


def lines_session(net: str, mode: str) -> None:
    """Every kind of message: requests with positions, answers, messages at once, errors, and the sixth connection."""
    option = ("--option", f"mode={mode}", "--option", "resume=yes")
    at = ("-h", f"{net}.2", "--bind", f"{net}.3", *option)
    broker = Program(None, "broker", "--bind", f"{net}.2", *option)
    broker.wait_for("Waiting for Publishers/Subscribers.")
    with running(broker):
        publisher, subscriber = (Program(None, role, "-i", role[:1] + "1", *at) for role in ("publisher", "subscriber"))
        with running(publisher, subscriber):
            subscriber.write("0 sub #grüße\n")
            subscriber.wait_for("OK")
            publisher.write(
                "".join(f"0 pub #grüße text {n} ä {'x' * (4000 if n % 40 == 7 else n * 4)}\n" for n in range(100))
            )
            publisher.wait_for("text 99 ä")
            publisher.wait_for("Acknowledgment", 100)
            subscriber.write("0 unsub #other\n")
            subscriber.wait_for("Received message for topic #grüße : ", 100)
            crowd = [socket.create_connection((f"{net}.2", 9000), 10, (f"{net}.9", 0)) for _ in range(5)]
            crowd[0].sendall(b"s9 back #never 7\ns9 su")
            crowd[0].sendall(b"b #never\ns9 what\n")
            for sock in (crowd[0], crowd[4]):
                assert sock.recv(1000)
            for sock in crowd:
                sock.close()
            assert publisher.end() == subscriber.end() == 0


@pytest.mark.parametrize("mode", ["poll", "push"])
def test_every_field_of_a_lines_session(tmp_path: Path, mode: str) -> None:
    net, capture = f"127.{secrets.randbelow(100) + 20}.{secrets.randbelow(250)}", tmp_path / "session.pcap"
    with Tap(net, capture):
        lines_session(net, mode)
    table = shipped("lines")
    here, there = ours(table, segments(capture)), sharks(Shark(table, tmp_path).messages_in(capture))
    assert there == here
    names = [name for found in here.values() for name, _ in found]
    assert set(names) == {"", *(message.name for message in table.messages)}
    assert (names.count("MESSAGE"), names.count("")) == (100, 1)  # s9 what


def test_every_field_of_an_editor_session(tmp_path: Path) -> None:
    capture, table = tmp_path / "session.pcap", shipped("editor")
    with place(tmp_path) as lab, Tap(lab.net, capture):
        lab.start()
        subscriber = lab.subscriber()
        lab.publish("wetter", "grüße an alle")
        subscriber.write("SUBSCRIBE wetter\nSUBSCRIBE nothing\nUNSUBSCRIBE nothing\n")
        subscriber.wait_for("UNSUBSCRIBE FAIL")
        for number in range(10):
            lab.publish("wetter", f"number {number} {'ü' * 50 * number}")
        subscriber.wait_for("MESSAGE FROM wetter : number 9")
        subscriber.write("UNSUBSCRIBE wetter\n")
        subscriber.wait_for("UNSUBSCRIBE OK")
    here = ours(table, segments(capture, STORAGE_PORT, WORDS_PORT))
    [port] = {int(values["port"]) for found in here.values() for name, values in found if name == "SUBSCRIBE"}
    there = sharks(Shark(table, tmp_path).messages_in(capture, "-d", f"tcp.port=={port},editor"))
    assert there == here
    names = [name for found in here.values() for name, _ in found]
    assert names.count("PUBLISH") == 11
    assert set(names) == {message.name for message in table.messages}
    assert BROKER_PORT in table.ports

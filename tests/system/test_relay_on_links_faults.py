"""Faults aimed at messages of real programs: datagrams of `rooms`, and lines inside TCP connections."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from nets import PATIENCE_S, Net, network, wait_until
from relaynets import Relayed, relayed, socket_of, waiting

from lab.impairments.wanted import Wanted
from lab.protocols.wire.shipped import shipped
from lab.protocols.wire.table import to_plain

pytestmark = pytest.mark.netns

ROOMS, LINES = to_plain(shipped("rooms")), to_plain(shipped("lines"))
ROOMS_PORT, LINES_PORT = 50001, 9000
NODES = ("broker", "consumer1", "consumer2")
TYPES = {"ACK": 1, "PUB": 4, "MES": 7}
ACK, PUB = {"where": {"type": "ACK"}}, {"where": {"type": "PUB"}}


@pytest.fixture
def net() -> Iterator[Net]:
    with network(*NODES) as one:
        yield one


def room(kind: str, text: str) -> bytes:
    return bytes([TYPES[kind], 0]) + (1).to_bytes(4, "big") + text.encode().ljust(494, b"\0")


def text(payload: bytes) -> str:
    return payload[6:].rstrip(b"\0").decode("utf-8", "replace")


class Rooms:
    """Programs of all nodes, that send what they are told; every link is relayed, the broker's too."""

    def __init__(
        self, net: Net, folder: Path, faults: Sequence[Mapping[str, Any]], stack: contextlib.ExitStack
    ) -> None:
        self.relay: Relayed = stack.enter_context(relayed(net, folder, *NODES, wire=ROOMS, faults=faults))
        self._net = net
        self._sockets = {
            name: stack.enter_context(socket_of(net, name, ROOMS_PORT if name == "broker" else 50000)) for name in NODES
        }

    def send(self, source: str, target: str, *payloads: bytes) -> None:
        port = ROOMS_PORT if target == "broker" else 50000
        for payload in payloads:
            self._sockets[source].sendto(payload, (self._net[target].address, port))

    def next(self, name: str) -> str:
        return text(self._sockets[name].recv(2000))

    def got(self, name: str, last: str = "end") -> list[str]:
        """Up to and with the one that says so; and what came right behind."""
        found = []
        while not found or found[-1] != last:
            found.append(self.next(name))
        return found

    def late(self, name: str) -> list[str]:
        return [text(payload) for payload in waiting(self._sockets[name])]

    def close(self) -> tuple[list[dict[str, int]], list[dict[str, Any]]]:
        """What the faults counted, and the ledger."""
        closed = self.relay.backend.close()
        assert closed["failure"] is None
        entries = self.relay.ledger()
        for link, ways in closed["links"].items():
            for way in ("up", "down"):
                lost = [e for e in entries if (e["what"], e["link"], e["direction"]) == ("lost", link, way)]
                assert ways[way]["lost"] == len(lost)
        return closed["faults"], entries


@contextlib.contextmanager
def rooms(net: Net, folder: Path, *faults: Mapping[str, Any]) -> Iterator[Rooms]:
    with contextlib.ExitStack() as stack:
        yield Rooms(net, folder, faults, stack)


def acks(count: int) -> list[bytes]:
    return [room("ACK", f"ack {number}") for number in range(1, count + 1)]


END = room("ACK", "end")


def test_drop_exactly_the_third_ack_of_consumer2(net: Net, tmp_path: Path) -> None:
    """Its sender's tap has it, the receiver's has not, and it is one entry; four are meant, one is hit."""
    with rooms(net, tmp_path, {"action": "drop", **ACK, "senders": ["consumer2"], "nth": 3}) as one:
        one.send("consumer1", "broker", *acks(3))
        one.send("consumer2", "broker", *acks(4), END)
        assert sorted(one.got("broker")) == sorted(["ack 1", "ack 2", "ack 3", "ack 1", "ack 2", "ack 4", "end"])
        sent, arrived = (
            [text(frame[42:]) for _, frame in one.relay.ears[name].heard(out=out)]
            for name, out in (("consumer2", False), ("broker", True))
        )
        assert sent == ["ack 1", "ack 2", "ack 3", "ack 4", "end"]
        assert len(arrived) == 7
        counted, (entry,) = one.close()
        assert counted == [{"matched": 5, "hits": 1}]
        assert (entry["what"], entry["why"], entry["fault"], entry["type"]) == ("lost", "fault", 0, "ACK")
        assert (entry["link"], entry["direction"]) == ("consumer2@lan", "up")
        stamps = {text(frame[42:]): stamp for stamp, frame in one.relay.ears["consumer2"].heard(out=False)}
        assert entry["time_ns"] == stamps["ack 3"]


def test_what_never_comes_is_never_matched(net: Net, tmp_path: Path) -> None:
    with rooms(net, tmp_path, {"action": "drop", **ACK, "nth": 999}, {"action": "drop", **PUB}) as one:
        one.send("consumer1", "broker", *acks(3), END)
        assert len(one.got("broker")) == 4
        assert one.close() == ([{"matched": 4, "hits": 0}, {"matched": 0, "hits": 0}], [])


def test_delay(net: Net, tmp_path: Path) -> None:
    with rooms(net, tmp_path, {"action": "delay", **ACK, "nth": 2, "by_ms": 80}) as one:
        one.send("consumer1", "broker", *acks(3))
        assert [one.next("broker") for _ in range(3)] == ["ack 1", "ack 3", "ack 2"]
        sent, arrived = (
            {text(frame[42:]): stamp for stamp, frame in one.relay.ears[name].heard(out=out)}
            for name, out in (("consumer1", False), ("broker", True))
        )
        assert arrived["ack 2"] - sent["ack 2"] >= 80_000_000
        _, (entry,) = one.close()
        assert (entry["what"], entry["by_ms"]) == ("delayed", 80)


def test_duplicate_towards_a_consumer(net: Net, tmp_path: Path) -> None:
    with rooms(net, tmp_path, {"action": "duplicate", **PUB, "receivers": ["consumer2"], "copies": 2}) as one:
        for consumer in ("consumer1", "consumer2"):
            one.send("broker", consumer, room("PUB", "hot"), room("MES", "end"))
        assert one.got("consumer1") == ["hot", "end"]
        assert one.got("consumer2") == ["hot", "hot", "hot", "end"]
        counted, entries = one.close()
        assert counted == [{"matched": 1, "hits": 1}]
        assert [(entry["what"], entry["link"], entry["direction"]) for entry in entries] == [
            ("duplicated", "consumer2@lan", "down")
        ] * 2


@pytest.mark.parametrize("checksum", ["right", "wrong"])
def test_corrupt_with_the_checksum_made_right_reaches_the_program(net: Net, tmp_path: Path, checksum: str) -> None:
    with rooms(net, tmp_path, {"action": "corrupt", **ACK, "nth": 2, "checksum": checksum}) as one:
        one.send("consumer1", "broker", *acks(3), END)
        found = one.got("broker")
        if checksum == "right":
            assert len(found) == 4
            assert [word for word in found if word in ("ack 1", "ack 3", "end")] == ["ack 1", "ack 3", "end"]
        else:
            assert found == ["ack 1", "ack 3", "end"]
        assert len(one.relay.ears["broker"].heard(out=True)) == 4, "on the wire it is either way"
        _, (entry,) = one.close()
        assert (entry["what"], entry["why"], entry["fault"]) == ("corrupted", "fault", 0)


def test_hold_until_another_has_passed(net: Net, tmp_path: Path) -> None:
    """The links have a delay; the one that was held still comes behind the one it waited for."""
    until = {**PUB, "senders": ["broker"]}
    with rooms(net, tmp_path, {"action": "hold", **ACK, "nth": 1, "until": until, "at_most_s": 30}) as one:
        for name in ("consumer1", "consumer2"):
            for direction in ("up", "down"):
                one.relay.set(name, direction, Wanted(delay_ms=10))
        one.send("consumer1", "broker", *acks(2))
        assert one.next("broker") == "ack 2"
        assert one.relay.backend.pending().frames == 1
        one.send("broker", "consumer2", room("PUB", "go"))
        assert one.next("consumer2") == "go"
        assert one.next("broker") == "ack 1"
        stamps = {
            name: {text(frame[42:]): stamp for stamp, frame in one.relay.ears[name].heard(out=True)}
            for name in ("broker", "consumer2")
        }
        assert stamps["broker"]["ack 1"] - stamps["consumer2"]["go"] >= 10_000_000
        _, entries = one.close()
        assert [entry["what"] for entry in entries] == ["held", "released"]


def test_hold_ends_after_its_time(net: Net, tmp_path: Path) -> None:
    fault = {"action": "hold", **ACK, "nth": 1, "until": PUB, "at_most_s": 0.1}
    with rooms(net, tmp_path, fault) as one:
        one.send("consumer1", "broker", *acks(2))
        assert [one.next("broker"), one.next("broker")] == ["ack 2", "ack 1"]
        _, entries = one.close()
        assert entries[-1]["by_ms"] == 100


def test_after_is_counted_from_the_publish_phase(net: Net, tmp_path: Path) -> None:
    with rooms(net, tmp_path, {"action": "drop", **ACK, "after_s": 0.0}) as one:
        one.send("consumer1", "broker", *acks(2))
        assert [one.next("broker"), one.next("broker")] == ["ack 1", "ack 2"]
        one.relay.backend.begin()
        one.send("consumer1", "broker", *acks(2), room("MES", "end"))
        assert one.got("broker") == ["end"]
        assert one.close()[0] == [{"matched": 2, "hits": 2}]


class Lines:
    """A listening broker, and connections of a consumer to it, over relayed links."""

    def __init__(
        self, net: Net, folder: Path, faults: Sequence[Mapping[str, Any]], stack: contextlib.ExitStack
    ) -> None:
        self.relay: Relayed = stack.enter_context(relayed(net, folder, *NODES, wire=LINES, faults=faults))
        self._net, self._stack = net, stack
        self._listener = stack.enter_context(socket_of(net, "broker", LINES_PORT, socket.SOCK_STREAM))
        self._listener.listen()

    def connect(self, name: str = "consumer1") -> tuple[socket.socket, socket.socket]:
        """The consumer's end and the broker's."""
        ours = self._stack.enter_context(socket_of(self._net, name, 0, socket.SOCK_STREAM))
        ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ours.connect((self._net["broker"].address, LINES_PORT))
        its, _ = self._listener.accept()
        its.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        its.settimeout(PATIENCE_S)
        return ours, self._stack.enter_context(its)


@contextlib.contextmanager
def lines(net: Net, folder: Path, *faults: Mapping[str, Any]) -> Iterator[Lines]:
    with contextlib.ExitStack() as stack:
        yield Lines(net, folder, faults, stack)


def finish(one: Lines) -> tuple[list[dict[str, int]], list[dict[str, Any]]]:
    """What the faults counted and did. Bare acknowledgements may have been under way when it ended."""
    closed = one.relay.backend.close()
    assert closed["failure"] is None
    entries = one.relay.ledger()
    others = [entry for entry in entries if entry["why"] != "fault"]
    assert all((entry["why"], entry["length"]) == ("never-released", 0) for entry in others)
    return closed["faults"], [entry for entry in entries if entry["why"] == "fault"]


def publications(count: int) -> list[bytes]:
    return [b"p1 pub #t message %d\n" % number for number in range(count)]


def read_lines(connection: socket.socket, count: int) -> list[tuple[bytes, float]]:
    """So many lines, and when each was whole."""
    data, found = b"", []
    while len(found) < count:
        piece = connection.recv(4096)
        assert piece, "the connection ended"
        data += piece
        *whole, data = data.split(b"\n")
        found += [(line + b"\n", time.monotonic()) for line in whole]
    return found


def test_a_delayed_message_delays_what_is_behind_it_and_nothing_is_lost(net: Net, tmp_path: Path) -> None:
    sent = publications(6)
    with lines(net, tmp_path, {"action": "delay", **PUB, "nth": 3, "by_ms": 150}) as one:
        ours, its = one.connect()
        ours.sendall(b"".join(sent[:2]))
        before = read_lines(its, 2)
        began = time.monotonic()
        for line in sent[2:]:
            for part in (line[:7], line[7:]):
                ours.sendall(part)
        found = read_lines(its, 4)
        assert [line for line, _ in before + found] == sent, "in their order, each once"
        assert found[0][1] - began >= 0.15
        counted, (entry,) = finish(one)
        assert counted == [{"matched": 6, "hits": 1}]
        assert (entry["what"], entry["type"], entry["proto"], entry["by_ms"]) == ("delayed", "PUB", 6, 150)


def test_a_large_transfer_survives_a_delay_in_its_middle(net: Net, tmp_path: Path) -> None:
    """Many segments wait, some are sent again meanwhile; the stream stays whole."""
    sent = publications(20_000)
    with lines(net, tmp_path, {"action": "delay", **PUB, "nth": 10_000, "by_ms": 400}) as one:
        ours, its = one.connect()
        ours.settimeout(None)
        ours.setblocking(False)
        data, got, sent_bytes = b"".join(sent), bytearray(), 0
        its.setblocking(False)
        deadline = time.monotonic() + PATIENCE_S
        while len(got) < len(data):
            assert time.monotonic() < deadline, f"{len(got)} of {len(data)} bytes came"
            with contextlib.suppress(BlockingIOError):
                sent_bytes += ours.send(data[sent_bytes : sent_bytes + 65536])
            with contextlib.suppress(BlockingIOError):
                got += its.recv(1 << 20)
        assert bytes(got) == data
        counted, entries = finish(one)
        assert counted == [{"matched": 20_000, "hits": 1}]
        assert [entry["what"] for entry in entries] == ["delayed"]


def test_a_held_message_waits_for_one_on_another_connection(net: Net, tmp_path: Path) -> None:
    until = {"where": {"type": "SUB"}}
    with lines(net, tmp_path, {"action": "hold", **PUB, "nth": 1, "until": until, "at_most_s": 30}) as one:
        ours, its = one.connect()
        other, its_other = one.connect("consumer2")
        ours.sendall(publications(1)[0])
        wait_until(lambda: one.relay.backend.pending().frames > 0, "it is held")
        its.settimeout(0.1)
        with pytest.raises(TimeoutError):
            its.recv(100)
        other.sendall(b"s5 sub #t\n")
        assert its_other.recv(100) == b"s5 sub #t\n"
        its.settimeout(PATIENCE_S)
        assert its.recv(100) == publications(1)[0]
        assert [entry["what"] for entry in finish(one)[1]] == ["held", "released"]


@pytest.mark.parametrize("delay_ms", [0, 5])
def test_a_cut_connection_ends_at_both_ends_and_others_live(net: Net, tmp_path: Path, delay_ms: int) -> None:
    sent = publications(5)
    with lines(net, tmp_path, {"action": "cut", **PUB, "nth": 3}) as one:
        for direction in ("up", "down"):
            one.relay.set("consumer1", direction, Wanted(delay_ms=delay_ms))
        ours, its = one.connect()
        other, its_other = one.connect("consumer2")
        ours.sendall(b"".join(sent[:2]))
        assert [line for line, _ in read_lines(its, 2)] == sent[:2]
        ours.sendall(sent[2])
        for end in (ours, its):
            end.settimeout(PATIENCE_S)
            with pytest.raises(ConnectionResetError):
                end.recv(100)
        other.sendall(sent[3])
        assert its_other.recv(100) == sent[3]
        again, its_again = one.connect()
        again.sendall(sent[4])
        assert its_again.recv(100) == sent[4], "the consumer can come back"
        closed = one.relay.backend.close()
        assert closed["faults"] == [{"matched": 5, "hits": 1}]
        entries = one.relay.ledger()
        assert entries[0]["what"] == "connection-cut"
        assert {entry["what"] for entry in entries[1:]} == {"lost"}
        lost = sum(ways[way]["lost"] for ways in closed["links"].values() for way in ("up", "down"))
        assert lost == len(entries) - 1


def test_the_brokers_answers_are_messages_too(net: Net, tmp_path: Path) -> None:
    with lines(net, tmp_path, {"action": "delay", "where": {"type": "OK"}, "senders": ["broker"], "by_ms": 100}) as one:
        ours, its = one.connect()
        ours.sendall(publications(1)[0])
        assert its.recv(100)
        began = time.monotonic()
        its.sendall(b"OK\n")
        assert ours.recv(100) == b"OK\n"
        assert time.monotonic() - began >= 0.1
        _, (entry,) = finish(one)
        assert (entry["link"], entry["direction"], entry["type"]) == ("consumer1@lan", "down", "OK")

"""The relay's loop: JSON lines over its channel, frames in between. One process, one thread.

The end of the channel means leave at once, so it never outlives the fabric. Commands: open, begin, set, observe,
pending, counters, close.
"""

from __future__ import annotations

import gc
import json
import select
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import HostError, LabError
from lab.impairments.relay.agenda import Agenda, Backlog
from lab.impairments.relay.aim import Fault
from lab.impairments.relay.aimed import Aimed, Targets
from lab.impairments.relay.faults import Faults
from lab.impairments.relay.keyed import Keyed, PayloadKey
from lab.impairments.relay.ledger import Ledger, Place
from lab.impairments.relay.port import Port
from lab.impairments.relay.prompt import priority
from lab.impairments.relay.streams import Connections
from lab.impairments.relay.way import End, Shared, Way
from lab.impairments.wanted import Wanted
from lab.protocols.wire.table import Table, from_plain

LEDGER = "relay.jsonl"
FLUSH_EVERY_NS = 500_000_000
READ_AT_ONCE, READ_AT_CLOSE, RUN_AT_ONCE = 32, 10_000, 64
Answer = dict[str, Any]


@dataclass(frozen=True)
class Link:
    """A relayed link: its two sides and its two directions."""

    node_side: Port
    net_side: Port
    ways: dict[str, Way]

    @property
    def failure(self) -> str | None:
        sides = (self.node_side, self.net_side)
        return "; ".join(f"{side.interface}: {side.failure}" for side in sides if side.failure) or None


class Relay:
    """All relayed links of a run, and the channel to whoever drives them."""

    def __init__(self, channel: socket.socket, folder: Path) -> None:
        self._channel, self._folder = channel, folder
        self._links: dict[str, Link] = {}
        self._agenda, self._backlog = Agenda(), Backlog()
        self._faults = Faults()
        self._ledger: Ledger | None = None
        self._poll = select.epoll()
        self._sources: dict[int, tuple[Port, Way]] = {}
        self._shift_ns = 0  # from the kernel's stamps to the agenda's clock
        self._flush_ns = 0
        self._buffer = b""
        self._going = True
        self._failure: str | None = None  # of the relay itself
        self._commands: dict[str, Callable[[Answer], Answer]] = {
            "open": self._open,
            "begin": self._begin,
            "set": self._set,
            "observe": self._observe,
            "pending": self._pending,
            "counters": self._counters,
            "close": self._close,
        }

    def run(self) -> None:
        """Until the end of the channel."""
        self._channel.setblocking(False)
        self._poll.register(self._channel, select.EPOLLIN)
        gc.collect()
        gc.disable()  # nothing here is made in circles that matter, and a collection would hold frames up
        while self._going:
            try:
                self._turn()
            except Exception as error:  # costs the frame that was at hand, and is told
                self._failure = f"{type(error).__name__}: {error}"

    def _turn(self) -> None:
        select.select([self._poll], [], [], self._patience())  # finer than what epoll itself can wait
        for number, _ in self._poll.poll(0):
            if number in self._sources:
                self._forward(*self._sources[number])
            elif number == self._channel.fileno():
                self._read_commands()
        self._run_due()

    def _patience(self) -> float:
        now_ns = time.monotonic_ns()
        until_ns = min(self._flush_ns, self._agenda.next_ns or self._flush_ns)
        return max(0, until_ns - now_ns) / 1e9

    def _run_due(self) -> None:
        self._agenda.run(time.monotonic_ns, RUN_AT_ONCE)
        now_ns = time.monotonic_ns()
        if now_ns >= self._flush_ns:
            self._flush_ns = now_ns + FLUSH_EVERY_NS
            if self._ledger is not None:
                self._ledger.flush()

    def _forward(self, port: Port, way: Way, most: int = READ_AT_ONCE) -> None:
        """Some of what has come, then what is due: neither may starve the other."""
        stepped_ns = time.time_ns()
        self._shift_ns = time.monotonic_ns() - stepped_ns  # read in this order it errs towards late, never early
        for _ in range(most):
            taken = port.take()
            if taken is None:
                break
            raw, stamp_ns = taken
            way.take(raw, stamp_ns, stamp_ns + self._shift_ns)
        self._agenda.run(time.monotonic_ns, RUN_AT_ONCE)

    def _read_commands(self) -> None:
        data = self._channel.recv(1 << 20)
        if not data:
            self._going = False
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._say(self._obey(line))

    def _say(self, answer: Answer) -> None:
        self._channel.setblocking(True)
        try:
            self._channel.sendall(json.dumps(answer).encode() + b"\n")
        except OSError:  # nobody listens any more
            self._going = False
        self._channel.setblocking(False)

    def _obey(self, line: bytes) -> Answer:
        try:
            command = json.loads(line)
            asked = command.get("do") if isinstance(command, dict) else None
            if not isinstance(asked, str) or asked not in self._commands:
                raise HostError(f"the relay does not know {json.dumps(command)[:80]}")
            return {"ok": True, **self._commands[asked](command)}
        except LabError as error:
            return {"ok": False, **error.as_dict()}
        except Exception as error:
            return {"ok": False, "what": f"the relay failed: {type(error).__name__}: {error}"}

    def _open(self, command: Answer) -> Answer:
        if self._ledger is not None:
            raise HostError("the relay's links are open already")
        table = from_plain(command["wire"]) if command.get("wire") else None
        faults = read_faults(command.get("faults") or [], table)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._ledger = Ledger(self._folder / LEDGER, table)
        names = {packed(text): name for text, name in command["names"].items()}
        shared = Shared(self._agenda, self._backlog, self._ledger, time.monotonic_ns, names)
        self._faults = Faults(faults)
        broker, seed = command.get("broker", "broker"), command["seed"]
        targets = Targets(self._faults, table, Connections(table), broker, seed) if table and faults else None
        key = PayloadKey(table)
        for one in command["links"]:
            self._links[one["name"]] = self._open_link(one, shared, targets, lambda place: Keyed(seed, place, key))
        return {"links": list(self._links)}

    def _open_link(
        self, plain: Mapping[str, Any], shared: Shared, targets: Targets | None, keyed: Callable[[Place], Keyed]
    ) -> Link:
        try:
            node_side = Port(plain["node_side"], plain.get("guard") or ())
            net_side = Port(plain["net_side"])
        except OSError as error:
            raise HostError(f"{plain['name']}: the relay cannot listen there: {error.strerror}") from None
        macs = {link: packed_mac(mac) for link, mac in plain["macs"].items()}
        ways = {}
        for direction, exit_side in (("up", net_side), ("down", node_side)):
            place = Place(plain["name"], direction)
            end = End(place, plain["node"], packed_mac(plain["mac"]), macs)
            ways[direction] = Way(end, shared, keyed(place), exit_side.send)
        if targets is not None:
            Aimed(ways["up"], targets, ways["down"].inject)
            Aimed(ways["down"], targets, ways["up"].inject)
        for port, direction in ((node_side, "up"), (net_side, "down")):
            self._sources[port.fileno()] = port, ways[direction]
            self._poll.register(port, select.EPOLLIN)
        return Link(node_side, net_side, ways)

    def _link(self, command: Answer) -> Link:
        if command["link"] not in self._links:
            raise HostError(f"the relay has no link {command['link']}")
        return self._links[command["link"]]

    def _begin(self, _: Answer) -> Answer:
        self._faults.begin(time.monotonic_ns())
        return {}

    def _set(self, command: Answer) -> Answer:
        way = self._link(command).ways[command["direction"]]
        try:
            way.set(Wanted.read(command["wanted"]))
        except KeyError as error:
            raise HostError(f"{command['link']}: {error.args[0]} is no link of its subnet") from None
        applied_ns = time.time_ns()
        return {"observed": way.wanted.plain(), "applied_ns": applied_ns}

    def _observe(self, command: Answer) -> Answer:
        link = self._link(command)
        return {"observed": link.ways[command["direction"]].wanted.plain(), "failure": link.failure}

    def _pending(self, _: Answer) -> Answer:
        last_ns = self._agenda.last_ns if len(self._backlog) else None
        until_ns = None if last_ns is None else last_ns + time.time_ns() - time.monotonic_ns()
        return {"frames": len(self._backlog), "until_ns": until_ns}

    def _counters(self, _: Answer) -> Answer:
        for link in self._links.values():
            link.ways["up"].counters.missed = link.node_side.count_missed()
            link.ways["down"].counters.missed = link.net_side.count_missed()
        links = {
            name: {
                "failure": link.failure,
                **{direction: way.counters.plain() for direction, way in link.ways.items()},
            }
            for name, link in self._links.items()
        }
        told = {"failure": self._failure, "priority": priority()}
        return {"links": links, "faults": self._faults.counts(), **told}

    def _close(self, command: Answer) -> Answer:
        """Nothing more passes; what still waits is lost."""
        if self._ledger is None or not self._links:
            raise HostError("the relay has no links")
        for number, (port, way) in self._sources.items():
            self._poll.unregister(number)
            way.close()
            self._forward(port, way, READ_AT_CLOSE)
        self._sources.clear()
        answer = self._counters(command)
        for link in self._links.values():
            link.node_side.close()
            link.net_side.close()
        self._links.clear()
        self._ledger.close()
        return answer | {"ledger_failure": self._ledger.failure}


def read_faults(plain: list[Answer], table: Table | None) -> list[Fault]:
    """HostError says which one cannot be, and why."""
    if plain and table is None:
        raise HostError("faults are aimed by a wire table, and there is none")
    assert table is not None or not plain
    faults = []
    for number, one in enumerate(plain, 1):
        try:
            faults.append(Fault.read(one, table))  # type: ignore[arg-type]
        except (ValueError, KeyError) as error:
            raise HostError(f"fault {number}: {error}") from None
    return faults


def packed(text: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)


def packed_mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))

"""The faults at one direction of one link: messages are found in what passes, and the orders carried out.

A packet meets the faults on the link of the end that is not the broker: where it comes from, or, if it comes from the
broker, where it goes to. So each meets each fault once. No sockets and no clock of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.impairments.relay import resets
from lab.impairments.relay.agenda import Frame
from lab.impairments.relay.aim import NS_PER_MS, Message
from lab.impairments.relay.faults import Faults, Hold, Orders
from lab.impairments.relay.frames import TCP, UDP, Packet
from lab.impairments.relay.gates import Gate
from lab.impairments.relay.keyed import RANGE, bit_for
from lab.impairments.relay.ledger import Deed, message_in
from lab.impairments.relay.streams import RST, Connection, Connections, Segment
from lab.impairments.relay.way import Way
from lab.protocols.wire.codec import Decoded
from lab.protocols.wire.table import Table


@dataclass(frozen=True)
class Targets:
    """What all links have in common for faults."""

    faults: Faults
    table: Table
    connections: Connections
    broker: str
    seed: int


class Aimed:
    """In front of a way. `answer` sends a frame back the other direction."""

    def __init__(self, way: Way, targets: Targets, answer: Callable[[bytes], None]) -> None:
        self._way, self._targets, self._answer = way, targets, answer
        self._down = way.end.place.direction == "down"
        self._tcp = targets.table.transport == "tcp"
        self._gates: dict[Connection, Gate] = {}
        if way.end.node != targets.broker:
            way.first = self.take

    def take(self, frame: Frame) -> None:
        packet, name = frame.packet, self._way.shared.name
        assert packet is not None
        if packet.proto == (TCP if self._tcp else UDP):
            sender = name(packet.source)
            if not self._down or sender == self._targets.broker:
                act = self._segment if self._tcp else self._datagram
                act(frame, packet, sender, name(packet.target))
                return
        self._way.enter(frame)

    def _datagram(self, frame: Frame, packet: Packet, sender: str, receiver: str) -> None:
        found = message_in(self._targets.table, packet)
        orders = self._meet(found, frame, sender, receiver)
        if found is None or orders is None:
            self._way.enter(frame)
            return
        frame.frees = tuple(orders.frees)
        if orders.drop is not None:
            self._way.lose(frame, "fault", Deed("lost", "fault", orders.drop, found))
            return
        for fault, right, hit in orders.corrupts:
            draw = bit_for(self._targets.seed, fault, hit, RANGE)
            self._way.corrupt(frame, draw, right=right, deed=Deed("corrupted", "fault", fault, found))
        frames = [frame]
        for fault, count in orders.copies:
            deed = Deed("duplicated", "fault", fault, found)
            frames += [self._way.copy(frame, "fault", deed) for _ in range(count)]
        if not orders.delays and not orders.holds:
            for one in frames:
                self._way.enter(one)
            return
        gate = Gate(self._way.shared.agenda, self._way.enter)
        self._wait(gate, frames, [(found, orders)])

    def _segment(self, frame: Frame, packet: Packet, sender: str, receiver: str) -> None:
        segment = Segment.of(packet)
        connection = None if segment is None else self._targets.connections.of(packet, segment)
        if segment is None or connection is None:
            self._way.enter(frame)
            return
        if connection.cut is not None:
            self._refuse(frame, packet, segment, connection.cut)
            return
        waits: list[tuple[Decoded, Orders]] = []
        for found in self._targets.connections.feed(packet, segment, connection):
            orders = self._meet(found, frame, sender, receiver)
            if orders is not None and orders.cut is not None:
                self._cut(frame, packet, segment, connection, Deed("connection-cut", "fault", orders.cut, found))
                return
            if orders is not None:
                frame.frees += tuple(orders.frees)
                waits.append((found, orders))
        if segment.flags & RST:
            self._targets.connections.forget(packet)
        gate = self._gates.get(connection)
        if gate is None and not any(orders.delays or orders.holds for _, orders in waits):
            self._way.enter(frame)
            return
        self._gates[connection] = gate = gate or self._gate(connection)
        self._wait(gate, [frame], waits)

    def _meet(self, found: Decoded | None, frame: Frame, sender: str, receiver: str) -> Orders | None:
        if found is None:
            return None
        return self._targets.faults.meet(Message(found, sender, receiver, frame.base_ns))

    def _gate(self, connection: Connection) -> Gate:
        """Order within a connection is never changed: who comes later waits behind."""

        def leave(frame: Frame) -> None:
            if connection.cut is not None:
                self._way.lose(frame, "fault", Deed("lost", "fault", connection.cut))
            else:
                self._way.enter(frame)
            if not gate:
                self._gates.pop(connection, None)

        gate = Gate(self._way.shared.agenda, leave)
        return gate

    def _wait(self, gate: Gate, frames: list[Frame], waits: list[tuple[Decoded, Orders]]) -> None:
        """The first of these and its copies wait for everything that was ordered."""
        by_ns = 0
        holds: list[Hold] = []
        for found, orders in waits:
            by_ns = max(by_ns, self._delay(frames[0], found, orders))
            holds += self._hold(gate, frames[0], found, orders)
        for frame in frames:
            if self._way.wait(frame):
                gate.add(frame, frame.base_ns + by_ns, tuple(holds))
        gate.look(self._way.shared.clock())

    def _delay(self, frame: Frame, found: Decoded, orders: Orders) -> int:
        """How long it is delayed, by all faults together."""
        for fault, by_ns in orders.delays:
            self._way.counters.held += 1
            self._way.note(frame, Deed("delayed", "fault", fault, found, by_ms=by_ns / NS_PER_MS))
        return sum(by_ns for _, by_ns in orders.delays)

    def _hold(self, gate: Gate, frame: Frame, found: Decoded, orders: Orders) -> list[Hold]:
        """Each hold ends when the other packet has passed, or after its time."""
        came_ns = frame.base_ns
        for hold in orders.holds:
            self._way.counters.held += 1
            self._way.note(frame, Deed("held", "fault", hold.fault, found))

            def free(now_ns: int, hold: Hold = hold) -> None:
                if self._targets.faults.end_hold(hold, now_ns):
                    by_ms = (now_ns - came_ns) / NS_PER_MS
                    self._way.note(frame, Deed("released", "fault", hold.fault, found, by_ms=by_ms))
                    gate.look(now_ns)

            hold.free = free
            self._way.shared.agenda.add(hold.deadline_ns, lambda held, now_ns: held.free(now_ns), hold)
        return orders.holds

    def _cut(self, frame: Frame, packet: Packet, segment: Segment, connection: Connection, deed: Deed) -> None:
        """Both ends are told that the connection is no more; the message's last byte never arrives."""
        assert deed.fault is not None
        connection.cut = deed.fault
        self._way.note(frame, deed)
        self._way.inject(resets.onward(packet, segment))
        self._refuse(frame, packet, segment, deed.fault)

    def _refuse(self, frame: Frame, packet: Packet, segment: Segment, fault: int) -> None:
        """As a host answers that does not know the connection: with the number the sender expects next."""
        self._way.lose(frame, "fault", Deed("lost", "fault", fault))
        if not segment.flags & RST:
            self._answer(resets.back(packet, segment))

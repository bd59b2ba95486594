"""The simulated network itself: what the cores' tests rely on must be true of it."""

from __future__ import annotations

import pytest
from simnet import SimNet, Weather

from lab.protocols.core import (
    Abort,
    Address,
    Close,
    Connect,
    Connection,
    Core,
    Ending,
    HalfClose,
    Listener,
    Send,
)


class Peer(Core):
    """Notes everything that happens to it; answers a finished stream with what it got, if it is told to."""

    listeners = (Listener("main", 4200),)

    def __init__(self, answers: bool = False) -> None:
        super().__init__()
        self.answers = answers
        self.got: dict[Connection, bytes] = {}
        self.pieces = 0
        self.history: list[tuple[str, Connection]] = []

    def accepted(self, listener: str, addr: Address, now: float) -> Connection | None:
        self.history.append(("accepted", addr[0]))
        return f"{addr[0]}:{addr[1]}"

    def connected(self, connection: Connection, now: float) -> None:
        self.history.append(("connected", connection))

    def receive_bytes(self, connection: Connection, data: bytes, now: float) -> None:
        self.pieces += 1
        self.got[connection] = self.got.get(connection, b"") + data

    def peer_finished(self, connection: Connection, now: float) -> None:
        self.history.append(("finished", connection))
        if self.answers:
            self.act(Send(connection, self.got[connection]))
            self.act(Close(connection))

    def closed(self, connection: Connection, ending: Ending, now: float) -> None:
        self.history.append((ending, connection))


def pair(weather: Weather | None = None, answers: bool = True) -> tuple[SimNet, Peer, Peer]:
    net = SimNet(3, weather)
    client, server = Peer(), Peer(answers)
    net.add("10.0.0.1", client)
    net.add("10.0.0.2", server)
    return net, client, server


def test_a_stream_comes_whole_in_pieces_and_both_sides_close() -> None:
    net, client, server = pair(Weather(cut=0.95, jitter_s=0.01))
    data = bytes(range(256)) * 4
    client.act(Connect("c", ("10.0.0.2", 4200)))
    client.act(Send("c", data[:500]))
    client.act(Send("c", data[500:]))
    client.act(HalfClose("c"))
    net.run()
    assert client.got["c"] == data
    assert server.pieces > 2
    assert net.cuts > 0
    assert client.history == [("connected", "c"), ("finished", "c"), ("closed", "c")]
    assert [what for what, _ in server.history] == ["accepted", "finished", "closed"]


def test_nobody_listening_is_refused_and_silence_is_silence() -> None:
    net, client, _ = pair()
    client.act(Connect("c", ("10.0.0.2", 1)))
    client.act(Connect("d", ("10.0.0.9", 4200)))
    net.run()
    assert client.history == [("refused", "c"), ("refused", "d")]
    net.silent.add("10.0.0.2")
    client.act(Connect("c", ("10.0.0.2", 4200)))
    net.run()
    assert len(client.history) == 2


def test_a_killed_host_and_an_abort_are_lost_to_the_peer() -> None:
    net, client, server = pair()
    client.act(Connect("c", ("10.0.0.2", 4200)))
    client.act(Connect("d", ("10.0.0.2", 4200)))
    net.run()
    client.act(Abort("d"))
    net.run()
    assert ("aborted", "d") in client.history
    assert server.history[-1][0] == "lost"
    net.kill("10.0.0.2")
    net.run()
    assert client.history[-1] == ("lost", "c")


def test_resets_are_counted_and_told_to_both() -> None:
    net, client, server = pair(Weather(reset=1.0))
    client.act(Connect("c", ("10.0.0.2", 4200)))
    client.act(Send("c", b"x"))
    net.run()
    assert (net.resets, client.history[-1], server.history[-1][0]) == (1, ("lost", "c"), "lost")


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_seed_gives_the_same_weather(seed: int) -> None:
    pieces = []
    for _ in range(2):
        net, client, server = pair(Weather(cut=0.5))
        client.act(Connect("c", ("10.0.0.2", 4200)))
        client.act(Send("c", bytes(1000)))
        net.run()
        pieces.append((net.cuts, server.pieces))
    assert pieces[0] == pieces[1]

"""Ten thousand packets that are none, aimed at a running broker: it goes on serving the others, and stays small."""

from __future__ import annotations

import json
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from nets import Net, Node, inside, network
from terminal import Terminal, Terminals, terminals

pytestmark = pytest.mark.netns
PACKETS = 10_000
MESSAGES = 300
GROWN_KB = 64 * 1024
SIZES = {"topics": 1400, "rooms": 500}
TOPICS = {"topics": "a", "rooms": "1"}
ARQS = [("topics", "none"), ("topics", "go-back-n"), ("rooms", "none"), ("rooms", "sliding-window")]


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    with network("broker", "publisher", "subscriber", "stranger") as one:
        yield one


def forged(source: tuple[str, int], to: str, payload: bytes) -> bytes:
    """An IP packet to the broker's port that claims to come from somebody else."""
    udp = struct.pack("!HHHH", source[1], 50001, 8 + len(payload), 0) + payload
    addresses = socket.inet_aton(source[0]) + socket.inet_aton(to)
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, socket.IPPROTO_UDP, 0)
    return head + addresses + udp


def kinds(rng: random.Random, size: int) -> list[Callable[[], bytes]]:
    def whole(code: int) -> bytes:
        number = rng.choice((0, 1, 5, 2**31 - 1, 2**32 - 1, rng.getrandbits(32)))
        # Nobody subscribes to what the others use: whoever does that well-formed gets it, and is no malformed packet.
        text = rng.choice((b"zz", b"77777", b"47 65000", b"2 1400", rng.randbytes(size - 6)))
        return (bytes([code, rng.randint(0, 255)]) + number.to_bytes(4, "big") + text).ljust(size, b"\0")[:size]

    return [
        lambda: rng.randbytes(rng.randint(0, 1472)),
        lambda: whole(rng.randint(1, 9))[: rng.randint(0, size - 1)],
        lambda: whole(rng.randint(1, 9)) + rng.randbytes(rng.randint(1, 5000)),
        lambda: whole(rng.choice((0, 10, 200, 255))),
        lambda: whole(rng.randint(1, 9)),
    ]


class Attack:
    """All of it in another thread, while the others work."""

    def __init__(self, net: Net, size: int) -> None:
        self._net = net
        self._size = size
        self.sent = 0
        self.failures: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Attack:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(60)

    def over(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive(), "the attack is late"
        assert self.failures == []
        assert self.sent == PACKETS

    def _run(self) -> None:
        try:
            self._attack()
        except BaseException as error:
            self.failures.append(error)

    def _attack(self) -> None:
        rng = random.Random(5)
        stranger, broker = self._net["stranger"], self._net["broker"].address
        makes = kinds(rng, self._size)
        with plain(stranger) as own, headers(stranger) as raw:
            for number in range(PACKETS):
                payload = rng.choice(makes)()
                if number % 2:
                    own.sendto(payload, (broker, 50001))
                else:
                    # Other ports of hosts that there are. At the very ports of the others a forger could say what they
                    # could; and answers to nobody fill the kernel's queue until it knows that there is nobody.
                    host = rng.choice(("publisher", "subscriber", "stranger"))
                    source = (self._net[host].address, rng.randint(1024, 49_999))
                    raw.sendto(forged(source, broker, payload[:1400]), (broker, 0))
                self.sent += 1


def plain(node: Node) -> socket.socket:
    return inside(node.namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))


def headers(node: Node) -> socket.socket:
    return inside(node.namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW))


class Driven:
    """A program that the lab drives."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        terminal.wait_for('"event": "ready"')

    def tell(self, phase: str, **more: Any) -> None:
        self.terminal.type(json.dumps({"do": phase, **more}))

    def done(self, phase: str) -> dict[str, Any]:
        self.terminal.wait_for(f'"phase": "{phase}"')
        self.terminal.wait_for("}\n", since=self.terminal.output.find(f'"phase": "{phase}"'.encode()))
        lines = self.terminal.output.decode().splitlines()
        [line] = [line for line in lines if f'"phase": "{phase}"' in line]
        found: dict[str, Any] = json.loads(line.removeprefix("@lab "))
        return found


def driven(some: Terminals, name: str, role: str) -> Driven:
    return Driven(some.start(name, role, "--driven"))


@pytest.mark.parametrize(("protocol", "arq"), ARQS)
def test_the_broker_goes_on_serving_the_others(net: Net, protocol: str, arq: str) -> None:
    topic = TOPICS[protocol]
    with terminals(net, protocol, arq=arq) as some:
        broker = driven(some, "broker", "broker")
        publisher, subscriber = driven(some, "publisher", "producer"), driven(some, "subscriber", "consumer")
        publisher.tell("create", topics=[topic])
        assert publisher.done("create")["ok"]
        subscriber.tell("subscribe", topics=[topic])
        assert subscriber.done("subscribe")["ok"]
        before = broker.terminal.memory_kb()
        messages = [{"number": n, "topic": topic, "text": f"text m-producer1-{n}-0badcafe"} for n in range(MESSAGES)]
        with Attack(net, SIZES[protocol]) as attack:
            publisher.tell("publish", rate_per_s=150, messages=messages)
            done = publisher.done("publish")
            attack.over()
        assert done["sent"] == MESSAGES
        if arq == "none":  # what the kernel had no room for is lost
            subscriber.terminal.wait_for(f"m-producer1-{MESSAGES - 1}-0badcafe")
            shown = numbers(subscriber.terminal)
            assert done["unanswered"] <= 10
            assert len(set(shown)) >= MESSAGES - done["unanswered"] - 10
            assert len(set(shown)) == len(shown)
        else:
            subscriber.terminal.wait_for(f"m-producer1-{MESSAGES - 1}-0badcafe")
            assert (done["unanswered"], done["refused"]) == (0, 0)
            assert numbers(subscriber.terminal) == list(range(MESSAGES))
        assert broker.terminal.memory_kb() - before < GROWN_KB
        assert broker.terminal.process.poll() is None
        assert b"Traceback" not in broker.terminal.output


def numbers(subscriber: Terminal) -> list[int]:
    lines = (line for line in subscriber.output.decode().splitlines() if line.startswith("New publication: text m-"))
    return [int(line.split("-")[2]) for line in lines]

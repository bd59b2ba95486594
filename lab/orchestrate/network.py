"""A run's network as the orchestrator drives it: the fabric's commands in their order, and what of them is recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.errors import HostError
from lab.impairments.choose import Choice, choose
from lab.model.plan import LinkImpairment, Plan
from lab.orchestrate.channel import FabricChannel, links_of
from lab.orchestrate.record import Record
from lab.runtimes.base import HostLink, Streams

FABRIC_TIMEOUT_S = 60.0


@dataclass
class Network:
    """Links, taps and impairments of one run."""

    plan: Plan
    record: Record
    _channel: FabricChannel | None = field(default=None, init=False)
    _backends: dict[str, Choice] = field(default_factory=dict, init=False)
    _asked: bool = field(default=False, init=False)

    def connect(self, streams: Streams) -> None:
        """The fabric has been started; it answers when it has loaded what it needs."""
        self._channel = FabricChannel(streams)

    def choose_backends(self) -> None:
        """By what the plan asks of each link and what this kernel has; an error if that cannot be had."""
        hello = self._ask("hello", backends=bool(self.plan.demands))
        self._asked = True
        self.record.versions(hello["versions"])
        for demand in self.plan.demands:
            self._backends[demand.link] = choose(
                frozenset(demand.features),
                hello["backends"],
                wish=demand.wish,
                repeatable=self.plan.transport == "udp",
                packets_per_s=self.plan.packets_per_s,
                faults=demand.faults,
            )

    @property
    def particular(self) -> bool:
        """Whether a backend is asked for by name: then it is looked for before anything else is made."""
        return any(demand.wish != "auto" for demand in self.plan.demands)

    def open(self, host: dict[str, HostLink]) -> None:
        """Guard, taps, and the backends, which change nothing yet."""
        if not self._asked:
            self.choose_backends()
        opened = self._ask("open", **opening(self.plan, host, {name: one.name for name, one in self._backends.items()}))
        self.record.links(self.plan, host, opened["links"])
        self.record.backends({name: (choice.name, choice.why) for name, choice in self._backends.items()})
        self.record.seed(*honoured(self.plan, self._backends))
        self.record.clock("start", opened["clock"])

    def begin(self) -> None:
        """The first publication is about to be made."""
        self._ask("begin")

    def impair(self, states: Sequence[LinkImpairment], step: int | None = None) -> bool:
        """Set these, read them back; whether all of it is as it was asked for."""
        if not states:
            return True
        applied = self._ask("impair", impairments=told(states, step))["links"]
        self.record.impaired(applied)
        return all(entry["matches"] for entries in applied.values() for entry in entries)

    def settle(self) -> bool:
        """Wait until nothing passes any more; whether that came in time."""
        settle = self.plan.settle
        answer = self._ask(
            "settle", settle.at_most_s + FABRIC_TIMEOUT_S, quiet_s=settle.quiet_s, at_most_s=settle.at_most_s
        )
        return bool(answer["quiet"])

    def close(self) -> None:
        """The taps' last word."""
        closed = self._ask("close")
        self.record.counted(closed["links"])
        self.record.faults(closed["faults"])
        for problem in closed["problems"]:
            self.record.problem(problem)
        self.record.clock("end", closed["clock"])

    def stop(self, timeout_s: float) -> None:
        self._ask("stop", timeout_s)

    def let_go(self) -> None:
        """End of its input: whatever it still does, it ends now."""
        if self._channel is not None:
            self._channel.close()

    @property
    def connected(self) -> bool:
        return self._channel is not None

    def _ask(self, do: str, timeout_s: float = FABRIC_TIMEOUT_S, **more: Any) -> dict[str, Any]:
        if self._channel is None:
            raise HostError("the fabric was not started")
        return self._channel.ask(timeout_s, do=do, **more)


def opening(plan: Plan, host: Mapping[str, HostLink], backends: Mapping[str, str]) -> dict[str, Any]:
    """What the fabric is told of a run's links, each with the backend that it keeps."""
    return {
        "run": plan.run_id,
        "links": [{**link, "backend": backends.get(link["name"])} for link in links_of(plan, host)],
        "relay": {
            "seed": plan.seed,
            "names": {link.address: node.name for node in plan.nodes for link in node.links},
            "wire": plan.wire,
            "faults": [fault.model_dump(mode="json") for fault in plan.faults],
        },
    }


def told(states: Sequence[LinkImpairment], step: int | None = None) -> list[dict[str, Any]]:
    """What it is told of states of directions."""
    return [
        {"link": one.link, "direction": one.direction, "wanted": one.wanted.plain(), "step": step} for one in states
    ]


RANDOM = frozenset(("loss", "jitter", "reorder", "duplicate", "corrupt"))


def honoured(plan: Plan, backends: dict[str, Choice]) -> tuple[bool, str]:
    """Whether a run with the same seed hits the same packets, and why or why not."""
    drawn = [demand for demand in plan.demands if {*demand.features} & (RANDOM | {"bursts"})]
    if not drawn:
        return True, "the network decides nothing at random"
    if plan.transport != "udp":
        return False, "how TCP cuts a stream into packets is another each time, so only the shares are the same"
    for demand in drawn:
        if backends[demand.link].name != "relay":
            return False, f"{demand.link}: {backends[demand.link].name} draws random numbers of the kernel"
        if "bursts" in demand.features:
            return False, f"{demand.link}: where a burst falls depends on what came before"
    return True, "every random decision is made by the relay, from the seed and the packet"

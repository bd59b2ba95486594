"""Loss and cutting off by classic BPF, a rate by TBF: what nearly every kernel has. No delay, nothing repeatable."""

from __future__ import annotations

from lab.impairments import qdiscs
from lab.impairments.kernel import Commands, KernelBackend, Qdiscs
from lab.impairments.wanted import Wanted


class Cbpf(KernelBackend):
    """All loss is the filter's, also in front of the queue of a rate."""

    name = "cbpf"
    outermost = "tbf"

    def waits(self, wanted: Wanted) -> bool:
        return wanted.rate_kbit is not None

    def filtered_loss(self, wanted: Wanted) -> float:
        return wanted.loss_pct

    def queue(self, ifb: str, wanted: Wanted, mtu: int, now: Qdiscs) -> Commands:
        return [qdiscs.tbf(ifb, None, wanted, mtu)]

    def read_queue(self, now: Qdiscs) -> Wanted | None:
        return qdiscs.read_tbf(now["tbf"]) if "tbf" in now else None

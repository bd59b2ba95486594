"""Everything but corruption by the kernel's own netem, with TBF in it for the rate. Nothing repeatable.

netem draws for a copy before it draws for loss, and a lost packet whose copy passes is none: so where packets are
doubled too, or come in bursts, the even loss is the filter's, which comes first.
"""

from __future__ import annotations

from dataclasses import replace

from lab.errors import HostError
from lab.impairments import qdiscs
from lab.impairments.kernel import Commands, KernelBackend, Qdiscs
from lab.impairments.wanted import Wanted


class Netem(KernelBackend):
    """A queue is needed for all but cutting off."""

    name = "netem"
    outermost = "netem"

    def waits(self, wanted: Wanted) -> bool:
        return bool(wanted.features - {"cut-off"})

    def filtered_loss(self, wanted: Wanted) -> float:
        return wanted.loss_pct if wanted.bursts is not None or wanted.duplicate_pct else 0.0

    def queue(self, ifb: str, wanted: Wanted, mtu: int, now: Qdiscs) -> Commands:
        if wanted.jitter_ms > qdiscs.LARGEST_JITTER_MS:
            raise HostError(f"netem cannot vary a delay by more than {qdiscs.LARGEST_JITTER_MS:g} ms")
        commands = [qdiscs.netem(ifb, wanted, wanted.loss_pct - self.filtered_loss(wanted), now.get("netem"))]
        if wanted.rate_kbit is not None or "tbf" in now:  # to take it away would throw away what waits
            commands.append(qdiscs.tbf(ifb, f"{qdiscs.NETEM}1", wanted, mtu))
        return commands

    def read_queue(self, now: Qdiscs) -> Wanted | None:
        if "netem" not in now or qdiscs.has_more(now["netem"]):
            return None
        rate = qdiscs.read_tbf(now["tbf"]) if "tbf" in now else Wanted()
        return replace(qdiscs.read_netem(now["netem"]), rate_kbit=rate.rate_kbit, queue_bytes=rate.queue_bytes)

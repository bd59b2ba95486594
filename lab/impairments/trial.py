"""Which backends of the kernel work here, found by using them on an interface of one's own, which is removed again."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable

from lab.errors import HostError, LabError
from lab.impairments import tc
from lab.impairments.backend import Backend, LinkEnd
from lab.impairments.cbpf import Cbpf
from lab.impairments.netem import Netem
from lab.impairments.wanted import EVERYONE, Bursts, Wanted

ALIAS = "brokerlab:trial"
MAC = "02:00:00:00:00:01"
TRIALS: dict[str, tuple[Callable[[str], Backend], tuple[Wanted, ...]]] = {
    "cbpf": (Cbpf, (Wanted(loss_pct=5, rate_kbit=1000, queue_bytes=30_000, cut_off=(EVERYONE,)),)),
    "netem": (
        Netem,
        (
            Wanted(loss_pct=5, delay_ms=20, jitter_ms=5, duplicate_pct=2, reorder_pct=1),
            Wanted(bursts=Bursts(1, 30, 90, 1), rate_kbit=1000, queue_bytes=30_000, cut_off=(EVERYONE,)),
        ),
    ),
}


def usable() -> dict[str, str | None]:
    """By name: None, or what went wrong. Needs no link and no traffic, and touches nothing that is there."""
    return {name: _why_not(make, wanted) for name, (make, wanted) in TRIALS.items()}


def _why_not(make: Callable[[str], Backend], everything: tuple[Wanted, ...]) -> str | None:
    interface = f"blt{secrets.token_hex(5)}"
    try:
        tc.run_ip([["link", "add", "name", interface, "type", "ifb"]])
    except LabError as error:
        return error.what
    backend = make(ALIAS)
    try:
        tc.run_ip([["link", "set", "dev", interface, "alias", ALIAS]])
        tc.run_batch([tc.prepare(interface)])
        backend.open([LinkEnd("trial", interface, MAC)])
        return next(filter(None, (_refused(backend, one) for one in everything)), None)
    except LabError as error:
        return error.what
    finally:
        backend.clear()
        with contextlib.suppress(HostError):
            tc.run_ip([["link", "delete", "dev", interface]])


def _refused(backend: Backend, wanted: Wanted) -> str | None:
    for direction in ("up", "down"):
        backend.apply("trial", direction, wanted)
        observed = backend.observe("trial", direction)
        if not backend.agrees(wanted, observed):
            return f"asked for {wanted.plain()}, the kernel has {observed.plain() if observed else 'something else'}"
    return None

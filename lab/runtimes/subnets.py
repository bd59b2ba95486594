"""Free subnets on this host, and who has one that is asked for. Reads routes; knows no engine."""

from __future__ import annotations

import ipaddress
import json
import random
import subprocess
from collections.abc import Mapping

from lab.errors import HostError

Network = ipaddress.IPv4Network
POOL = Network("10.80.0.0/12")
NODES_AND_SPARE = 24  # addresses kept beside the nodes' own: gateway, broker, readable numbering


def host_routes() -> dict[str, str]:
    """Networks that this host has a route to, and how; default routes do not count."""
    try:
        done = subprocess.run(
            ["ip", "-json", "-4", "route", "show", "table", "all"],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise HostError(f"the routes of this host cannot be read: {error}", hint="install iproute2") from None
    taken = {}
    for route in json.loads(done.stdout or "[]"):
        if not _leads_everywhere(route["dst"]) and route.get("type") not in ("broadcast", "multicast"):
            taken[route["dst"]] = f"a route of this host by {route.get('dev', 'nobody')}"
    return taken


def _leads_everywhere(destination: str) -> bool:
    """A default route, also when it is written in two halves as some VPNs do."""
    return destination == "default" or Network(destination).prefixlen <= 1


def clash(wanted: str, taken: Mapping[str, str]) -> str | None:
    """Who has (part of) that subnet already, in words, or None."""
    network = Network(wanted)
    for other, who in taken.items():
        if network.overlaps(Network(other, strict=False)):
            return f"{other} is {who}"
    return None


def pick(counts: Mapping[str, int], taken: Mapping[str, str]) -> dict[str, str]:
    """A free subnet for each side, large enough for its nodes."""
    used = [Network(other, strict=False) for other in taken]
    chosen: dict[str, str] = {}
    for side, nodes in counts.items():
        bits = max(8, (nodes + NODES_AND_SPARE - 1).bit_length())
        candidates = list(POOL.subnets(new_prefix=32 - bits))
        random.shuffle(candidates)
        free = next((one for one in candidates if not any(one.overlaps(other) for other in used)), None)
        if free is None:
            raise HostError(f"no free subnet is left in {POOL}", hint="name subnets in the scenario")
        used.append(free)
        chosen[side] = str(free)
    return chosen

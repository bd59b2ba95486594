"""The network holder of a pod: keeps the network namespace while programs come and go, and tells the lab its links.

It turns offloads off and gives every destination beyond the planned ones a next hop that nobody has: what a program
sends there is seen on its link and taken by the guard. Then it prints one JSON line and waits to be stopped.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import signal
import sys
from collections.abc import Sequence

from lab.capture import iproute, offload
from lab.capture.iproute import Interface
from lab.errors import LabError

NOBODY = "02:00:00:00:00:01"  # locally administered, on no interface


def prepare(gateways: list[str]) -> list[Interface]:
    """Settle this namespace's interfaces and return them."""
    found = [interface for interface in iproute.interfaces() if interface.addresses]
    settle(found, gateways)
    return found


def settle(found: Sequence[Interface], gateways: Sequence[str], first: Sequence[Sequence[str]] = ()) -> None:
    """Offloads off, dead ends in place; `first` is whatever the namespace needs before, in the same process."""
    for interface in found:
        offload.turn_off(interface.name)
    whole = [["link", "set", "dev", interface.name, "gso_max_segs", "1"] for interface in found]
    routes = [route for gateway in gateways for route in _dead_end(found, gateway)]
    iproute.batch([*first, *whole, *routes])


def _dead_end(found: Sequence[Interface], gateway: str) -> list[list[str]]:
    target = ipaddress.ip_address(gateway)
    for interface in found:
        if any(target in ipaddress.ip_interface(address).network for address in interface.addresses):
            return [
                ["neigh", "replace", gateway, "lladdr", NOBODY, "dev", interface.name, "nud", "permanent"],
                ["route", "replace", "default", "via", gateway, "dev", interface.name],
            ]
    return []


def main() -> int:
    parser = argparse.ArgumentParser(prog="holder", description=__doc__)
    parser.add_argument("--gateway", action="append", default=[], help="a gateway that must lead nowhere")
    arguments = parser.parse_args()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        found = prepare(arguments.gateway)
    except (LabError, OSError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 3
    print(json.dumps({"interfaces": [vars(interface) for interface in found]}), flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    return 0


if __name__ == "__main__":
    sys.exit(main())

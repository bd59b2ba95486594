"""`python3 -m lab.capture.sweep RUN`: takes away what a fabric that was killed has left in this network namespace.

That is interfaces the fabric makes (veth, ifb) whose alias is exactly the run's; nobody else's, and no bridge.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from typing import Any

from lab.capture import iproute
from lab.errors import HostError

KINDS = ("veth", "ifb")


def leftovers(run_id: str) -> list[str]:
    """Names of the run's interfaces that are there now."""
    entries: list[dict[str, Any]] = json.loads(iproute.ip(["-details", "-json", "link", "show"]) or "[]")
    return [
        entry["ifname"]
        for entry in entries
        if entry.get("ifalias") == f"brokerlab:{run_id}" and entry.get("linkinfo", {}).get("info_kind") in KINDS
    ]


def sweep(run_id: str) -> list[str]:
    """Delete them; their names. The second end of a pair goes with the first."""
    found = leftovers(run_id)
    for name in found:
        with contextlib.suppress(HostError):
            iproute.ip(["link", "delete", "dev", name])
    left = leftovers(run_id)
    if left:
        raise HostError(f"interfaces of run {run_id} cannot be deleted: {', '.join(left)}")
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="sweep", description=__doc__)
    parser.add_argument("run", help="the id of a run that is dead")
    run_id = parser.parse_args(arguments).run
    try:
        print(json.dumps({"deleted": sweep(run_id)}), flush=True)
    except HostError as error:
        print(error, file=sys.stderr, flush=True)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())

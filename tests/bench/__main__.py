"""Runs benchmarks by name, or all of them.

Ends 0 if every goal was met, 1 if one was missed, 3 if this machine cannot measure or the name is unknown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from tests.bench import Unable, bringup, capture, decode, loss, relay

# name → measures, prints a table, and says whether its goals were met; raises Unable if the machine cannot do it
BENCHMARKS: dict[str, Callable[[], bool]] = {
    "loss": loss.run,
    "relay": relay.run,
    "capture": capture.run,
    "bring-up": bringup.run,
    "decode": decode.run,
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"there is no benchmark {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 3
    codes = [_run(name) for name in names or BENCHMARKS]
    return max(codes)


def _run(name: str) -> int:
    try:
        met = BENCHMARKS[name]()
    except Unable as reason:
        print(f"{name}: cannot be measured here: {reason}", file=sys.stderr)
        return 3
    print(f"{name}: {'every goal met' if met else 'GOAL MISSED'}", flush=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

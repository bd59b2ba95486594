"""The guest's first program: a bridge and two nodes, netem by the lab's own backend, and what a probe measures of it.

Its argument is the folder for the result, on the machine outside. It ends by switching the guest off.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/system")]

from uml.figures import figures  # noqa: E402
from uml.probe import Plan, Probe, Seen, together  # noqa: E402

from lab.impairments import tc, trial  # noqa: E402
from lab.impairments.backend import LinkEnd  # noqa: E402
from lab.impairments.netem import Netem  # noqa: E402
from lab.impairments.wanted import EVERYONE, Bursts, Wanted  # noqa: E402

MODULES = ("bridge", "veth", "ifb", "sch_ingress", "sch_tbf", "sch_netem", "cls_bpf", "act_mirred")
ALL_MODULES = Path("/usr/lib/uml/modules")
FINIT_MODULE, CLONE_NEWNET, POWER_OFF = 313, 0x40000000, 0x4321FEDC
RESULTS, SWITCH = "/run/results", "switch"
NODES = {"alice": ("10.99.0.10", "02:00:0a:63:00:0a"), "bob": ("10.99.0.11", "02:00:0a:63:00:0b")}
PORT, TIMEOUT_S = 9000, 30.0
WAYS = ("up", "down")  # alice's link: to bob, and from bob
SIZE = 100
STEADY, QUICK = Plan(400, 500.0, SIZE), Plan(3000, None, SIZE)
NOTHING = Wanted()
CASES: dict[str, tuple[Wanted, Plan]] = {
    "loss": (Wanted(loss_pct=10), QUICK),
    "delay": (Wanted(delay_ms=20), STEADY),
    "jitter": (Wanted(delay_ms=20, jitter_ms=5), STEADY),
    "duplicate": (Wanted(duplicate_pct=10), QUICK),
    "reorder": (Wanted(delay_ms=20, reorder_pct=10), STEADY),
    "bursts": (Wanted(bursts=Bursts(5, 25)), QUICK),
    "rate": (Wanted(rate_kbit=1000, queue_bytes=20_000), Plan(1000, None, SIZE)),
    "loss, duplicate and delay": (Wanted(loss_pct=10, duplicate_pct=10, delay_ms=20), STEADY),
    "nothing again": (NOTHING, STEADY),
    "all data lost": (Wanted(loss_pct=100), Plan(200, None, SIZE)),
    "cut off": (Wanted(cut_off=(EVERYONE,)), Plan(200, None, SIZE)),
}
_libc = ctypes.CDLL(None, use_errno=True)


def main(folder: str) -> None:
    mount("proc", "/proc", "proc")
    mount("sys", "/sys", "sysfs")
    mount("run", "/run", "tmpfs")
    os.mkdir(RESULTS)
    mount("results", RESULTS, "hostfs", folder)
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
    load(MODULES)
    make_network()
    document = examine()
    written = Path(RESULTS, "result.new")
    written.write_text(json.dumps(document, indent=1), encoding="utf-8")
    written.rename(Path(RESULTS, "result.json"))


def examine() -> dict[str, Any]:
    """Everything: first without netem, then each case, and what is left in the end."""
    found: dict[str, Any] = {"uname": run("uname", "-a").strip(), "tc": tc.version(), "usable": trial.usable()}
    sockets = {name: udp(name) for name in NODES}
    enter(SWITCH)
    tc.run_batch([tc.prepare(f"v-{name}") for name in NODES])
    before = interfaces()
    found["without netem"] = [part(NOTHING, seen, STEADY) for seen in measure(sockets, STEADY)]
    netem = Netem("brokerlab:guest")
    macs = {name: mac for name, (_, mac) in NODES.items()}
    netem.open([LinkEnd(name, f"v-{name}", mac, macs) for name, mac in macs.items()])
    found["cases"] = {name: case(netem, wanted, plan, sockets) for name, (wanted, plan) in CASES.items()}
    netem.clear()
    found["left"] = sorted(set(interfaces()) - set(before))
    return found


def case(netem: Netem, wanted: Wanted, plan: Plan, sockets: dict[str, socket.socket]) -> dict[str, Any]:
    """Set both directions, read them back, measure; what chance alone may have put beside is measured once more."""
    observed = []
    for direction in WAYS:
        netem.apply("alice", direction, wanted)
        observed.append(netem.observe("alice", direction))
    attempts = list(tries(netem, wanted, plan, sockets))
    return {
        "wanted": wanted.plain(),
        "observed": [one.plain() if one else None for one in observed],
        "agrees": all(netem.agrees(wanted, one) for one in observed),
        "attempts": attempts,
        "resolves": resolves() if wanted.loss_pct == 100 or wanted.cut_off else None,
        "qdiscs": run("tc", "-s", "qdisc", "show"),
    }


def tries(netem: Netem, wanted: Wanted, plan: Plan, sockets: dict[str, socket.socket]) -> Iterator[dict[str, Any]]:
    for one in (plan, replace(plan, count=2 * plan.count)):
        before = netem.dropped("alice") or 0
        both = measure(sockets, one)
        lost = sum(len(seen.lost) for seen in both)
        parts = [part(wanted, seen, one) for seen in both]
        yield {**dict(zip(WAYS, parts, strict=True)), "lost": lost, "dropped": (netem.dropped("alice") or 0) - before}
        if all(figure["right"] for each in parts for figure in each["figures"]):
            return


def measure(sockets: dict[str, socket.socket], plan: Plan) -> list[Seen]:
    """Both ways at the same time."""
    alice, bob = (sockets[name] for name in ("alice", "bob"))
    return together([Probe(alice, bob), Probe(bob, alice)], plan)


def part(wanted: Wanted, seen: Seen, plan: Plan) -> dict[str, Any]:
    delays = sorted(seen.delays_ms)
    places = {"min": 0.0, "p50": 0.5, "p99": 0.99, "max": 1.0}
    asked = replace(wanted, loss_pct=100.0, cut_off=()) if wanted.cut_off else wanted
    return {
        "sent": len(seen.sent_ns),
        "refused": seen.refused,
        "arrived": len(seen.got),
        "lost": len(seen.lost),
        "delay_ms": {name: round(delays[round(q * (len(delays) - 1))], 4) for name, q in places.items() if delays},
        "figures": [figure.plain() for figure in figures(asked, seen, plan.size)],
    }


def resolves() -> bool:
    """Whether alice finds bob's address anew."""
    address, mac = NODES["bob"]
    run("ip", "-n", "alice", "neigh", "flush", "dev", "eth0")
    enter("alice")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"who?", (address, PORT + 1))
    enter(SWITCH)
    deadline = time.monotonic() + 1.0  # an answer takes less than a millisecond
    while time.monotonic() < deadline:
        if mac in run("ip", "-n", "alice", "neigh", "show", "dev", "eth0"):
            return True
    return False


# --- the guest itself --------------------------------------------------------------------------------------


def make_network() -> None:
    for name in (SWITCH, *NODES):
        run("ip", "netns", "add", name)
    lines = ["link set lo up", "link add br0 type bridge mcast_snooping 0", "link set br0 up"]
    for name, (_, mac) in NODES.items():
        lines += [f"link add v-{name} type veth peer name eth0 address {mac} netns {name}"]
        lines += [f"link set v-{name} master br0 up"]
    run("ip", "-n", SWITCH, "-batch", "-", text=lines)
    for name, (address, _) in NODES.items():
        lines = ["link set lo up", "link set eth0 addrgenmode none", f"address add {address}/24 dev eth0"]
        run("ip", "-n", name, "-batch", "-", text=[*lines, "link set eth0 up"])


def udp(name: str) -> socket.socket:
    enter(name)
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind((NODES[name][0], PORT))
    return one


def enter(namespace: str) -> None:
    handle = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        check(_libc.setns(handle, CLONE_NEWNET), f"entering {namespace}")
    finally:
        os.close(handle)


def interfaces() -> list[str]:
    return [name for _, name in socket.if_nameindex()]


def run(*command: str, text: list[str] | None = None) -> str:
    given = "".join(f"{line}\n" for line in text) if text else None
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


def mount(source: str, target: str, kind: str, data: str = "") -> None:
    check(_libc.mount(source.encode(), target.encode(), kind.encode(), 0, data.encode()), f"mounting {target}")


def load(names: tuple[str, ...]) -> None:
    """Kernel modules with what they need, in that order."""
    folder = ALL_MODULES / os.uname().release
    needs = {}
    for line in (folder / "modules.dep").read_text(encoding="ascii").splitlines():
        path, _, others = line.partition(":")
        needs[path] = others.split()
    paths = {Path(path).stem: path for path in needs}
    wanted = [one for name in names for one in (*reversed(needs[paths[name]]), paths[name])]
    for path in dict.fromkeys(wanted):
        handle = os.open(folder / path, os.O_RDONLY)
        check(_libc.syscall(FINIT_MODULE, handle, b"", 0), f"loading {path}")
        os.close(handle)


def check(code: int, what: str) -> None:
    if code:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except BaseException:
        traceback.print_exc()
    os.sync()
    _libc.reboot(POWER_OFF)

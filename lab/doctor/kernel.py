"""What this kernel can do to links, each tried in a network namespace that goes with the process which tries it.

Everything but the first probe runs inside such a namespace already.
"""

from __future__ import annotations

import re
import socket
import sys

from lab.doctor.findings import Answer, missing, ok
from lab.doctor.host import Host
from lab.errors import HostError
from lab.impairments import programs
from lab.impairments import tc as filters

LINK = "lo"  # every namespace has one
LOSS_PCT = 5.0
ALL_PROTOCOLS = 0x0300  # ETH_P_ALL in network order
SEED = 7


def namespaces(host: Host) -> Answer:
    if sys.platform != "linux":
        return missing(f"this is {sys.platform}; network namespaces need Linux", "use Linux for netns")
    try:
        rootless = host.enter_network()
    except OSError as error:
        do = "run as root, or allow user namespaces (next row)" if host.user.uid else "leave the container you are in"
        return missing(f"none can be made: {error.strerror or error}", do)
    return ok("one was made, in a user namespace (rootless)" if rootless else "one was made, as root")


def links(host: Host) -> Answer:
    for words in (
        ["name", "br0", "type", "bridge"],
        ["name", "port0", "master", "br0", "type", "veth", "peer", "name", "eth0"],
    ):
        refused = _refused(host, ["ip", "link", "add", *words])
        if refused:
            return missing(f"no {words[words.index('type') + 1]}: {refused}", _other_kernel("VETH and CONFIG_BRIDGE"))
    shown = host.run(["ip", "-oneline", "link", "show", "master", "br0"]).out
    if "port0@eth0" not in shown:
        return missing("a veth was made a port of a bridge, and is none", _other_kernel("BRIDGE"))
    return ok("a veth pair was made, with one end on a bridge")


def packet_sockets(_: Host) -> Answer:
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, ALL_PROTOCOLS) as tap:
            tap.bind((LINK, 0))
    except OSError as error:
        return missing(f"none can be opened: {error.strerror}", _other_kernel("PACKET"))
    return ok("one was opened on a link")


def clsact(host: Host) -> Answer:
    return _qdisc(host, ["clsact"], _other_kernel("NET_CLS_ACT"))


def cls_bpf(host: Host) -> Answer:
    """The very filter that a run loses packets with, put and read back."""
    advice = _other_kernel("NET_CLS_BPF")
    program = programs.loss(LOSS_PCT)
    for words in (filters.prepare(LINK), filters.put_filter(LINK, "down", filters.LOSS_PRIORITY, program)):
        refused = _refused(host, ["tc", *words])
        if refused:
            return missing(f"tc refuses it: {refused}", advice)
    real = host.read_filter(LINK, "down", filters.LOSS_PRIORITY)
    if real != program:
        return missing("a filter was put, and another one was read back" if real else "a filter vanished", advice)
    return ok(f"a filter for {LOSS_PCT:g} % loss was put and read back")


def ifb(host: Host) -> Answer:
    refused = _refused(host, ["ip", "link", "add", "name", "ifb0", "type", "ifb"])
    if refused:
        return missing(f"ip refuses it: {refused}", _other_kernel("IFB"))
    return ok("one was made")


def netem(host: Host) -> Answer:
    advice = f"nothing: the relay does all of it up to its capacity; beyond: {_netem_kernel(host)}"
    return _qdisc(host, ["root", "netem", "loss", f"{LOSS_PCT:g}%"], advice)


def netem_seed(host: Host) -> Answer:
    words = ["root", "netem", "loss", f"{LOSS_PCT:g}%", "seed", str(SEED)]
    return _qdisc(host, words, "nothing: what must be repeatable is done by the relay")


def tbf(host: Host) -> Answer:
    words = ["root", "tbf", "rate", "1mbit", "burst", "10kb", "latency", "50ms"]
    return _qdisc(host, words, _other_kernel("NET_SCH_TBF"))


def _qdisc(host: Host, words: list[str], advice: str) -> Answer:
    """Put a queueing discipline on a link and look whether it is there."""
    refused = _refused(host, ["tc", "qdisc", "add", "dev", LINK, *words])
    if refused:
        return missing(f"tc refuses it: {refused}", advice)
    kind = words[1] if words[0] == "root" else words[0]
    wanted = [f"qdisc {kind}"] + ([f"seed {SEED}"] if "seed" in words else [])
    shown = host.run(["tc", "qdisc", "show", "dev", LINK]).out
    if not all(re.search(rf"\b{one}\b", shown) for one in wanted):
        return missing(f"{wanted[-1]} was asked for and is not there", advice)
    return ok(f"{wanted[-1].removeprefix('qdisc ')} was put on a link and read back")


def _refused(host: Host, command: list[str]) -> str | None:
    """Why a command was refused, or None if it was done."""
    try:
        ran = host.run(command)
    except HostError as error:
        return error.what
    return ran.reason if ran.code else None


def _other_kernel(option: str) -> str:
    return f"a kernel with CONFIG_{option}"


def _netem_kernel(host: Host) -> str:
    if host.distribution == "ubuntu":
        return host.as_root(f"apt-get install linux-modules-extra-{host.kernel}")
    return _other_kernel("NET_SCH_NETEM")

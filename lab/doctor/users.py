"""Who runs the lab, and what the kernel and the engine let that user do."""

from __future__ import annotations

from lab.doctor.findings import Answer, missing, note, ok
from lab.doctor.host import Host

# Switches by which a kernel forbids user namespaces: the value that forbids, and the one that allows.
SWITCHES = {
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
    "user.max_user_namespaces": ("0", "10000"),
}


def user_namespaces(host: Host) -> Answer:
    """Tried as an ordinary user, also when root asks."""
    try:
        host.enter_as_ordinary_user()
    except OSError as error:
        found = f"an ordinary user gets none: {error.strerror or error}"
        do = _allow(host)
        return note(found, f"nothing for root; else {do}") if host.user.uid == 0 else missing(found, do)
    return ok("an ordinary user can make one: netns works without root")


def _allow(host: Host) -> str:
    for name, (forbidden, allowed) in SWITCHES.items():
        if host.read("/proc/sys/" + name.replace(".", "/")) == forbidden:
            return host.as_root(f"sysctl -w {name}={allowed}")
    return "leave the container you are in, or run as root"


def rights(host: Host) -> Answer:
    """In words, from what other probes could do as this user."""
    user = host.user
    who = "root" if user.uid == 0 else f"{user.name} (groups: {', '.join(user.groups)})"
    able = [
        words
        for name, words in {"network namespaces": "make network namespaces", "engine": "use the Docker engine"}.items()
        if name in host.known and host.known[name].state == "ok"
    ]
    if able:
        return ok(f"{who}: may {' and '.join(able)}")
    return missing(
        f"{who}: may neither make network namespaces nor use a Docker engine",
        "run as root, or see the rows 'user namespaces' and 'engine'",
    )

"""What is said about rights: to root, to a member of a group, to somebody who may do nothing."""

from __future__ import annotations

import errno
import os

import pytest
from doctor_host import finding, machine, raising

from lab.doctor import users
from lab.doctor.findings import missing, note, ok
from lab.doctor.host import User

DENIED = OSError(errno.EPERM, os.strerror(errno.EPERM))
ROOT = User(0, "root", ("root",))
GOOD = {"network namespaces": finding("network namespaces", ok("")), "engine": finding("engine", ok(""))}
BAD = {name: finding(name, missing("", "")) for name in GOOD}


def test_user_namespaces() -> None:
    assert users.user_namespaces(machine()).state == "ok"


@pytest.mark.parametrize(
    ("switch", "value", "do"),
    [
        ("kernel/unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=10000"),
        ("user/max_user_namespaces", "96365", "leave the container you are in, or run as root"),
    ],
)
def test_the_switch_that_forbids_them_is_named(switch: str, value: str, do: str) -> None:
    host = machine(
        enter_as_ordinary_user=raising(DENIED), read=lambda path: value if path == f"/proc/sys/{switch}" else None
    )
    assert users.user_namespaces(host) == missing("an ordinary user gets none: Operation not permitted", do)


def test_root_can_do_without_them() -> None:
    answer = users.user_namespaces(machine(enter_as_ordinary_user=raising(DENIED), user=ROOT))
    assert answer.state == "note"
    assert answer.do is not None
    assert answer.do.startswith("nothing for root")


@pytest.mark.parametrize(
    ("known", "user", "found"),
    [
        (GOOD, ROOT, "root: may make network namespaces and use the Docker engine"),
        (
            BAD | {"engine": GOOD["engine"]},
            User(1000, "ann", ("ann", "docker")),
            "ann (groups: ann, docker): may use the Docker engine",
        ),
        (
            BAD | {"network namespaces": GOOD["network namespaces"]},
            User(1000, "ann", ("ann",)),
            "ann (groups: ann): may make network namespaces",
        ),
    ],
)
def test_rights(known: object, user: User, found: str) -> None:
    assert users.rights(machine(known=known, user=user)) == ok(found)


def test_no_rights() -> None:
    answer = users.rights(machine(known=BAD | {"engine": finding("engine", note("not tried"))}))
    assert answer.state == "missing"
    assert "may neither" in answer.found

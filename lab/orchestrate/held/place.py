"""Where a keeper listens, and how it is found from its run folder. Knows names of files, no request.

Its socket lies in the scratch folder of the keeper, which has its owner's mark: if it is killed, `lab clean` takes the
folder away. A socket's path must be short, a folder's need not be: it is named by a file descriptor of the folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.errors import HostError, InputError
from lab.model.owner import life_of, owner_mark, scratch
from lab.model.runfolder import RunFolder, write_json
from lab.model.units import printable

FILE, SOCKET, LOG = "keeper.json", "keeper", "keeper.log"
BACKLOG = 16
UP = "lab up SCENARIO"


@dataclass(frozen=True)
class Keeper:
    """What a run folder says of the process that holds it open."""

    run: RunFolder
    owner: str
    socket: Path


@contextlib.contextmanager
def listening(run: Path) -> Iterator[socket.socket]:
    """A socket for the owner of this process alone, announced in the run folder as long as it is there."""
    folder = scratch()
    folder.chmod(0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        before = os.umask(0o177)
        try:
            with _short(folder) as name:
                sock.bind(name)
        finally:
            os.umask(before)
        sock.listen(BACKLOG)
        facts = run / FILE
        write_json(facts, {"format": 1, "owner": owner_mark(), "socket": str(folder / SOCKET)})
        try:
            yield sock
        finally:
            facts.unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _short(folder: Path) -> Iterator[str]:
    """The socket's name by way of a descriptor of its folder: never longer than a socket's name may be."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if os.geteuid() not in (0, found.st_uid) or stat.S_IMODE(found.st_mode) & 0o077:
            raise HostError(
                "this folder is not the keeper's: others may change it, or it is of another user",
                where=printable(str(folder)),
                expected="a folder of your own",
            )
        yield f"/proc/self/fd/{handle}/{SOCKET}"
    finally:
        os.close(handle)


def find(folder: Path | None, runs: Path = Path("runs")) -> Keeper:
    """The keeper of that run folder (None: the latest), or an error that says what to type."""
    path = folder if folder is not None else runs / "latest"
    if not (path / "plan.json").is_file():
        if folder is None:
            raise InputError("no run is held open here", expected=f"a run that was begun with: {UP}", hint=UP)
        raise InputError("this is not a run folder", where=printable(str(path)), expected="one of lab up", hint=UP)
    run = RunFolder(path)
    keeper = _read(run)
    if keeper is None:
        others = held_open(runs)
        hint = f"--run {printable(others[0])}" if others else UP
        raise InputError(
            "this run is not held open", where=_shown(path), expected=f"one that was begun with: {UP}", hint=hint
        )
    if life_of(keeper.owner) == "dead":
        raise HostError(
            "the keeper of this run was killed, and the run with it",
            where=_shown(path),
            hint=f"lab clean, then {UP}; what was captured: lab analyse {_shown(path)}",
        )
    return keeper


def held_open(runs: Path) -> list[str]:
    """Run folders whose keepers may be alive, the newest first."""
    found = [RunFolder(file.parent) for file in runs.glob(f"*/*/{FILE}") if not file.parent.is_symlink()]
    alive = [run for run in found if (keeper := _read(run)) is not None and life_of(keeper.owner) != "dead"]
    return [os.path.relpath(run.path) for run in sorted(alive, key=lambda run: run.path.name, reverse=True)]


def _shown(path: Path) -> str:
    """`runs/latest` is told by what it leads to."""
    relative = os.path.relpath(path.resolve())
    return printable(str(path.resolve()) if relative.startswith("..") else relative)


def _read(run: RunFolder) -> Keeper | None:
    try:
        facts = json.loads((run.path / FILE).read_text(encoding="utf-8"))
        return Keeper(run, str(facts["owner"]), Path(facts["socket"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def connect(keeper: Keeper) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(keeper.socket.parent) as name:
            sock.connect(name)
    except OSError as error:
        sock.close()
        raise HostError(
            f"the keeper of this run does not answer: {error.strerror}",
            where=_shown(keeper.run.path),
            hint=f"see {LOG} there; if it ended, lab clean",
        ) from None
    except BaseException:
        sock.close()
        raise
    return sock

"""The run folder as a place to write: one analysis at a time, each result whole or not at all. Knows no Spark."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from lab.errors import HostError, LateError
from lab.model.units import printable

WAIT_S = 3600.0
LOOK_EVERY_S = 0.1
SCRATCH = "tables.part"


@contextlib.contextmanager
def scratch_in(folder: Path, wait_s: float = WAIT_S) -> Iterator[Path]:
    """An empty scratch folder in a run folder that no other analysis uses meanwhile; gone afterwards.

    What a killed analysis left is removed by the next.
    """
    try:
        with _alone(folder, wait_s):
            scratch = folder / SCRATCH
            remove(scratch)
            scratch.mkdir()
            try:
                yield scratch
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    except ConnectionError:
        raise  # Spark went away: nothing that was written is at fault
    except OSError as error:
        raise HostError(
            f"the results cannot be written: {error.strerror or error}",
            where=printable(str(error.filename or folder)),
            expected="a run folder that you may write to, and room on its disk",
            hint="copy the folder to a place of your own: cp -r RUN COPY; lab analyse COPY",
        ) from None


@contextlib.contextmanager
def _alone(folder: Path, wait_s: float) -> Iterator[None]:
    """Hold the folder's lock; the kernel frees it when its holder dies."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + wait_s
        while not _taken(handle):
            if time.monotonic() > deadline:
                where = printable(str(folder))
                raise LateError(f"another analysis of this folder was not done within {wait_s:g} s", where=where)
            time.sleep(LOOK_EVERY_S)  # flock has no time-out of its own
        yield
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        # Some network file systems lock no folders; there is then no way to know of another analysis.
        if error.errno not in (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL):
            raise
    return True


def remove(path: Path) -> None:
    """A file or a folder with all that is in it, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def literal(path: Path) -> str:
    """A path for Spark's readers, which would take these signs for patterns."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", str(path))

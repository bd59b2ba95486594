"""A capture while it grows: from its first byte, as it is written, until nothing more will be. Standard library only.

As a program, `python3 -m lab.capture.follow FILE`, it writes to standard output until standard input ends: inside the
fabric's container it so ends with whoever has asked for it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

LOOK_EVERY_S = 0.05
AT_ONCE = 1 << 16


class FileFollower:
    """The file's bytes. Any thread may call `finish` and `close`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream = path.open("rb", buffering=0)
        self._woken = threading.Event()
        self._finishing = False
        self._closed = False

    def chunks(self) -> Iterator[bytes]:
        """What there is and what comes, until the end. Can be asked for once."""
        with self._stream as stream:
            while not self._closed:
                finishing = self._finishing  # looked at first: what was written before it is still handed over
                chunk = stream.read(AT_ONCE)
                if chunk:
                    yield chunk
                elif finishing:
                    return
                else:
                    self._woken.wait(LOOK_EVERY_S)  # a file does not say when it grows

    def finish(self) -> None:
        """Nothing more is written: the rest is handed over, then it is the end."""
        self._finishing = True
        self._woken.set()

    def close(self) -> None:
        """The reader has gone."""
        self._closed = True
        self._woken.set()


def _finish_with_input(follower: FileFollower, descriptor: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(descriptor, AT_ONCE):
            pass
    follower.finish()


def main() -> int:
    parser = argparse.ArgumentParser(prog="follow", description=__doc__)
    parser.add_argument("file", type=Path, help="a capture that is being written")
    try:
        follower = FileFollower(parser.parse_args().file)
    except OSError as error:
        print(f"cannot be followed: {error.strerror}", file=sys.stderr)
        return 3
    threading.Thread(target=_finish_with_input, args=(follower, 0), daemon=True, name="input").start()
    with contextlib.suppress(BrokenPipeError):
        for chunk in follower.chunks():
            while chunk:
                chunk = chunk[os.write(1, chunk) :]
    return 0


if __name__ == "__main__":
    sys.exit(main())

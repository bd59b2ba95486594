"""Input and output of a process through PipeStreams: order, end, close from another thread, nothing left open."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from lab.runtimes.netns_channel import close_all
from lab.runtimes.netns_streams import PipeStreams


@pytest.fixture(autouse=True)
def no_descriptor_is_left() -> Iterator[None]:
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) == before


def start(streams: PipeStreams, code: str) -> subprocess.Popen[bytes]:
    given, out, err = streams.handed_over
    process = subprocess.Popen([sys.executable, "-c", code], stdin=given, stdout=out, stderr=err)
    close_all(streams.handed_over)
    return process


def joined(streams: PipeStreams) -> dict[str, bytes]:
    found = {"out": b"", "err": b""}
    for kind, chunk in streams.chunks():
        found[kind] += chunk
    return found


def test_input_goes_in_and_both_outputs_come_out() -> None:
    streams = PipeStreams()
    code = "import sys; text = sys.stdin.read(); print(text.upper()); print(len(text), file=sys.stderr)"
    process = start(streams, code)
    streams.write(b"hello ")
    streams.write(b"world")
    streams._input.shutdown(1)  # end of input, while output is still wanted
    assert joined(streams) == {"out": b"HELLO WORLD\n", "err": b"11\n"}
    streams.close()
    assert process.wait(5) == 0


def test_output_after_the_process_closed_its_input_is_not_lost() -> None:
    streams = PipeStreams()
    process = start(streams, "import os; os.close(0); print('x' * 300_000)")
    assert joined(streams) == {"out": b"x" * 300_000 + b"\n", "err": b""}
    streams.close()
    assert process.wait(5) == 0


def test_writing_to_an_ended_process_is_an_os_error() -> None:
    streams = PipeStreams()
    process = start(streams, "pass")
    process.wait(5)
    with pytest.raises(OSError, match="Broken pipe"):
        streams.write(b"anybody?")
    assert joined(streams) == {"out": b"", "err": b""}
    streams.close()


def test_close_ends_a_reader_that_waits_and_the_process_sees_the_end_of_its_input() -> None:
    streams = PipeStreams()
    process = start(streams, "import sys; sys.exit(len(sys.stdin.read()))")
    reader = threading.Thread(target=joined, args=(streams,))
    reader.start()
    time.sleep(0.1)  # let it wait; if it does not yet, the test is only easier
    streams.write(b"four")
    streams.close()
    reader.join(5)
    assert not reader.is_alive()
    assert process.wait(5) == 4


def test_close_twice_and_reading_after_it_are_harmless() -> None:
    streams = PipeStreams()
    close_all(streams.handed_over)
    streams.close()
    streams.close()
    assert joined(streams) == {"out": b"", "err": b""}

"""Files of what is streamed: a picture each frame, one WAV and one text a stream. Must not know any packets or disks.

Producer and consumer keep the same files, so that they can be compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lab.protocols.core import FileWritten
from lab.protocols.streams import media
from lab.protocols.streams.wire import Content, Header


class Recorder:
    def __init__(self) -> None:
        self._have: dict[tuple[int, int], Counter[int]] = {}  # frames, samples and bytes of text so far

    def write(self, of: Header, data: bytes, number: int | None = None) -> Iterator[FileWritten]:
        """What to write for this piece; `number` is that of a frame, where it is known."""
        name = f"producer{of.producer}-stream{of.stream}"
        have = self._have.setdefault((of.producer, of.stream), Counter())
        at = have[of.content]
        if of.content == Content.VIDEO:
            have[of.content] += 1
            yield FileWritten(f"{name}-frame{at if number is None else number:05}.ppm", data, 0)
        elif of.content == Content.AUDIO:
            have[of.content] += len(data)
            yield FileWritten(f"{name}.wav", media.wav_head(at + len(data)), 0)
            yield FileWritten(f"{name}.wav", data, media.WAV_HEAD + at)
        else:
            have[of.content] += len(data) + 1
            yield FileWritten(f"{name}.txt", data + b"\n", at)

    def forget(self, producer: int, stream: int) -> None:
        """That stream is over; another one of this number begins its files anew."""
        self._have.pop((producer, stream), None)

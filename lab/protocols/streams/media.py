"""What is streamed: test-pattern frames, a tone and numbered lines, the same for the same seed. Knows no packets."""

from __future__ import annotations

import math
import random
import struct
from functools import lru_cache

WIDTH, HEIGHT = 64, 48
BLOCK = 8  # of the square that moves
BARS = (0xFFFFFF, 0xFFFF00, 0x00FFFF, 0x00FF00, 0xFF00FF, 0xFF0000, 0x0000FF, 0x000000)
SAMPLES_PER_S = 8000
CHUNK = 800  # samples of one byte: a tenth of a second
FRAME_HEAD = b"P6\n%d %d\n255\n" % (WIDTH, HEIGHT)
WAV_HEAD = 44


def frame(seed: str, number: int) -> bytes:
    """A picture in PPM: colour bars that wander, a square of noise that moves, the number in the first pixels."""
    draw = random.Random(f"{seed}/frame/{number}")
    shift = (_shift(seed) + number) % WIDTH
    bars = b"".join(BARS[column * len(BARS) // WIDTH].to_bytes(3, "big") for column in range(WIDTH))
    row = bars[shift * 3 :] + bars[: shift * 3]
    rows = [bytearray(row) for _ in range(HEIGHT)]
    left, top = (number * 3) % (WIDTH - BLOCK), (number * 2) % (HEIGHT - BLOCK)
    for line in rows[top : top + BLOCK]:
        line[left * 3 : (left + BLOCK) * 3] = draw.randbytes(BLOCK * 3)
    rows[0][:6] = number.to_bytes(6, "big")
    return FRAME_HEAD + b"".join(rows)


@lru_cache(maxsize=1024)
def _shift(seed: str) -> int:
    return random.Random(f"{seed}/shift").randrange(WIDTH)


@lru_cache(maxsize=1024)
def _pitch(seed: str) -> int:
    """In Hz; a whole number of tens, so that each tenth of a second ends where the next begins."""
    return random.Random(f"{seed}/pitch").randrange(22, 88) * 10


def chunk(seed: str, number: int) -> bytes:
    """A tenth of a second of a tone that swells and fades, in unsigned samples of one byte."""
    turn = 2 * math.pi * _pitch(seed) / SAMPLES_PER_S
    loud = 60 + 40 * math.sin(number / 5)
    return bytes(128 + round(loud * math.sin(turn * at)) for at in range(CHUNK))


def line(stream: int, number: int) -> bytes:
    return f"Line {number + 1} of stream {stream}".encode()


def wav_head(samples: int) -> bytes:
    """What stands before so many samples in a WAV file."""
    size = min(samples, 0xFFFFFFFF - WAV_HEAD)
    kind = struct.pack("<IHHIIHH", 16, 1, 1, SAMPLES_PER_S, SAMPLES_PER_S, 1, 8)
    return b"RIFF" + struct.pack("<I", size + 36) + b"WAVEfmt " + kind + b"data" + struct.pack("<I", size)

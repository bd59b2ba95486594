"""What a tap makes of the kernel's remarks about a frame: its time, and a VLAN tag that was taken off."""

from __future__ import annotations

import socket
import struct

import pytest

from lab.capture.tap import _stamp, _with_tag

SOL_PACKET, PACKET_AUXDATA, SO_TIMESTAMPNS = 263, 8, 35
FRAME = bytes.fromhex("02420a50000c 02420a50000b 0800") + b"rest"


def auxdata(status: int, tag: int, protocol: int) -> tuple[int, int, bytes]:
    return SOL_PACKET, PACKET_AUXDATA, struct.pack("IIIHHHH", status, 18, 18, 0, 14, tag, protocol)


def test_the_stamp_keeps_every_nanosecond() -> None:
    stamp = (socket.SOL_SOCKET, SO_TIMESTAMPNS, struct.pack("ll", 1_790_000_000, 123_456_789))
    assert _stamp([auxdata(1, 0, 0), stamp]) == (1_790_000_000, 123_456_789)


def test_a_frame_without_a_stamp_is_an_error() -> None:
    with pytest.raises(OSError, match="without a time stamp"):
        _stamp([auxdata(1, 0, 0)])


@pytest.mark.parametrize(
    ("status", "tag", "protocol", "expected"),
    [
        (0x01, 0, 0, FRAME),
        (0x51, 5, 0x8100, FRAME[:12] + bytes.fromhex("81000005") + FRAME[12:]),
        (0x51, 0, 0x8100, FRAME[:12] + bytes.fromhex("81000000") + FRAME[12:]),
        (0x51, 7, 0x88A8, FRAME[:12] + bytes.fromhex("88a80007") + FRAME[12:]),
        (0x11, 5, 0, FRAME[:12] + bytes.fromhex("81000005") + FRAME[12:]),
    ],
    ids=["no tag", "VLAN 5", "VLAN 0", "provider tag", "tag of an older kernel"],
)
def test_a_tag_that_the_kernel_took_off_is_put_back(status: int, tag: int, protocol: int, expected: bytes) -> None:
    assert _with_tag(FRAME, [auxdata(status, tag, protocol)]) == expected

"""Messages between the netns runtime and its supervisor: JSON with file descriptors. Knows no request by name.

A message is four bytes of length and so many bytes of JSON; descriptors travel with its first bytes.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Sequence
from typing import Any

MOST_DESCRIPTORS = 8
LONGEST_MESSAGE = 16 * 1024 * 1024
_LENGTH = struct.Struct(">I")

Message = dict[str, Any]


class BrokenChannelError(Exception):
    """What came is no message: the other side is not what it should be."""


def send(channel: socket.socket, message: Message, descriptors: Sequence[int] = ()) -> None:
    body = json.dumps(message).encode()
    if len(body) > LONGEST_MESSAGE or len(descriptors) > MOST_DESCRIPTORS:
        raise BrokenChannelError(f"a message of {len(body)} bytes with {len(descriptors)} descriptors is too much")
    whole = _LENGTH.pack(len(body)) + body
    sent = socket.send_fds(channel, [whole], descriptors)
    channel.sendall(whole[sent:])


def receive(channel: socket.socket) -> tuple[Message, list[int]] | None:
    """The next message, or None at the end. The descriptors are the caller's to close."""
    head, descriptors, flags, _ = socket.recv_fds(channel, _LENGTH.size, MOST_DESCRIPTORS)
    try:
        if not head:
            return None
        if flags & socket.MSG_CTRUNC:
            raise BrokenChannelError("descriptors were lost on the way")
        (length,) = _LENGTH.unpack(head + _exactly(channel, _LENGTH.size - len(head)))
        if length > LONGEST_MESSAGE:
            raise BrokenChannelError(f"a message of {length} bytes is announced")
        message = json.loads(_exactly(channel, length))
        if not isinstance(message, dict):
            raise BrokenChannelError("a message is not an object")
    except (BrokenChannelError, ValueError, OSError) as error:
        close_all(descriptors)
        raise error if not isinstance(error, ValueError) else BrokenChannelError(f"not JSON: {error}") from None
    return message, descriptors


def close_all(descriptors: Sequence[int]) -> None:
    for one in descriptors:
        os.close(one)


def _exactly(channel: socket.socket, length: int) -> bytes:
    parts = []
    while length:
        part = channel.recv(min(length, 1 << 20))
        if not part:
            raise BrokenChannelError("the channel ended within a message")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)

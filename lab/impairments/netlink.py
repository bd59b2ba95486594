"""One thing that `tc` cannot say, by netlink: a redirecting action that sends on a copy. Knows no link and no filter.

A frame that is redirected on its way in stays charged to the socket that sent it, for as long as it waits. A program
whose packets should be lost in a full queue would be held back by its own socket instead. A copy is charged to nobody.
Frames are only copied if the original lives on, so this tells the kernel that it does; a filter behind takes it.
"""

from __future__ import annotations

import errno
import os
import socket
import struct

from lab.errors import HostError

RTM_NEWACTION, NLMSG_ERROR = 48, 2
REQUEST, ACK, REPLACE = 0x1, 0x4, 0x100
ACT_TABLE, ACT_KIND, ACT_OPTIONS, MIRRED_PARAMETERS = 1, 1, 2, 2
NESTED = 0x8000
EGRESS_REDIRECT, GO_ON = 1, -1
HEADER = struct.Struct("=IHHII")
TIMEOUT_S = 10.0


def redirect_copies(action: int, to: int) -> None:
    """Let the redirecting action of that number send copies to the interface of that number, originals go on."""
    message = request(action, to)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as channel:
        channel.settimeout(TIMEOUT_S)
        channel.bind((0, 0))
        channel.send(message)
        try:
            answer = channel.recv(1 << 16)
        except TimeoutError:
            raise HostError(f"the kernel did not answer within {TIMEOUT_S:g} s whether it changed a redirect") from None
    _check(answer)


def request(action: int, to: int) -> bytes:
    """The message, whole."""
    values = struct.pack("=IIiiiiI", action, 0, GO_ON, 0, 0, EGRESS_REDIRECT, to)
    options = _attribute(ACT_OPTIONS | NESTED, _attribute(MIRRED_PARAMETERS, values))
    one = _attribute(1 | NESTED, _attribute(ACT_KIND, b"mirred\0") + options)
    body = bytes(4) + _attribute(ACT_TABLE | NESTED, one)
    return HEADER.pack(HEADER.size + len(body), RTM_NEWACTION, REQUEST | ACK | REPLACE, 1, 0) + body


def _attribute(kind: int, body: bytes) -> bytes:
    size = 4 + len(body)
    return struct.pack("=HH", size, kind) + body + bytes(-size % 4)


def _check(answer: bytes) -> None:
    _, kind, *_ = HEADER.unpack_from(answer)
    code = -struct.unpack_from("=i", answer, HEADER.size)[0] if kind == NLMSG_ERROR else errno.EPROTO
    if code:
        raise HostError(f"the kernel did not change a redirect: {os.strerror(code)}", expected="NET_ADMIN")

"""Turns off what would falsify a capture: unfinished checksums, segments larger than the MTU."""

from __future__ import annotations

import array
import fcntl
import socket
import struct

SIOCETHTOOL = 0x8946
SET_TX_CHECKSUM, SET_SCATTER_GATHER, SET_TSO, SET_GSO, SET_GRO = 0x17, 0x19, 0x1F, 0x24, 0x2C
SWITCHES = (SET_TX_CHECKSUM, SET_SCATTER_GATHER, SET_TSO, SET_GSO, SET_GRO)


def turn_off(interface: str) -> None:
    """Switch each offload off; one that this driver lacks is off already."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for switch in SWITCHES:
            value = array.array("B", struct.pack("II", switch, 0))
            request = struct.pack("16sP", interface.encode(), value.buffer_info()[0])
            try:
                fcntl.ioctl(control, SIOCETHTOOL, request)
            except OSError as error:
                if error.errno != 95:  # EOPNOTSUPP
                    raise

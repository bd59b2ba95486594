"""Makes markers: what makes a workload message recognisable in any header, in any language.

`m-<producer>-<number>-<tag>`; the tag is a keyed hash under the run's secret, so a program cannot print
a message that it never got. The secret stays in the run folder and reaches no node.
"""

from __future__ import annotations

import hashlib
import hmac

from lab.protocols.marker import MARKER, TAG_LENGTH, find_markers

__all__ = ["MARKER", "TAG_LENGTH", "find_markers", "make_marker"]


def make_marker(secret: bytes, producer: str, number: int) -> str:
    """The marker of a producer's message; the same secret gives the same marker."""
    tag = hmac.new(secret, f"{producer}/{number}".encode(), hashlib.sha256).hexdigest()[:TAG_LENGTH]
    return f"m-{producer}-{number}-{tag}"

"""As much of HTTP/1.1 as a web service needs: messages with a length, cut out of a stream.

Must not know what is in them. Everything read is bounded. A body that is not announced by its length is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LONGEST_HEAD = 8 * 1024
LONGEST_BODY = 16 * 1024
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    411: "Length Required",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
}


class BadHttp(ValueError):
    """These bytes are no message that can be taken; `status` is what a server says to that."""

    def __init__(self, status: int) -> None:
        super().__init__(_REASONS[status])
        self.status = status


@dataclass(frozen=True)
class Message:
    first: str  # the request line, or the status line
    headers: Mapping[str, str]  # by name in small letters
    body: bytes

    @property
    def words(self) -> list[str]:
        return self.first.split()

    @property
    def status(self) -> int:
        """Of an answer; 0 if the line says none."""
        words = self.words
        found = words[1] if len(words) > 1 and words[0].startswith("HTTP/") else ""
        return int(found) if found.isascii() and found.isdecimal() and len(found) == 3 else 0

    @property
    def last(self) -> bool:
        """The connection ends behind it."""
        old = self.first.endswith("HTTP/1.0") or self.first.startswith("HTTP/1.0")
        wish = self.headers.get("connection", "").lower()
        return "close" in wish or (old and "keep-alive" not in wish)


class Messages:
    """One direction of a connection → messages. BadHttp where the stream can be read no further."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        self._held += data
        found: list[Message] = []
        while (message := self._next()) is not None:
            found.append(message)
        return found

    def _next(self) -> Message | None:
        end = self._held.find(b"\r\n\r\n", 0, LONGEST_HEAD + 4)
        if end < 0:
            if len(self._held) > LONGEST_HEAD:
                raise BadHttp(431)
            return None
        first, *lines = self._held[:end].decode("latin-1").split("\r\n")
        headers = _headers(lines)
        start = end + 4
        length = _length(first, headers)
        if len(self._held) < start + length:
            return None
        body = bytes(self._held[start : start + length])
        del self._held[: start + length]
        return Message(first, headers, body)


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or name != name.strip() or not name:
            raise BadHttp(400)
        if headers.setdefault(name.lower(), value.strip()) != value.strip():
            raise BadHttp(400)  # said twice, and not the same
    return headers


def _length(first: str, headers: Mapping[str, str]) -> int:
    text = headers.get("content-length")
    if "transfer-encoding" in headers or (text is None and first.startswith("POST ")):
        raise BadHttp(411)
    if text is None:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise BadHttp(400)
    if int(text) > LONGEST_BODY:
        raise BadHttp(413)
    return int(text)


def request(target: str, host: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    return _message(f"POST {target} HTTP/1.1", {"Host": host, **headers}, body)


def answer(status: int, kind: str, body: bytes, last: bool = False) -> bytes:
    headers = {"Content-Type": kind, **({"Connection": "close"} if last else {})}
    return _message(f"HTTP/1.1 {status} {_REASONS[status]}", headers, body)


def _message(first: str, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [first, *(f"{name}: {value}" for name, value in headers.items()), f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body

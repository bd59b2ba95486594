"""The words that `rooms` and `topics` share. Must not know when they are used."""

from __future__ import annotations

INVALID_INPUT = "Invalid input."
NO_ANSWER = "No answer."
SENDING = "Sending packet..."
SENT = "Packet sent"
SENT_ACK = "Sent ACK."


def waiting(port: int) -> str:
    return f"Waiting for packets on port {port}."


def acked(seq: int) -> str:
    return f"ACK received for Sequence Number {seq}."


def received(outcome: str) -> str:
    return f"Message received: {outcome}"


def publication(text: str) -> str:
    return f"New publication: {text}"


def dropped(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]} did not answer and was dropped."

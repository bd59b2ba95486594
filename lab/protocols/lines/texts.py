"""The words of the lines protocol that people read, and the reasons in ERROR lines. Must not know when they come."""

from __future__ import annotations

PUBLISHER_PROMPT = "Give a publish command "
SUBSCRIBER_PROMPT = "Give a subscribe/unsubscribe command "
INVALID_INPUT = "Invalid input."
NO_ANSWER = "No answer."
NO_FILE = "This file does not exist"
SOCKET = "Socket created."
ESTABLISHED = "Connection established with the server."
REFUSED = "There is no connection to the server."
LOST = "The connection to the server was lost."
ACKNOWLEDGED = "Acknowledgment received from the server:"
UNSEEN = "Messages that I haven't seen:"
WAITING = "Waiting for Publishers/Subscribers."

TOO_LONG = "the line is too long"
EXPECTED = {
    "subscriber": "expected ID sub #topic, or ID unsub #topic",
    "publisher": "expected ID pub #topic message",
}
TOO_MANY = {"subscriber": "too many subscribers", "publisher": "too many publishers"}
NO_ROOM = "there is no room for more"


def client_is(ident: str, port: str, host: str, broker_port: int, file: str) -> tuple[str, ...]:
    """What a client says of itself when it starts."""
    return (
        f"id is: {ident}",
        f"port is: {port}",
        f"Ip of Broker is: {host}",
        f"Port of Broker is: {broker_port}",
        f"filename is: {file}",
    )


def broker_is(subscribers: int, publishers: int) -> tuple[str, ...]:
    return f"subscriber port is: {subscribers}", f"publisher port is: {publishers}", SOCKET, WAITING


def sleeping(seconds: str) -> str:
    return f"Sleeping for {seconds}"


def sending(line: str) -> str:
    return f"Sending msg to the server: {line}"


def published(topic: str, text: str) -> str:
    return f"Published message for topic #{topic} : {text}"


def received(topic: str, text: str) -> str:
    return f"Received message for topic #{topic} : {text}"


def connected(kind: str) -> str:
    return f"Connection established with {kind}"


def got(kind: str) -> str:
    return f"Message received from {kind}:"


def acknowledging(kind: str) -> str:
    return f"Sending acknowledgment to the {kind}."


def to_send(number: int) -> str:
    return f"I need to send {number} messages"

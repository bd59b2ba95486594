"""The words of the streams protocol: lines and prompts. Must not know when they are used."""

from __future__ import annotations

from lab.protocols.streams.wire import CONTENTS, EVERY, Header

INVALID_INPUT = "Invalid input."
NO_ANSWER = "No answer."
NO_SUCH_STREAM = "This stream is not running."
STREAM_TAKEN = "The next stream is number {}."
NO_STREAMS = "No streams are running."
REFUSED = "Subscription refused."
SUBSCRIBED = "Subscription successful."
SENDING = "Sending packet..."
SENT = "Packet sent"

PRODUCER_MENU = (
    "Enter START to start streams, CREATE to announce a text stream, PUBLISH to send a line or END to end a stream: "
)
START_PROMPT = "Please enter what to stream (video, audio, text, all or any): "
CREATE_PROMPT = "Please enter the number of the stream to announce: "
PUBLISH_PROMPT = "Please enter the number of the stream to send a line in: "
LINE_PROMPT = "Please enter the line that you would like to send: "
END_PROMPT = "Please enter the number of the stream to end: "
CONSUMER_MENU = "Enter LIST to see the streams, SUBSCRIBE to subscribe to one or TAKE to take some of them: "
SUBSCRIBE_PROMPT = "Please enter producer, stream (or every) and content (video, audio, text or all): "


def name(content: int) -> str:
    """The word for a content byte."""
    found = CONTENTS.get(content)
    return "?" if found is None else found.name.lower()


def stream(of: Header) -> str:
    which = "Every stream" if of.stream == EVERY else f"Stream {of.stream}"
    return f"{which} of producer {of.producer}"


def waiting(port: int) -> str:
    return f"Waiting for packets on port {port}."


def registered(producer: int) -> str:
    return f"Producer {producer} registered."


def own_id(producer: int) -> str:
    return f"Producer id is {producer}."


def announced(of: Header) -> str:
    return f"{stream(of)} was announced ({name(of.content)})."


def listed(of: Header) -> str:
    return f"{stream(of)} is running ({name(of.content)})."


def new_subscriber(of: Header) -> str:
    return f"A new subscriber subscribed to {stream(of)[0].lower()}{stream(of)[1:]} ({name(of.content)})."


def ended(of: Header) -> str:
    return f"{stream(of)} has ended."


def unconfirmed(of: Header) -> str:
    return f"No confirmation of the end of {stream(of)[0].lower()}{stream(of)[1:]}."


def line(of: Header, text: bytes) -> str:
    """A line of a stream for a person: never more than one, whatever the bytes are."""
    shown = text.decode("utf-8", "replace")
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
    return f"{stream(of)}: {shown}"


def dropped(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]} did not answer and was dropped."

"""The words of the editor protocol: lines and prompts. Must not know when they are used."""

from __future__ import annotations

import unicodedata

from lab.protocols.core import Address

EDITOR_MENU = "Enter PUBLISH to publish an article: "
TOPIC_PROMPT = "Please enter the topic: "
TEXT_PROMPT = "Please enter the text: "
SUBSCRIBER_PROMPT = "c> "
INVALID_INPUT = "Invalid input."
NO_ANSWER = "No answer."

ANSWERS = {
    ("SUBSCRIBE", 0): "SUBSCRIBE OK",
    ("SUBSCRIBE", 1): "SUBSCRIBE FAIL",
    ("UNSUBSCRIBE", 0): "UNSUBSCRIBE OK",
    ("UNSUBSCRIBE", 1): "TOPIC NOT SUBSCRIBED",
    ("UNSUBSCRIBE", 2): "UNSUBSCRIBE FAIL",
}
USAGE = "Invalid input. Expected SUBSCRIBE topic, UNSUBSCRIBE topic or QUIT."

_CONTROL = ("Cc", "Cs", "Zl", "Zp")


def printed(text: str) -> str:
    """A text for a person: never more than one line, and otherwise as it came."""
    if text.isprintable():
        return text
    return "".join(_escaped(sign) for sign in text)


def _escaped(sign: str) -> str:
    if sign == "\t" or unicodedata.category(sign) not in _CONTROL:
        return sign
    if "\udc80" <= sign <= "\udcff":
        return f"\\x{ord(sign) - 0xDC00:02x}"
    return sign.encode("unicode_escape").decode("ascii")


def at(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


def of_subscriber(line: str) -> str:
    """Every line of a subscriber begins so."""
    return SUBSCRIBER_PROMPT + line


def answered(verb: str, code: int | None) -> str:
    """What a subscriber is told; an answer that there is not is a failure."""
    return ANSWERS.get((verb, -1 if code is None else code), f"{verb} FAIL")


def message(topic: str, text: str) -> str:
    return f"MESSAGE FROM {printed(topic)} : {printed(text)}"


def unreachable(broker: Address) -> str:
    return f"The broker at {at(broker)} cannot be reached."


def cut_off(broker: Address) -> str:
    return f"The connection to the broker at {at(broker)} was lost."


def words_down(words: Address) -> str:
    return f"Warning: the words service at {at(words)} is down; numbers stay as they are."


def published(topic: str) -> str:
    return f"{printed(topic)} was published."


def not_published(topic: str) -> str:
    return f"{printed(topic)} was not acknowledged."


def new_subscriber(topic: str) -> str:
    return f"A new subscriber subscribed to {printed(topic)}."


def left(topic: str) -> str:
    return f"A subscriber unsubscribed from {printed(topic)}."


def removed(subscriber: Address, why: str) -> str:
    return f"{at(subscriber)} {why} and was removed."


def not_taken(subscriber: Address) -> str:
    return f"{at(subscriber)} did not take a delivery."


def waiting(port: int) -> str:
    return f"Waiting for requests on port {port}."


def storage_ready(storage: Address) -> str:
    return f"The storage at {at(storage)} is ready."


def storage_gone(storage: Address) -> str:
    return f"The storage at {at(storage)} does not answer; trying again."


def storage_refused(topic: str) -> str:
    return f"A publication on {printed(topic)} could not be stored."

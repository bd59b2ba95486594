"""The words of the topics protocol: outcomes, lines and prompts. Must not know when they are used."""

from __future__ import annotations

from lab.protocols.fixed.texts import INVALID_INPUT
from lab.protocols.topics.wire import Type

__all__ = ["INVALID_INPUT"]

NO_SUCH_TOPIC = "This topic does not exist."
TOPIC_EXISTS = "This topic already exists."
DONE = {
    Type.CREATION: "Topic creation successful.",
    Type.PUBLICATION: "Publication successful.",
    Type.SUBSCRIPTION: "Subscription successful.",
    Type.UNSUBSCRIPTION: "Unsubscription successful.",
}

PUBLISHER_MENU = "Enter CREATE to create a new topic or PUBLISH to publish a new message: "
CREATE_PROMPT = "Please enter a topic to create: "
PUBLISH_PROMPT = "Please enter the name of the topic you want to publish a message for: "
MESSAGE_PROMPT = "Please enter the message that you would like to publish: "
SUBSCRIBER_MENU = "Enter SUBSCRIBE to subscribe to a topic or UNSUBSCRIBE to unsubscribe from a topic: "
SUBSCRIBE_PROMPT = "Please enter a topic to subscribe to: "
UNSUBSCRIBE_PROMPT = "Please enter a topic to unsubscribe from: "


def created(name: str) -> str:
    return f"Topic {name} was created."


def published(name: str) -> str:
    return f"Topic {name} was published."


def subscribed(name: str) -> str:
    return f"A new subscriber subscribed to {name}."


def unsubscribed(name: str) -> str:
    return f"A subscriber unsubscribed from {name}."

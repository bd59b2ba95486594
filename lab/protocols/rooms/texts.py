"""The words of the rooms protocol: outcomes in MES, lines and prompts. Must not know when they are used."""

from __future__ import annotations

from lab.protocols.fixed.texts import INVALID_INPUT, NO_ANSWER, acked, dropped, publication, received
from lab.protocols.rooms.wire import Type

__all__ = ["INVALID_INPUT", "NO_ANSWER", "acked", "dropped", "publication", "received"]

NO_SUCH_ROOM = "This Room does not exist."
ROOM_EXISTS = "This Room already exists."
NO_SUBSCRIBERS = "No one has Subscribed to this Room"

PUBLISHER_MENU = "Enter CREATE to create a new room or PUBLISH to publish new details: "
CREATE_PROMPT = "Please enter a room to create: "
PUBLISH_PROMPT = "Please enter the name of the room you want to publish the details for: "
SUBSCRIBER_MENU = "Enter SUBSCRIBE to subscribe to a room or UNSUBSCRIBE to unsubscribe from a room: "
SUBSCRIBE_PROMPT = "Please enter Room to subscribe to: "
UNSUBSCRIBE_PROMPT = "Please enter a Room to unsubscribe from: "

_DONE = {
    Type.NEW: "Room {} was created.",
    Type.PUB: "Room {} was published.",
    Type.SUB: "A new subscriber subscribed to {}.",
    Type.USUB: "A subscriber unsubscribed from {}.",
}


def done(request: Type, room: int) -> str:
    """The outcome of a request that succeeded; the broker prints the same."""
    return _DONE[request].format(room)


def not_subscribed(name: object) -> str:
    return f"You are not subscribed to the room {name}"

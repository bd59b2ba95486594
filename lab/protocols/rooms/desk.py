"""What a person at a rooms prompt can ask for: the two dialogues as data, and what their answers mean to a core."""

from __future__ import annotations

import random
from collections.abc import Mapping

from lab.protocols.dialogue import Choice, Desk, Dialogue, Question
from lab.protocols.rooms import texts
from lab.protocols.rooms.core import existing, room_number
from lab.protocols.rooms.entry import ROOMS
from lab.protocols.rooms.publisher import Publisher
from lab.protocols.rooms.subscriber import Subscriber

PUBLISHER = Dialogue(
    (
        Question("menu", texts.PUBLISHER_MENU, (Choice("CREATE", "create"), Choice("PUBLISH", "publish"))),
        Question("create", texts.CREATE_PROMPT, value="topic", does="create"),
        Question("publish", texts.PUBLISH_PROMPT, value="topic", does="publish"),
    )
)
SUBSCRIBER = Dialogue(
    (
        Question(
            "menu", texts.SUBSCRIBER_MENU, (Choice("UNSUBSCRIBE", "unsubscribe"), Choice("SUBSCRIBE", "subscribe"))
        ),
        Question("subscribe", texts.SUBSCRIBE_PROMPT, value="topic", does="subscribe"),
        Question("unsubscribe", texts.UNSUBSCRIBE_PROMPT, value="topic", does="unsubscribe"),
    )
)


class PublisherDesk(Desk):
    dialogue = PUBLISHER

    def __init__(self, core: Publisher, seed: int) -> None:
        self._core = core
        self._random = random.Random(seed)

    def refusal(self, question: str, text: str) -> str | None:
        room = room_number(text)
        if question == "create":
            return texts.INVALID_INPUT if room is None else None
        return None if room in self._core.known_rooms else texts.NO_SUCH_ROOM

    def do(self, action: str, values: Mapping[str, str], now: float) -> None:
        room = existing(values["topic"])
        if action == "create":
            self._core.create(room, now)
        else:
            self._core.publish_one(room, ROOMS.reading(self._random), now)


class SubscriberDesk(Desk):
    dialogue = SUBSCRIBER

    def __init__(self, core: Subscriber) -> None:
        self._core = core

    def refusal(self, question: str, text: str) -> str | None:
        if room_number(text) is not None:
            return None
        return texts.NO_SUCH_ROOM if question == "subscribe" else texts.not_subscribed(text)

    def do(self, action: str, values: Mapping[str, str], now: float) -> None:
        ask = self._core.subscribe if action == "subscribe" else self._core.unsubscribe
        ask(existing(values["topic"]), now)

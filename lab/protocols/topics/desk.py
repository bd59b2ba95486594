"""What a person at a topics prompt can ask for: the two dialogues as data, and what their answers mean to a core."""

from __future__ import annotations

from collections.abc import Mapping

from lab.protocols.dialogue import Choice, Desk, Dialogue, Question
from lab.protocols.topics import texts
from lab.protocols.topics.core import name_bytes
from lab.protocols.topics.publisher import Publisher
from lab.protocols.topics.subscriber import Subscriber

PUBLISHER = Dialogue(
    (
        Question("menu", texts.PUBLISHER_MENU, (Choice("CREATE", "create"), Choice("PUBLISH", "publish"))),
        Question("create", texts.CREATE_PROMPT, value="topic", does="create"),
        Question("publish", texts.PUBLISH_PROMPT, value="topic", to="message"),
        Question("message", texts.MESSAGE_PROMPT, value="message", does="publish"),
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

    def __init__(self, core: Publisher) -> None:
        self._core = core

    def refusal(self, question: str, text: str) -> str | None:
        if question == "publish":
            return None if text in self._core.topics else texts.NO_SUCH_TOPIC
        try:
            name_bytes(text) if question == "create" else self._core.check_text(text)
        except ValueError:
            return texts.INVALID_INPUT
        return None

    def do(self, action: str, values: Mapping[str, str], now: float) -> None:
        if action == "create":
            self._core.create(values["topic"], now)
        else:
            self._core.publish_one(values["topic"], values["message"], now)


class SubscriberDesk(Desk):
    dialogue = SUBSCRIBER

    def __init__(self, core: Subscriber) -> None:
        self._core = core

    def refusal(self, question: str, text: str) -> str | None:
        try:
            name_bytes(text)
        except ValueError:
            return texts.INVALID_INPUT
        return None

    def do(self, action: str, values: Mapping[str, str], now: float) -> None:
        ask = self._core.subscribe if action == "subscribe" else self._core.unsubscribe
        ask(values["topic"], now)

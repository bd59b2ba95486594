"""What a person at an editor or subscriber prompt can ask for: two dialogues as data, and what they mean to a core.

The editor's prompts are a choice of ours. A subscriber has one prompt and commands of one line: SUBSCRIBE topic,
UNSUBSCRIBE topic, QUIT.
"""

from __future__ import annotations

from collections.abc import Mapping

from lab.protocols.dialogue import Choice, Desk, Dialogue, Question
from lab.protocols.editor import texts, wire
from lab.protocols.editor.publisher import Publisher
from lab.protocols.editor.subscriber import Subscriber

EDITOR = Dialogue(
    (
        Question("menu", texts.EDITOR_MENU, (Choice("PUBLISH", "topic"),)),
        Question("topic", texts.TOPIC_PROMPT, value="topic", to="text"),
        Question("text", texts.TEXT_PROMPT, value="text", does="publish"),
    ),
    invalid=texts.INVALID_INPUT,
)
SUBSCRIBER = Dialogue(
    (Question("command", texts.SUBSCRIBER_PROMPT, value="command", does="command"),),
    invalid=texts.of_subscriber(texts.INVALID_INPUT),
)


def refusal(value: str, text: str) -> str | None:
    """A warning, if that cannot be sent as a topic or a text."""
    try:
        (wire.check_topic if value == "topic" else wire.check_text)(text)
    except ValueError as error:
        return f"Warning: {error}; nothing was sent."
    return None


class EditorDesk(Desk):
    dialogue = EDITOR

    def __init__(self, core: Publisher) -> None:
        self._core = core

    def refusal(self, question: str, text: str) -> str | None:
        return refusal(question, text)

    def do(self, action: str, values: Mapping[str, str], now: float) -> None:
        self._core.publish_one(values["topic"], values["text"], now)


class SubscriberDesk(Desk):
    dialogue = SUBSCRIBER

    def __init__(self, core: Subscriber) -> None:
        self._core = core

    def refusal(self, question: str, text: str) -> str | None:
        found = _command(text)
        line = texts.USAGE if found is None else refusal("topic", found[1])
        return None if line is None else texts.of_subscriber(line)

    def do(self, action: str, values: Mapping[str, str], now: float) -> None:
        found = _command(values["command"])
        assert found is not None, "a command that is none is refused before"
        self._core.ask(*found, now)


def _command(line: str) -> tuple[str, str] | None:
    """Verb and topic, None if that is no command."""
    verb, _, topic = line.partition(" ")
    if verb.upper() not in (wire.SUBSCRIBE, wire.UNSUBSCRIBE) or not topic.strip():
        return None
    return verb.upper(), topic.strip()

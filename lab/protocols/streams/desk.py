"""What a person at a streams prompt can ask for: the two dialogues as data, and what their answers mean to a core."""

from __future__ import annotations

from collections.abc import Mapping

from lab.protocols.dialogue import Choice, Desk, Dialogue, Question
from lab.protocols.streams import parts, texts
from lab.protocols.streams.consumer import Consumer
from lab.protocols.streams.core import stream_number
from lab.protocols.streams.producer import Producer
from lab.protocols.streams.wire import EVERY, MOST_PRODUCERS, Content, Header

PRODUCER = Dialogue(
    (
        Question(
            "menu",
            texts.PRODUCER_MENU,
            (
                Choice("START", "start"),
                Choice("CREATE", "create"),
                Choice("PUBLISH", "publish"),
                Choice("END", "end"),
            ),
        ),
        Question("start", texts.START_PROMPT, value="content", does="start"),
        Question("create", texts.CREATE_PROMPT, value="topic", does="create"),
        Question("publish", texts.PUBLISH_PROMPT, value="topic", to="line"),
        Question("line", texts.LINE_PROMPT, value="text", does="publish"),
        Question("end", texts.END_PROMPT, value="topic", does="end"),
    )
)
CONSUMER = Dialogue(
    (
        Question(
            "menu",
            texts.CONSUMER_MENU,
            (Choice("LIST", does="list"), Choice("SUBSCRIBE", "subscribe"), Choice("TAKE", does="take")),
        ),
        Question("subscribe", texts.SUBSCRIBE_PROMPT, value="topic", does="subscribe"),
    )
)


class ProducerDesk(Desk):
    dialogue = PRODUCER

    def __init__(self, core: Producer) -> None:
        self._core = core

    def refusal(self, question: str, text: str) -> str | None:
        if question == "start":
            return None if text.upper() in ("ANY", *Content.__members__) else texts.INVALID_INPUT
        if question == "line":
            return self._line_refusal(text)
        number = stream_number(text)
        if question == "create":
            due = self._core.next_number()
            return None if number == due else texts.STREAM_TAKEN.format(due)
        return None if self._core.runs(number) else texts.NO_SUCH_STREAM

    def _line_refusal(self, text: str) -> str | None:
        try:
            parts.check(text.encode(), self._core.settings.split)
        except ValueError as error:
            return str(error)
        return None

    def do(self, action: str, values: Mapping[str, str], now: float) -> None:
        if action == "start":
            self._core.begin_streams(
                None if values["content"].upper() == "ANY" else Content[values["content"].upper()], now
            )
        elif action == "create":
            self._core.create(values["topic"], now)
        elif action == "publish":
            self._core.publish_one(values["topic"], values["text"], now)
        else:
            self._core.end(int(values["topic"]), now)


class ConsumerDesk(Desk):
    dialogue = CONSUMER

    def __init__(self, core: Consumer) -> None:
        self._core = core

    def refusal(self, question: str, text: str) -> str | None:
        return None if subscription(text) is not None else texts.INVALID_INPUT

    def do(self, action: str, values: Mapping[str, str], now: float) -> None:
        if action == "list":
            self._core.list_streams(now)
        elif action == "take":
            self._core.take(now)
        else:
            to = subscription(values["topic"])
            assert to is not None
            self._core.subscribe(to, now)


def subscription(text: str) -> Header | None:
    """`2 81 text` or `2 every`: which producer, which stream, what of it; all of it if nothing is said."""
    words = text.lower().replace(",", " ").split()
    if len(words) == 2:
        words.append("all")
    if len(words) != 3 or words[2].upper() not in Content.__members__:
        return None
    producer = int(words[0]) if words[0].isascii() and words[0].isdecimal() and len(words[0]) < 8 else 0
    stream = EVERY if words[1] == "every" else stream_number(words[1])
    if not 0 < producer <= MOST_PRODUCERS or stream is None:
        return None
    return Header(producer, stream, Content[words[2].upper()])

"""The control channel: commands in, `@lab` lines out, with real cores and no sockets."""

import io
import json
from typing import Any

import pytest

from lab.node.control import Control
from lab.node.output import Output
from lab.protocols.core import Core
from lab.protocols.rooms.broker import Broker
from lab.protocols.rooms.core import Settings
from lab.protocols.rooms.publisher import Publisher
from lab.protocols.rooms.subscriber import Subscriber

BROKER = ("10.0.0.2", 50001)
HOST = "10.0.0.3"


class Desk:
    """A driven program joined to a broker by a perfect network."""

    def __init__(self, core: Core, broker: Broker | None = None) -> None:
        self.core = core
        self.broker = broker
        self.screen = io.BytesIO()
        self.output = Output(self.screen)
        self.control = Control(core, self.output)
        self.now = 0.0

    def send(self, command: object) -> list[dict[str, Any]]:
        """The answers to a command, after every timer and datagram that follows from it."""
        self.control.line(command if isinstance(command, str) else json.dumps(command), self.now)
        for _ in range(1000):
            if not self._turn():
                timer = self.core.get_timer()
                if timer is None:
                    break
                self.now = max(timer, self.now)
                self.core.handle_timer(self.now)
        return self.answers()

    def _turn(self) -> bool:
        moved = False
        for datagram in self.core.datagrams_to_send(self.now):
            if self.broker is not None:
                moved = True
                self.broker.receive_datagram(datagram.data, (HOST, datagram.local), self.now)
        for datagram in self.broker.datagrams_to_send(self.now) if self.broker is not None else ():
            moved = True
            self.core.receive_datagram(datagram.data, BROKER, self.now, datagram.address[1])
        while (event := self.core.next_event()) is not None:
            moved = True
            self.control.event(event, self.now)
        return moved

    def answers(self) -> list[dict[str, Any]]:
        self.output.flush()
        lines = self.screen.getvalue().decode().splitlines()
        self.screen.seek(0)
        self.screen.truncate()
        return [json.loads(line.removeprefix("@lab ")) for line in lines if line.startswith("@lab ")]


def settings(arq: str = "sliding-window") -> Settings:
    return Settings(arq)


def test_ready_and_counters() -> None:
    desk = Desk(Broker(settings()))
    desk.control.start(0.0)
    desk.control.finish()
    ready, counters = desk.answers()
    assert ready == {"event": "ready"}
    assert counters["event"] == "counters"
    assert {"published", "forwarded", "retransmitted"} <= set(counters)


def test_subscribe_create_and_publish() -> None:
    broker = Broker(settings())
    subscriber = Desk(Subscriber(settings(), BROKER), broker)
    assert subscriber.send({"do": "subscribe", "topics": ["1", "2"]}) == [
        {"event": "done", "phase": "subscribe", "ok": True}
    ]
    [refused] = subscriber.send({"do": "subscribe", "topics": ["1", "77"]})
    assert refused == {
        "event": "done",
        "phase": "subscribe",
        "ok": False,
        "detail": "77: This Room does not exist.",
    }
    publisher = Desk(Publisher(settings(), BROKER), Broker(settings()))
    assert publisher.send({"do": "create", "topics": ["4", "1"]}) == [{"event": "done", "phase": "create", "ok": True}]
    messages = [{"number": n, "topic": "4", "text": f"t{n}"} for n in range(5)]
    [done] = publisher.send({"do": "publish", "rate_per_s": 50.0, "messages": messages})
    assert done == {"event": "done", "phase": "publish", "ok": True, "sent": 5, "refused": 5, "unanswered": 0}


def test_no_answer_is_not_ok() -> None:
    desk = Desk(Subscriber(settings("none"), BROKER))
    [answer] = desk.send({"do": "subscribe", "topics": ["1"]})
    assert answer == {"event": "done", "phase": "subscribe", "ok": False, "detail": "1: No answer."}


def test_a_given_up_broker_is_told() -> None:
    desk = Desk(Publisher(Settings("sliding-window", window=2), BROKER))
    messages = [{"number": n, "topic": "1", "text": "t"} for n in range(5)]
    [done] = desk.send({"do": "publish", "rate_per_s": 50.0, "messages": messages})
    assert (done["ok"], done["sent"], done["unanswered"]) == (False, 2, 2)
    assert done["detail"] == "the broker was given up after 2 of 5 messages"


def test_empty_phases_are_done_at_once() -> None:
    assert Desk(Subscriber(settings(), BROKER)).send({"do": "subscribe", "topics": []})[0]["ok"]
    assert Desk(Publisher(settings(), BROKER)).send({"do": "publish", "messages": []})[0]["sent"] == 0


@pytest.mark.parametrize(
    "command",
    [
        {"do": "publish", "messages": []},
        {"do": "create", "topics": ["1"]},
        {"do": "dance"},
        {"do": "subscribe"},
        {"do": "subscribe", "topics": ["kitchen"]},
        {"do": "subscribe", "topics": 5},
    ],
)
def test_what_a_consumer_cannot_do_is_not_ok(command: dict[str, Any]) -> None:
    desk = Desk(Subscriber(settings(), BROKER), Broker(settings()))
    [answer] = desk.send(command)
    assert (answer["event"], answer["phase"], answer["ok"]) == ("done", command["do"], False)
    assert desk.send({"do": "subscribe", "topics": ["1"]})[0]["ok"]  # and it goes on


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "5",
        '"stop"',
        "{}",
        "null",
        "[" * 99999,
    ],
)
def test_what_is_no_command_is_told(line: str) -> None:
    desk = Desk(Broker(settings()))
    [answer] = desk.send(line)
    assert answer["event"] == "error"
    assert not desk.control.ended


def test_too_long_a_text_is_refused_before_anything_is_sent() -> None:
    desk = Desk(Publisher(settings(), BROKER), Broker(settings()))
    messages = [{"number": 1, "topic": "1", "text": "ok"}, {"number": 2, "topic": "1", "text": "x" * 495}]
    [done] = desk.send({"do": "publish", "rate_per_s": 5, "messages": messages})
    assert not done["ok"]
    assert "at most 494 bytes, this one 495" in done["detail"]
    assert desk.core.counters["sent"] == 0


def test_stop_and_end_of_input_end() -> None:
    desk = Desk(Broker(settings()))
    desk.send({"do": "stop"})
    assert desk.control.ended
    other = Desk(Broker(settings()))
    other.control.end_of_input(0.0)
    assert other.control.ended

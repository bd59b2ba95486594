"""The streams consumer: asks for the list, subscribes, shows and keeps what comes. Must not know who produces.

Choices: each subscription has a port of its own from 50003 up, and that source address is the subscription, so that a
confirmation, which says nothing, belongs to one; a port is used again 5 s after its stream has ended. The list is
asked for until it has what is wanted, ten times. A topic is a stream number and means that stream of every producer
in the list. What comes late, up to then, is still shown; an end is confirmed whenever it comes. With `split: protocol`
a frame is shown once and when all of it has come; otherwise each datagram is.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from lab.protocols.core import Address, Answered, Core, TopicPhase
from lab.protocols.streams import texts
from lab.protocols.streams.core import LATE_S, LIST_PORT, Settings, stream_number
from lab.protocols.streams.critical import CLIENT_PATIENCE_S, Critical
from lab.protocols.streams.parts import Joiner
from lab.protocols.streams.recorder import Recorder
from lab.protocols.streams.wire import (
    EVERY,
    LIST,
    Code,
    Content,
    Header,
    Kind,
    Packet,
    code,
    entries,
    parse,
    subscribe,
)

MOST_SUBSCRIPTIONS = 512


@dataclass(slots=True)
class Subscription:
    to: Header
    want: Want | None  # that its answer is a part of
    on: bool = False  # the broker has confirmed it
    free: float | None = None  # when its port may be used again: it was refused, or its stream has ended
    over: set[int] = field(default_factory=set)  # streams that have ended, where it is to every one

    def takes(self, of: Header) -> bool:
        if of.producer != self.to.producer or self.to.stream not in (of.stream, EVERY):
            return False
        return self.to.stream == EVERY or self.to.content in (of.content, Content.ALL) or of.content == Content.ALL


@dataclass(eq=False, slots=True)
class Want:
    """Something that was asked for, until it is answered."""

    request: str
    name: str
    find: Literal["nothing", "stream", "some", "all"]  # in the list: none is needed; this stream; a draw; to show it
    stream: int = 0
    found: bool = False
    open: int = 0  # subscriptions that are not answered yet
    refused: int = 0
    unanswered: int = 0

    @property
    def looking(self) -> bool:
        return not self.found and self.find != "nothing"

    @property
    def settled(self) -> bool:
        return not self.looking and not self.open

    def outcome(self) -> str | None:
        if self.unanswered:
            return None
        return texts.REFUSED if self.refused else texts.SUBSCRIBED


class Consumer(Core):
    ports = (LIST_PORT,)
    repeats = True

    def __init__(self, settings: Settings, broker: Address, host: str = "127.0.0.1", seed: int = 0) -> None:
        super().__init__()
        self.settings = settings
        self.broker = broker
        self.host = host  # its own address, for mutants that look around
        self.counters.update(dict.fromkeys(("received", "shown", "frames", "chunks", "repeated", "unanswered"), 0))
        self.subscriptions: dict[int, Subscription] = {}  # by port
        self.critical = Critical(self.emit, self.counters, CLIENT_PATIENCE_S, self.repeats)
        self._random = random.Random(seed)
        self._recorder = Recorder()
        self._joiner = Joiner()
        self._wants: list[Want] = []
        self._topics: dict[int, Want] = {}  # streams that are wanted of every producer
        self._list_came = False

    @property
    def busy(self) -> bool:
        return bool(self._wants)

    # What the lab and people ask for.

    def request(self, phase: TopicPhase, topic: str, now: float) -> None:
        if phase != "subscribe":
            super().request(phase, topic, now)
        number = stream_number(topic)
        if number is None:
            raise ValueError(f"there can be no stream {topic!r}")
        self._topics[number] = Want("SUBSCRIBE", topic, "stream", number)
        self._ask(self._topics[number], now)

    def list_streams(self, now: float) -> None:
        self._ask(Want("LIST", "", "all"), now)

    def take(self, now: float) -> None:
        """Subscribe to some of the streams that are running, drawn."""
        self._ask(Want("TAKE", "", "some"), now)

    def subscribe(self, to: Header, now: float) -> None:
        """To one stream, or every one of a producer, whether the list shows it or not."""
        want = Want("SUBSCRIBE", f"{to.producer} {to.stream}", "nothing")
        self._wants.append(want)
        self._take_all([to], want, now)
        self._see_what_is_settled()

    def _ask(self, want: Want, now: float) -> None:
        self._wants.append(want)
        if not self.critical.pending("list"):
            self._list_came = False
            self.critical.drop("list")  # an old confirmation does no harm: the list itself is waited for
            self.critical.send("list", "list", LIST, self.broker, LIST_PORT, now)

    def _take_all(self, chosen: Iterable[Header], want: Want, now: float) -> None:
        want.found = True
        for to in chosen:
            port = self._port(to, now)
            if port is None:
                self.say(f"There are {MOST_SUBSCRIPTIONS} subscriptions, which is all there can be.")
                want.refused += 1
                return
            self._subscribe(port, to, want, now)

    def _port(self, to: Header, now: float) -> int | None:
        """The one from which this stream is taken already, or one that is free."""
        free = None
        for port in range(LIST_PORT + 1, LIST_PORT + 1 + MOST_SUBSCRIPTIONS):
            one = self.subscriptions.get(port)
            if one is not None and one.free is None:
                if (one.to.producer, one.to.stream) == (to.producer, to.stream):
                    return port
            elif free is None and (one is None or one.free is None or one.free <= now):
                free = port
        return free

    def _subscribe(self, port: int, to: Header, want: Want, now: float) -> None:
        lane, old = ("subscription", port), self.subscriptions.get(port)
        if old is not None and old.free is None:  # more of the same stream
            if self.critical.pending(lane):
                return
            old.to, old.want = old.to if old.to == to else replace(to, content=Content.ALL), want
        else:
            self.critical.drop(lane)
            self.subscriptions[port] = Subscription(to, want)
            self._recorder.forget(to.producer, to.stream)
        want.open += 1
        self.critical.send(lane, port, subscribe(to), self.broker, port, now)

    # From the network.

    def receive_datagram(self, data: bytes, addr: Address, now: float, local: int) -> None:
        packet = parse(data)
        if packet is None or addr != self.broker:
            self.counters["malformed" if packet is None else "strays"] += 1
        elif packet.kind is Kind.CONTENT:
            self._on_content(packet, now, local)
        elif packet.kind is Kind.END:
            self._on_end(packet.header, now, local)
        elif packet.kind is Kind.LIST and local == LIST_PORT:
            self._on_list(entries(packet.body), now)
        elif packet.kind in (Code.SUBSCRIBED, Code.REFUSED):
            self._on_answer(packet.kind is Code.SUBSCRIBED, now, local)

    def _on_list(self, running: list[Header], now: float) -> None:
        self._list_came = True
        for want in self._topics.values():
            self._look_for_topic(want, running, now)
        for want in self._wants:
            if want.looking and want.find == "all" and running:
                want.found = True
                for one in running:
                    self.say(texts.listed(one))
            elif want.looking and want.find == "some" and running:
                self._take_all(self._random.sample(running, self._random.randint(1, len(running))), want, now)
        if running and not any(want.looking for want in self._wants):
            self.critical.settle("list", now)
        self._see_what_is_settled()

    def _look_for_topic(self, want: Want, running: list[Header], now: float) -> None:
        have = {one.to.producer for one in self.subscriptions.values() if one.to.stream == want.stream and not one.free}
        fitting = [one for one in running if one.stream == want.stream]
        if fitting:
            self._take_all((one for one in fitting if one.producer not in have), want, now)

    def _on_answer(self, taken: bool, now: float, local: int) -> None:
        if self.critical.settle(("subscription", local), now) is not None:
            self._settled(local, taken, now)
            self._see_what_is_settled()

    def _settled(self, port: int, taken: bool | None, now: float) -> None:
        one = self.subscriptions[port]
        one.on = one.on or taken is True
        if not one.on and one.free is None:
            one.free = now + LATE_S
        if one.want is not None:
            one.want.open -= 1
            one.want.refused += taken is False
            one.want.unanswered += taken is None
            one.want = None

    def _see_what_is_settled(self) -> None:
        for want in [one for one in self._wants if one.settled]:
            self._wants.remove(want)
            outcome = want.outcome()
            if want.request == "LIST":
                self._events.append(Answered(want.request, want.name, True, ""))
                continue
            self.say(outcome or texts.NO_ANSWER)
            self._events.append(Answered(want.request, want.name, outcome == texts.SUBSCRIBED, outcome))

    # Time.

    def get_timer(self) -> float | None:
        return self.critical.get_timer()

    def handle_timer(self, now: float) -> None:
        for lane, key in self.critical.handle_timer(now):
            self.counters["unanswered"] += 1
            if lane == "list":
                self._list_given_up()
            else:
                self._settled(key, None, now)
        self._see_what_is_settled()

    def _list_given_up(self) -> None:
        outcome = texts.NO_STREAMS if self._list_came else None
        for want in [one for one in self._wants if one.looking]:
            self._wants.remove(want)
            self.say(outcome or texts.NO_ANSWER)
            self._events.append(Answered(want.request, want.name, False, outcome))

    # What comes.

    def _subscription(self, of: Header, local: int) -> Subscription | None:
        one = self.subscriptions.get(local)
        return one if one is not None and one.takes(of) else None

    def _on_content(self, packet: Packet, now: float, local: int) -> None:
        of = packet.header
        if not of.valid or self._subscription(of, local) is None:
            self.counters["misdirected"] += 1
            return
        self.counters["received"] += 1
        self.subscriptions[local].over.discard(of.stream)
        if self.settings.split != "protocol":
            self.show(of, packet.body, None, local)
            return
        whole = self._joiner.add((local, of.producer, of.stream, of.content), packet.body, now)
        if whole is not None:
            self.show(of, whole[1], whole[0], local)

    def show(self, of: Header, data: bytes, number: int | None, local: int) -> None:
        """A frame, a chunk or a line is here, whole."""
        self._events.extend(self._recorder.write(of, data, number))
        if of.content == Content.TEXT:
            self.counters["shown"] += 1
            self.say(texts.line(of, data))
        else:
            self.counters["frames" if of.content == Content.VIDEO else "chunks"] += 1

    def _on_end(self, of: Header, now: float, local: int) -> None:
        self.emit(code(Code.END_SEEN), self.broker, local)
        one = self._subscription(of, local)
        if one is None or one.free is not None or of.stream in one.over:
            return
        self.say(texts.ended(of))
        if one.to.stream == EVERY:
            one.over.add(of.stream)
            self._recorder.forget(of.producer, of.stream)
        else:
            one.free = now + LATE_S

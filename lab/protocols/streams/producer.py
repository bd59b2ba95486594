"""The streams producer: gets its id, announces streams, sends their content, ends them. Must not know any clock.

Choices: it registers when it starts, and again when something is asked of it after that was in vain. A workload's
topic is a stream; message i is due at start + i/rate, start being no sooner than `lead` after the announcements, and
after the last message of a stream its end follows at once. Its confirmation does not say which stream has ended, so
streams end one after the other. The media beside a message are one chunk and one frame. If it is told to stop, it
says the end of what runs once and waits for nothing.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Sequence

from lab.protocols.core import Address, Answered, Core, Publication, PublishDone, TopicPhase, earliest
from lab.protocols.streams import media, parts, texts
from lab.protocols.streams.core import LATE_S, PRODUCER_PORT, Settings, next_stream, stream_number
from lab.protocols.streams.critical import CLIENT_PATIENCE_S, REPEAT_S, TRIES, Critical
from lab.protocols.streams.outgoing import PIECE_S, SHOWN, Job, Outgoing, draw_round
from lab.protocols.streams.recorder import Recorder
from lab.protocols.streams.wire import REGISTER, Code, Content, Header, Kind, code, end, header, parse

FASTEST_S = 0.001  # between two messages of a workload without a rate


class Producer(Core):
    ports = (PRODUCER_PORT,)
    repeats = True

    def __init__(self, settings: Settings, broker: Address, host: str = "127.0.0.1", seed: int = 0) -> None:
        super().__init__()
        self.settings = settings
        self.broker = broker
        self.host = host  # its own address, for mutants that look around
        self.counters.update(dict.fromkeys(("sent", "streams", "repeated", "unanswered"), 0))
        self.id: int | None = None
        self.streams: dict[int, Outgoing] = {}
        self.critical = Critical(self.emit, self.counters, CLIENT_PATIENCE_S, self.repeats)
        self._seed = seed
        self._random = random.Random(seed)
        self._recorder = Recorder()
        self._last_stream = 0
        self._id_due: float | None = None  # until then the id should have come
        self._known_until = 0.0  # so long a repeated id is confirmed again
        self._creations: deque[int] = deque()
        self._job: Job | None = None
        self._show: Content | None = None
        self._showing = False
        self._endings: set[int] = set()  # streams whose end somebody asked for and waits for

    @property
    def busy(self) -> bool:
        return bool(self._creations or self._job or self._endings)

    def start(self, now: float) -> None:
        self._register(now)

    def stop(self, now: float) -> None:
        for stream in self.streams.values():
            if not stream.ending:
                self.emit(end(stream.header), self.broker, PRODUCER_PORT)

    # What the lab and people ask for.

    def request(self, phase: TopicPhase, topic: str, now: float) -> None:
        if phase != "create":
            super().request(phase, topic, now)
        self.create(topic, now)

    def create(self, topic: str, now: float) -> None:
        """Announce a text stream (with media beside the text, if the settings say so)."""
        number, due = stream_number(topic), self.next_number()
        if number != due:
            raise ValueError(f"streams are numbered as they begin, and the next one is {due}, not {topic!r}")
        self._creations.append(number)
        if self.id is None:
            self._register(now)
        else:
            self._create_all(now)

    def next_number(self) -> int:
        """Of the stream that would be announced next."""
        last, running = self._last_stream, set(self.streams)
        for _ in range(len(self._creations) + 1):
            last = next_stream(last, running)
            running.add(last)
        return last

    def runs(self, number: int | None) -> bool:
        stream = self.streams.get(number or 0)
        return stream is not None and not stream.ending

    def workload(self, messages: Sequence[Publication], rate_per_s: float | None, now: float) -> None:
        if rate_per_s is not None and not rate_per_s > 0:
            raise ValueError(f"a rate is more than 0 a second, not {rate_per_s}")
        self._begin_job(messages, FASTEST_S if rate_per_s is None else 1.0 / rate_per_s, True, now)

    def publish_one(self, topic: str, text: str, now: float) -> None:
        self._begin_job([Publication(topic, text)], 0.0, False, now)

    def _begin_job(self, messages: Sequence[Publication], gap_s: float, ends: bool, now: float) -> None:
        if self._job is not None:
            raise ValueError("a publish job is already under way")
        for one in messages:
            parts.check(one.text.encode(), self.settings.split)
            if self.id is not None and not self.runs(stream_number(one.topic)):
                raise ValueError(f"stream {one.topic} is not running")
        if self.id is None:
            self._events.append(PublishDone(len(messages), 0, 0, 0))
            return
        left = Counter(one.topic for one in messages)
        ready = max((self.streams[int(topic)].ready for topic in left), default=now)
        self._job = Job(tuple(messages), gap_s, max(now, ready), ends, left)
        if ends:
            for number, stream in list(self.streams.items()):
                stream.pieces = left.get(str(number), 0)
                if not stream.pieces:
                    self._end(stream, now)
        self._advance(now)

    def begin_streams(self, content: Content | None, now: float) -> None:
        """Streams by themselves: when all of a round have ended, as many new ones begin. None: any content."""
        self._show, self._showing = content, True
        if self.id is None:
            self._register(now)
        else:
            self._begin_round(now)

    def end(self, number: int, now: float) -> None:
        """End a running stream; one Answered follows."""
        self._endings.add(number)
        self._end(self.streams[number], now)

    # From the network.

    def receive_datagram(self, data: bytes, addr: Address, now: float, local: int = PRODUCER_PORT) -> None:
        packet = parse(data)
        if packet is None or addr != self.broker:
            self.counters["malformed" if packet is None else "strays"] += 1
        elif packet.kind is Code.REGISTERED:
            if self.critical.settle("register", now) is not None and self.id is None:
                self._id_due = now + TRIES * REPEAT_S + CLIENT_PATIENCE_S
        elif packet.kind is Kind.ID:
            self._on_id(packet.header.producer, now)
        elif packet.kind is Code.END_CONFIRMED:
            number = self.critical.settle("end", now)
            if number is not None:
                self._ended(number, True)
                self._advance(now)

    def _on_id(self, number: int, now: float) -> None:
        first = self.id is None
        if first:
            self.critical.drop("register")
            self.id, self._id_due, self._known_until = number, None, now + LATE_S
            self.say(texts.own_id(number))
        if self.id == number and now <= self._known_until:
            self.emit(code(Code.ID_CONFIRMED), self.broker, PRODUCER_PORT)
        if first:
            self._create_all(now)
            if self._showing:
                self._begin_round(now)

    # Time.

    def get_timer(self) -> float | None:
        shown = (stream.due for stream in self.streams.values())
        return earliest(self.critical.get_timer(), self._id_due, None if self._job is None else self._job.due, *shown)

    def handle_timer(self, now: float) -> None:
        for lane, key in self.critical.handle_timer(now):
            if lane == "end":
                self._ended(key, False)
            else:
                self._not_registered()
        if self._id_due is not None and self._id_due <= now:
            self._not_registered()
        for stream in list(self.streams.values()):
            if stream.due <= now:
                self._play(stream, now)
        self._advance(now)

    def _register(self, now: float) -> None:
        if self.id is None and self._id_due is None and not self.critical.pending("register"):
            self.critical.drop("register")
            self.critical.send("register", "register", REGISTER, self.broker, PRODUCER_PORT, now)

    def _not_registered(self) -> None:
        self._id_due, self._showing = None, False
        self.counters["unanswered"] += 1
        self.say(texts.NO_ANSWER)
        while self._creations:
            self._events.append(Answered("ANNOUNCE", str(self._creations.popleft()), False, None))

    # Streams.

    def _create_all(self, now: float) -> None:
        while self._creations:
            number = self._creations.popleft()
            stream = self._open(self.settings.announced, now)
            assert stream.header.stream == number
            self._events.append(Answered("ANNOUNCE", str(number), True, texts.announced(stream.header)))

    def _open(self, content: Content, now: float) -> Outgoing:
        assert self.id is not None
        number = self._last_stream = next_stream(self._last_stream, self.streams)
        of = Header(self.id, number, content)
        stream = self.streams[number] = Outgoing(of, now + self.settings.lead_s)
        self.counters["streams"] += 1
        self.emit(header(of), self.broker, PRODUCER_PORT)
        self.say(texts.announced(of))
        return stream

    def _begin_round(self, now: float) -> None:
        for content, pieces in draw_round(self._random, self._show):
            stream = self._open(content, now)
            stream.pieces, stream.due = pieces, stream.ready

    def _play(self, stream: Outgoing, now: float) -> None:
        """The next piece of a stream that goes by itself."""
        for content in SHOWN[Content(stream.header.content)]:
            self._send(stream, content, self._piece(stream, content))
        stream.due += PIECE_S
        if stream.played == stream.pieces:
            self._end(stream, now)

    def _piece(self, stream: Outgoing, content: Content) -> bytes:
        number, seed = stream.sent[content], f"{self._seed}/{stream.header.producer}/{stream.header.stream}"
        if content is Content.VIDEO:
            return media.frame(seed, number)
        return media.chunk(seed, number) if content is Content.AUDIO else media.line(stream.header.stream, number)

    def _send(self, stream: Outgoing, content: Content, data: bytes) -> None:
        of = Header(stream.header.producer, stream.header.stream, content)
        number = stream.sent[content]
        stream.sent[content] += 1
        try:
            parts.check(data, self.settings.split)
        except ValueError as error:
            self.counters["refused"] += 1
            if not number:
                self.say(str(error))
            return
        for datagram in parts.split(header(of), data, self.settings.split, number):
            self.transmit(datagram)
        self._events.extend(self._recorder.write(of, data, number))

    def transmit(self, datagram: bytes) -> None:
        """Content leaves."""
        self.counters["sent"] += 1
        self.emit(datagram, self.broker, PRODUCER_PORT)

    def _end(self, stream: Outgoing, now: float) -> None:
        if not stream.ending:
            stream.ending, stream.due = True, float("inf")
            self.critical.send("end", stream.header.stream, end(stream.header), self.broker, PRODUCER_PORT, now)

    def _ended(self, number: int, confirmed: bool) -> None:
        stream = self.streams.pop(number)
        self._recorder.forget(stream.header.producer, number)
        self.counters["unanswered"] += not confirmed
        self.say((texts.ended if confirmed else texts.unconfirmed)(stream.header))
        if self._job is not None:
            self._job.unanswered += not confirmed
        if number in self._endings:
            self._endings.discard(number)
            outcome = texts.ended(stream.header) if confirmed else None
            self._events.append(Answered("END", str(number), confirmed, outcome))

    def _advance(self, now: float) -> None:
        """Publish what is due, and see what is over."""
        job = self._job
        while job is not None and job.due <= now:
            self._publish(job, job.messages[job.sent], now)
        if job is not None and job.sent == len(job.messages) and not (job.ends and self.streams):
            self._job = None
            self._events.append(PublishDone(len(job.messages), job.sent, job.refused, job.unanswered))
        if self._showing and self.id is not None and not self.streams:
            self._begin_round(now)

    def _publish(self, job: Job, message: Publication, now: float) -> None:
        job.sent += 1
        if not self.runs(int(message.topic)):
            job.refused += 1
            return
        stream = self.streams[int(message.topic)]
        for content in self.settings.components:
            text = content is Content.TEXT
            self._send(stream, content, message.text.encode() if text else self._piece(stream, content))
        job.left[message.topic] -= 1
        if job.ends and not job.left[message.topic]:
            self._end(stream, now)

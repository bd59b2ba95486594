"""Which core plays which role, healthy or as a mutant, and its own command line. Must not know how a core works."""

from __future__ import annotations

from pathlib import Path

from lab.protocols.core import Address
from lab.protocols.lines import texts
from lab.protocols.lines.broker import Broker
from lab.protocols.lines.core import Settings
from lab.protocols.lines.desk import LinesDesk
from lab.protocols.lines.entry import PUBLISHER_PORT, SUBSCRIBER_PORT
from lab.protocols.lines.mutants import CLASSES
from lab.protocols.lines.publisher import Publisher
from lab.protocols.lines.subscriber import Subscriber
from lab.protocols.roles import Flag, Program, Role, Start, choose

BROKER_FLAGS = (
    Flag(("-s",), "subport", f"the port for subscribers (default {SUBSCRIBER_PORT})"),
    Flag(("-p",), "pubport", f"the port for publishers (default {PUBLISHER_PORT})"),
)
CLIENT_FLAGS = (
    Flag(("-i",), "id", "the id that stands before every request"),
    Flag(("-r",), "ownport", "the own port; it is only printed"),
    Flag(("-h",), "host", "where the broker is"),
    Flag(("-p",), "port", "the broker's port for this kind of client"),
    Flag(("-f",), "file", "commands to take before those of standard input"),
)


def make_broker(
    settings: Settings, ports: tuple[int, int] = (SUBSCRIBER_PORT, PUBLISHER_PORT), mutant: str | None = None
) -> Broker:
    return choose("lines", "broker", Broker, CLASSES, mutant)(settings, ports)


def make_publisher(
    settings: Settings,
    broker: Address,
    ident: str,
    host: str = "127.0.0.1",
    mutant: str | None = None,
    intro: tuple[str, ...] = (),
) -> Publisher:
    return choose("lines", "producer", Publisher, CLASSES, mutant)(settings, broker, ident, host, intro)


def make_subscriber(
    settings: Settings,
    broker: Address,
    ident: str,
    host: str = "127.0.0.1",
    mutant: str | None = None,
    intro: tuple[str, ...] = (),
) -> Subscriber:
    return choose("lines", "consumer", Subscriber, CLASSES, mutant)(settings, broker, ident, host, intro)


def _settings(start: Start) -> Settings:
    return Settings.from_options(start.options, chatter=not start.driven)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 65536):
        raise ValueError(f"a port is a number from 1 to 65535, not {text!r}")
    return int(text)


def _broker_of(start: Start, port: int) -> Address:
    """Where to connect to. `--broker` without a port names the subscribers' one; a publisher knows better."""
    if "port" in start.flags:
        port = _port(start.flags["port"])
    if "host" in start.flags:
        return start.resolve(start.flags["host"]), port
    host, named = start.broker_address()
    return host, named if named != SUBSCRIBER_PORT and "port" not in start.flags else port


def _commands(start: Start) -> tuple[tuple[str, ...], bool]:
    """The lines of the command file, and whether one was named that does not exist."""
    if not start.flags.get("file"):
        return (), False
    try:
        return tuple(Path(start.flags["file"]).read_text("utf-8", "replace").splitlines()), False
    except OSError:
        return (), True


def _intro(start: Start, ident: str, broker: Address, missing: bool) -> tuple[str, ...]:
    if start.driven:
        return ()
    flags = start.flags
    host = flags.get("host", broker[0])
    said = texts.client_is(ident, flags.get("ownport", ""), host, broker[1], flags.get("file", ""))
    return (*said, texts.NO_FILE) if missing else said


def _broker(start: Start) -> Program:
    ports = (
        _port(start.flags.get("subport", str(SUBSCRIBER_PORT))),
        _port(start.flags.get("pubport", str(PUBLISHER_PORT))),
    )
    if ports[0] == ports[1]:
        raise ValueError(f"subscribers and publishers need a port each, not both {ports[0]}")
    return Program(make_broker(_settings(start), ports, start.mutant))


def _producer(start: Start) -> Program:
    settings, broker = _settings(start), _broker_of(start, PUBLISHER_PORT)
    (lines, missing), ident = _commands(start), start.flags.get("id", start.name)
    intro = _intro(start, ident, broker, missing)
    core = make_publisher(settings, broker, ident, start.own_host(broker), start.mutant, intro)
    return Program(core, LinesDesk(core), lines)


def _consumer(start: Start) -> Program:
    settings, broker = _settings(start), _broker_of(start, SUBSCRIBER_PORT)
    (lines, missing), ident = _commands(start), start.flags.get("id", start.name)
    intro = _intro(start, ident, broker, missing)
    core = make_subscriber(settings, broker, ident, start.own_host(broker), start.mutant, intro)
    return Program(core, LinesDesk(core), lines)


ROLES = {
    "broker": Role(_broker, BROKER_FLAGS),
    "producer": Role(_producer, CLIENT_FLAGS, also=("publisher",)),
    "consumer": Role(_consumer, CLIENT_FLAGS, also=("subscriber",)),
}

"""Which core plays which role, healthy or as a mutant, on which command line. Must not know how a core works."""

from __future__ import annotations

from pathlib import Path

from lab.protocols.core import Address
from lab.protocols.editor.broker import Broker
from lab.protocols.editor.desk import EditorDesk, SubscriberDesk, refusal
from lab.protocols.editor.disk import Disk
from lab.protocols.editor.entry import BROKER_PORT, STORAGE_PORT, WORDS_PORT
from lab.protocols.editor.mutants import CLASSES
from lab.protocols.editor.publisher import Publisher
from lab.protocols.editor.settings import Settings
from lab.protocols.editor.storage import Storage, Store
from lab.protocols.editor.subscriber import Subscriber
from lab.protocols.editor.words import Words
from lab.protocols.roles import Flag, Program, Role, Start, choose

FOLDERS = ("/data", "/tmp")  # where the storage keeps its articles: the first that is there
LOCAL = "127.0.0.1"

HOST = Flag(("-h", "--host"), "host", "where the broker is")
SERVER = Flag(("-s", "--server"), "host", "where the broker is")
PORT = Flag(("-p", "--port"), "port", "the broker's port")
TOPIC = Flag(("-t", "--topic"), "topic", "publish on this topic and end")
TEXT = Flag(("-m", "--message"), "text", "the text to publish")
STORAGE = Flag(("--storage",), "storage", f"HOST:PORT of the storage (default: {LOCAL}:{STORAGE_PORT})")
OWN_PORT = Flag(("-p", "--port"), "port", "the own port")
FOLDER = Flag(("--folder",), "folder", "where the articles are kept")


def make_broker(settings: Settings, storage: Address, port: int = BROKER_PORT, mutant: str | None = None) -> Broker:
    return choose("editor", "broker", Broker, CLASSES, mutant)(settings, storage, port)


def make_publisher(
    settings: Settings,
    broker: Address,
    host: str = LOCAL,
    mutant: str | None = None,
    once: tuple[str, str] | None = None,
) -> Publisher:
    return choose("editor", "producer", Publisher, CLASSES, mutant)(settings, broker, host, once)


def make_subscriber(
    settings: Settings,
    broker: Address,
    host: str = LOCAL,
    words: Address | None = None,
    mutant: str | None = None,
) -> Subscriber:
    return choose("editor", "consumer", Subscriber, CLASSES, mutant)(settings, broker, host, words)


def make_storage(store: Store, port: int = STORAGE_PORT, mutant: str | None = None) -> Storage:
    return choose("editor", "storage", Storage, CLASSES, mutant)(store, port)


def _port(start: Start, default: int) -> int:
    text = start.flags.get("port", str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and 0 < int(text) < 65536):
        raise ValueError(f"-p: a port is a number from 1 to 65535, not {text!r}")
    return int(text)


def _broker_address(start: Start) -> Address:
    """From -h or -s with -p, which belong together, or from --broker."""
    host, port = start.flags.get("host"), start.flags.get("port")
    if start.broker is not None and (host, port) == (None, None):
        return start.broker
    if host is None or port is None:
        flag = "-s" if start.role == "consumer" else "-h"
        raise ValueError(f"expected {flag} HOST -p PORT, or --broker HOST")
    return start.resolve(host), _port(start, BROKER_PORT)


def _storage_address(start: Start) -> Address:
    text = start.flags.get("storage")
    if text is None:
        return start.services.get("storage", (LOCAL, STORAGE_PORT))
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal() and len(port) < 6 and 0 < int(port) < 65536):
        raise ValueError(f"--storage: expected HOST:PORT, not {text!r}")
    return start.resolve(host), int(port)


def _broker(start: Start) -> Program:
    if not start.driven and "port" not in start.flags:
        raise ValueError("expected -p PORT")
    return Program(
        make_broker(
            Settings.from_options(start.options), _storage_address(start), _port(start, BROKER_PORT), start.mutant
        )
    )


def _producer(start: Start) -> Program:
    """Its own command line publishes one article and ends; with --broker it asks what to publish."""
    settings = Settings.from_options(start.options)
    if start.broker is not None and not start.flags:
        core = make_publisher(settings, start.broker, start.own_host(start.broker), start.mutant)
        return Program(core, EditorDesk(core))
    if set(start.flags) != {"host", "port", "topic", "text"}:
        raise ValueError("expected -h HOST -p PORT -t TOPIC -m TEXT, or --broker HOST")
    topic, text = start.flags["topic"], start.flags["text"]
    warning = refusal("topic", topic) or refusal("text", text)
    if warning is not None:
        raise ValueError(warning)
    broker = _broker_address(start)
    return Program(make_publisher(settings, broker, start.own_host(broker), start.mutant, once=(topic, text)))


def _consumer(start: Start) -> Program:
    settings, broker = Settings.from_options(start.options), _broker_address(start)
    words = start.services.get("words")
    core = make_subscriber(settings, broker, start.own_host(broker), words, start.mutant)
    return Program(core, SubscriberDesk(core))


def _storage(start: Start) -> Program:
    default = next((one for one in FOLDERS if Path(one).is_dir()), ".")
    folder = Path(start.flags.get("folder", f"{default}/editor"))
    return Program(make_storage(Disk(folder), _port(start, STORAGE_PORT), start.mutant))


def _words(start: Start) -> Program:
    try:
        from lab.protocols.editor.spelling import spell
    except ImportError as error:
        raise ValueError(f"the words service cannot run here: {error}") from None
    return Program(Words(spell, _port(start, WORDS_PORT)))


ROLES = {
    "broker": Role(_broker, (OWN_PORT, STORAGE)),
    "producer": Role(_producer, (HOST, PORT, TOPIC, TEXT), also=("editor",)),
    "consumer": Role(_consumer, (SERVER, PORT), also=("subscriber",)),
    "storage": Role(_storage, (OWN_PORT, FOLDER)),
    "words": Role(_words, (OWN_PORT,), loads=("lab.protocols.editor.spelling",)),
}

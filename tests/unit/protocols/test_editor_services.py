"""The storage's RPC and disk, the words service's HTTP, SOAP and spelling: golden bytes, limits, and what survives."""

from __future__ import annotations

import re
import shutil
import sqlite3
from pathlib import Path
from xml.etree import ElementTree

import pytest
from editorlab import Shelf, spell

from lab.protocols.core import Abort, Close, Send
from lab.protocols.editor import http, rpc, soap
from lab.protocols.editor.disk import FILE, Disk
from lab.protocols.editor.rpc import Accepted, Article, BadXdr, Procedure, Reader, Records
from lab.protocols.editor.speaker import in_words, numbers_in
from lab.protocols.editor.spelling import spell as spell_english
from lab.protocols.editor.storage import Storage
from lab.protocols.editor.words import Words

PREPARE = "80000028 00000007 00000000 00000002 20004200 00000001 00000001 00000000 00000000 00000000 00000000"
PREPARED = "80000024 00000007 00000001 00000000 00000000 00000000 00000000 00000000 0000000000000001"
APPEND = (
    "8000004c 00000008 00000000 00000002 20004200 00000001 00000002 00000000 00000000 00000000 00000000"
    "0000000000000001 0000000000000002 00000005 7261696e21000000 00000003 61626300"
)
APPENDED = "8000001c 00000008 00000001 00000000 00000000 00000000 00000000 00000000"
LAST = "80000034 00000009 00000000 00000002 20004200 00000001 00000003 00000000 00000000 00000000 00000000"
FOUND = "80000024 00000009 00000001 00000000 00000000 00000000 00000000 00000000 00000003 61626300"


def storage(shelf: Shelf | None = None) -> Storage:
    core = Storage(shelf or Shelf())
    assert core.accepted("calls", ("10.0.3.2", 1), 0.0) == 0
    return core


def answers(core: Storage, data: bytes) -> bytes:
    core.receive_bytes(0, data, 0.0)
    return b"".join(action.data for action in core.actions_to_take(0.0) if isinstance(action, Send))


def test_golden_calls_and_replies_whole_and_byte_by_byte() -> None:
    last = LAST + "00000005 7261696e21000000"
    for size in (1, 7, 4096):
        core = storage()
        data = bytes.fromhex(PREPARE + APPEND + last)
        replies = b"".join(answers(core, data[at : at + size]) for at in range(0, len(data), size))
        assert replies == bytes.fromhex(PREPARED + APPENDED + FOUND)


def test_a_call_in_many_fragments() -> None:
    body = bytes.fromhex(PREPARE)[4:]
    pieces = [rpc.uints(5) + body[:5], rpc.uints(0), rpc.uints(0x80000000 | len(body) - 5) + body[5:]]
    assert answers(storage(), b"".join(pieces)) == bytes.fromhex(PREPARED)


def test_what_is_not_there_is_said_as_rpc_says_it() -> None:
    def call(version: int = 2, program: int = rpc.PROGRAM, of: int = 1, procedure: int = 1, more: bytes = b"") -> bytes:
        body = rpc.uints(1, 0, version, program, of, procedure, 0, 0, 0, 0) + more
        return answers(storage(), rpc.record(body))[4:]

    assert call(version=3) == rpc.uints(1, 1, 1, 0, 2, 2)
    accepted = {
        call(program=1): (Accepted.PROG_UNAVAIL,),
        call(of=9): (Accepted.PROG_MISMATCH, 1, 1),
        call(procedure=4): (Accepted.PROC_UNAVAIL,),
        call(procedure=1, more=b"1234"): (Accepted.GARBAGE_ARGS,),
        call(procedure=2, more=rpc.hyper(2**63) + rpc.hyper(1) + rpc.opaque(b"t") * 2): (Accepted.GARBAGE_ARGS,),
        call(procedure=0): (Accepted.SUCCESS,),
    }
    for found, expected in accepted.items():
        assert found == rpc.uints(1, 1, 0, 0, 0, *expected)


def test_a_record_that_is_too_long_ends_the_connection() -> None:
    core = storage()
    assert answers(core, rpc.uints(0x80000000 | 5000)) == b""
    core = storage()
    core.receive_bytes(0, rpc.uints(0x80000000 | 5000), 0.0)
    assert core.actions_to_take(0.0) == [Abort(0)]
    with pytest.raises(BadXdr):
        Records().feed((rpc.uints(1000) + bytes(1000)) * 5)


def test_a_connection_without_a_call_is_reset_and_one_with_calls_is_not() -> None:
    core = storage()
    core.handle_timer(core.get_timer() or 0.0)
    assert core.actions_to_take(0.0) == [Abort(0)]
    core = storage()
    answers(core, bytes.fromhex(PREPARE))
    assert core.get_timer() is None
    core.receive_bytes(0, bytes.fromhex(PREPARE)[:9], 50.0)
    assert core.get_timer() == 60.0


def test_the_description_says_what_the_code_does() -> None:
    text = (Path(rpc.__file__).with_name("storage.x")).read_text("utf-8")
    assert f"= 0x{rpc.PROGRAM:08x};" in text
    for procedure in list(Procedure)[1:]:
        assert re.search(rf"\b{procedure.name}\(.*\) = {procedure.value};", text)


def article(number: int, text: str = "rain", topic: str = "weather", session: int = 1) -> Article:
    return Article(session, number, topic.encode(), text.encode())


def test_what_is_on_disk_survives_and_a_repeated_article_is_kept_once(tmp_path: Path) -> None:
    first = Disk(tmp_path / "a" / "b")
    assert first.prepare() != first.prepare()
    first.append([article(1, "one"), article(2, "two"), article(1, "one")])
    first.append([article(2, "two")])
    second = Disk(tmp_path / "a" / "b")  # the first was never closed, as after kill -9
    second.append([article(1, "one"), article(1, "three", session=2)])
    assert second.last(b"weather") == b"three"
    assert second.last(b"news") is None
    rows = sqlite3.connect(tmp_path / "a" / "b" / FILE).execute("SELECT text FROM articles ORDER BY position")
    assert [row[0] for row in rows] == [b"one", b"two", b"three"]


def test_topics_are_no_file_names(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "articles")
    topics = ["../up", "/etc/passwd", "a\nb", ".", "", "x" * 128, "é", "con:"]
    disk.append([article(number, "text\nmore", topic) for number, topic in enumerate(topics)])
    assert [disk.last(topic.encode()) for topic in topics] == [b"text\nmore"] * len(topics)
    assert {path.name for path in tmp_path.iterdir()} == {"articles"}
    assert all(path.name.startswith(FILE) for path in (tmp_path / "articles").iterdir())


def test_a_deleted_folder_is_made_again(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "articles")
    disk.append([article(1)])
    shutil.rmtree(tmp_path / "articles")
    disk.prepare()
    assert disk.last(b"weather") is None
    disk.append([article(2, "sun")])
    assert disk.last(b"weather") == b"sun"


def test_a_disk_that_will_not_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for attempt in (Disk(tmp_path / "file").prepare, lambda: Disk(tmp_path / "file").append([article(1)])):
        with pytest.raises(OSError, match=r"exists|directory"):
            attempt()
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / FILE).write_bytes(b"this is no database at all" * 100)
    with pytest.raises(OSError, match="not a database"):
        Disk(tmp_path / "odd").append([article(1)])


def test_a_store_that_fails_is_answered_and_the_rest_goes_on() -> None:
    shelf = Shelf(broken=True)
    core = storage(shelf)
    found = answers(core, bytes.fromhex(PREPARE + APPEND))
    assert found[-4:] == rpc.uints(1)
    shelf.broken = False
    assert answers(core, bytes.fromhex(APPEND)) == bytes.fromhex(APPENDED)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("0", "zero"),
        ("7", "seven"),
        ("007", "seven"),
        ("+42", "forty-two"),
        ("-3.50", "minus three point five zero"),
        ("-0.5", "minus zero point five"),
        ("-0", "zero"),
        ("1234567", "one million, two hundred and thirty-four thousand, five hundred and sixty-seven"),
        ("0.1000000000000000055", "zero point one" + " zero" * 16 + " five five"),
    ],
)
def test_spelling(number: str, words: str) -> None:
    assert spell_english(number) == words


@pytest.mark.parametrize("number", ["", "x", "1e5", "1,000", "٣", "1.", ".5", "9" * 301, "0." + "1" * 301, "nan"])
def test_what_cannot_be_spelled(number: str) -> None:
    with pytest.raises(ValueError, match=r"number|name"):
        spell_english(number)


def test_only_whole_words_that_are_numbers_are_replaced() -> None:
    text = "7 x7 7x (7) 7, 7\t\t7\n 1e5 ١ 7.5 -7 +7 7.\u00a07"
    assert numbers_in(text) == ["7", "7", "7", "7.5", "-7", "+7", "7"]
    assert in_words(text, {"7": "N"}) == "N x7 7x (7) 7, N\t\tN\n 1e5 ١ 7.5 -7 +7 7.\u00a0N"


def exchange(data: bytes, size: int = 4096) -> tuple[list[http.Message], bool]:
    """What the service answers, and whether it ends the connection."""
    core = Words(spell)
    name = core.accepted("http", ("10.0.2.9", 1), 0.0)
    for at in range(0, len(data), size):
        core.receive_bytes(name, data[at : at + size], 0.0)
    actions = core.actions_to_take(0.0)
    sent = b"".join(action.data for action in actions if isinstance(action, Send))
    return http.Messages().feed(sent), any(isinstance(action, Close) for action in actions)


@pytest.mark.parametrize("size", [1, 4096])
def test_numbers_over_one_connection(size: int) -> None:
    ask = [http.request("/words", "w", soap.request(number), {}) for number in ("7", "9", "42")]
    found, ended = exchange(b"".join(ask), size)
    assert [one.status for one in found] == [200, 500, 200]
    assert [soap.read_answer(found[at].body) for at in (0, 2)] == ["seven", "forty-two"]
    assert b"<faultcode>soap:Client</faultcode><faultstring>there is no name for that" in found[1].body
    assert not ended


def test_the_wsdl_is_served_and_names_the_operation() -> None:
    found, ended = exchange(b"GET /words?wsdl HTTP/1.1\r\nHost: w\r\nConnection: close\r\n\r\n")
    assert found[0].body.decode() == soap.WSDL
    assert ended
    root = ElementTree.fromstring(soap.WSDL)
    ns = "{http://schemas.xmlsoap.org/wsdl/}"
    assert root.get("targetNamespace") == soap.NAMESPACE
    assert [one.get("name") for one in root.findall(f"{ns}portType/{ns}operation")] == ["NumberToWords"]
    assert soap.ACTION in soap.WSDL


@pytest.mark.parametrize(
    ("data", "status", "ends"),
    [
        (b"GET /other HTTP/1.1\r\n\r\n", 404, False),
        (b"PUT /words HTTP/1.1\r\n\r\n", 405, False),
        (b"POST /words HTTP/1.1\r\n\r\n", 411, True),
        (b"POST /words HTTP/1.1\r\nContent-Length: 99999\r\n\r\n", 413, True),
        (b"POST /words HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400, True),
        (b"POST /words HTTP/1.1\r\nno colon\r\n\r\n", 400, True),
        (b"A" * 9000, 431, True),
        (b"POST /words HTTP/1.0\r\nContent-Length: 2\r\n\r\nhm", 500, True),
        (http.request("/words", "w", b'<!DOCTYPE x [<!ENTITY y "z">]>' + soap.request("7"), {}), 500, False),
        (http.request("/words", "w", soap.answer("7"), {}), 500, False),
        (http.request("/words", "w", b"<x/>", {}), 500, False),
    ],
)
def test_what_the_service_refuses(data: bytes, status: int, ends: bool) -> None:
    found, ended = exchange(data)
    assert [one.status for one in found] == [status]
    assert ended == ends


def test_idle_connections_end() -> None:
    core = Words(spell)
    name = core.accepted("http", ("10.0.2.9", 1), 0.0)
    core.handle_timer(core.get_timer() or 0.0)
    assert core.actions_to_take(0.0) == [Close(name)]


def test_a_reader_keeps_to_its_bounds() -> None:
    for data in (rpc.uints(5) + b"abc", rpc.uints(2**32 - 1), b"\0\0"):
        with pytest.raises(BadXdr):
            Reader(data).opaque(100)
    with pytest.raises(BadXdr, match="behind"):
        Reader(b"1").end()

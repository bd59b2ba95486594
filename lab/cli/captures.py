"""`lab analyse --captures`: what the user gave, checked before anything is started."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import InputError
from lab.model.nodes import load_nodes
from lab.model.runfolder import RunFolder, new_run_id, writing
from lab.model.units import printable, shown
from lab.model.wire_tables import find_table

if TYPE_CHECKING:
    from lab.analysis.foreign.job import Given
    from lab.model.nodes import Nodes
    from lab.protocols.wire.table import Table

SCENARIO = "captures"
GZIP = b"\x1f\x8b"


def one_run(files: list[Path], protocol: str | None, nodes: Path | None) -> Path:
    """The run folder that is meant, or one error."""
    if protocol is not None or nodes is not None:
        given = "--protocol" if protocol is not None else "--nodes"
        hint = "lab analyse --captures FILE --protocol TABLE --nodes nodes.yaml"
        raise InputError(f"{given} is for captures: a run folder knows its own", expected="--captures", hint=hint)
    if len(files) != 1:
        hint = "for captures that the lab did not make: --captures FILE… --nodes nodes.yaml"
        what = "no run folder was named" if not files else f"{len(files)} run folders were named"
        raise InputError(what, expected="one run folder, such as runs/latest", hint=hint)
    return files[0]


def given_captures(files: list[Path], protocol: str | None, nodes: Path | None, runs: Path) -> Given:
    """Everything that the analysis of captures needs; its folder is made last, when nothing can be wrong any more."""
    from lab.analysis.foreign.job import Given

    if not files:
        raise InputError("no capture was named", expected="at least one file", hint="lab analyse --captures FILE…")
    if nodes is None:
        raise InputError(
            "who is who in the captures is not said",
            expected="--nodes FILE, a YAML file with the addresses of broker, producers and consumers",
            hint="README.md, 'Captures of others', has one to begin with",
        )
    for file in files:
        _check(file)
    names = [file.name for file in files]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two captures are called {shown(name)}", expected="a name for each", hint="rename one")
    table = None if protocol is None else find_table(protocol)
    who = load_nodes(nodes, names)
    _check_follow(who, table, printable(str(nodes)))
    folder = RunFolder.create(runs, SCENARIO, new_run_id())
    copy = folder.path / "nodes.yaml"
    with writing(copy):
        copy.write_text(who.text, encoding="utf-8", newline="")
    return Given(tuple(file.resolve() for file in files), table, who, folder)


def _check_follow(who: Nodes, table: Table | None, where: str) -> None:
    """What the nodes file says must be possible with the wire table that there is."""
    if table is None and any(node.topics is not None for node in who.nodes):
        what, hint = "topics are given, but without a wire table no message has one", "--protocol TABLE, or no topics"
        raise InputError(what, where=where, hint=hint)
    if who.follow == "content" and table is not None:
        what = "'follow: content' is for captures without a wire table"
        raise InputError(what, where=where, expected="marker or fields", hint="leave out --protocol, or follow")
    if who.follow == "fields" and (table is None or not table.follow.identity):
        what = "'follow: fields' needs a wire table that says which fields identify a message"
        raise InputError(what, where=where, hint="--protocol TABLE with follow: {identity: […]} in it")


def _check(file: Path) -> None:
    from lab.analysis.reading.classic import MAGIC
    from lab.analysis.reading.pcapng import SECTION

    where = printable(str(file))
    try:
        str(file.resolve()).encode()
        if not stat.S_ISREG(file.stat().st_mode):
            raise InputError("this is not a regular file", where=where, expected="a capture: pcap, pcapng, or gzip")
        with file.open("rb") as stream:
            begin = stream.read(4)
        if not any(begin.startswith(magic) for magic in (*MAGIC, SECTION, GZIP)):
            what = f"this is not a capture (it begins with {begin.hex(' ')})" if begin else "this file is empty"
            raise InputError(what, where=where, expected="a capture: pcap, pcapng, or gzip of one")
    except UnicodeEncodeError:
        raise InputError("the name of this file is not text in UTF-8", where=where, hint="rename it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        expected = "a capture: pcap, pcapng, or gzip of one"
        raise InputError(f"cannot be read: {reason}", where=where, expected=expected) from None

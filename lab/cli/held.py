"""`lab up`, `lab attach`, `lab tap`, `lab down`: a run that is held open while people play it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli import streams
from lab.cli.display import watcher
from lab.cli.main import Interrupted
from lab.cli.options import Json, Master, Quiet, Runs, Runtime, need_a_folder, tell_verdict

if TYPE_CHECKING:
    from lab.cli.terminal import Attachment
    from lab.orchestrate.held.place import Keeper

Of = Annotated[Path | None, typer.Option("--run", metavar="FOLDER", help="The run folder, if it is not runs/latest.")]
LONGEST_S = 24 * 3600.0
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def _at_most(text: str) -> float:
    number, unit = text[:-1], text[-1:]
    if unit not in UNITS or not number.isascii() or not number.isdecimal() or len(number) > 6:
        raise typer.BadParameter(f"{text!r} is no duration: expected a number with s, m or h, such as 90m")
    seconds = int(number) * UNITS[unit]
    if not 0 < seconds <= LONGEST_S:
        raise typer.BadParameter(f"{text!r}: expected more than nothing and at most 24h")
    return seconds


def up(
    scenario: Annotated[Path, typer.Argument(help="A scenario, such as scenarios/quickstart.yaml.")],
    seed: Annotated[int | None, typer.Option(min=0, max=2**32 - 1, help="Instead of the scenario's own.")] = None,
    runs: Runs = Path("runs"),
    runtime: Runtime = "auto",
    at_most: Annotated[
        str, typer.Option("--at-most", metavar="4h", help="It ends by itself after so long: 30s, 90m, 4h.")
    ] = "4h",
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but the run folder.")] = False,
) -> int:
    """Hold a scenario's network open, with taps and impairments on, to play its programs by hand.

    Then: lab attach consumer1 · lab tap consumer1 | wireshark -k -i - · lab down
    """
    from lab.orchestrate.held.start import Wish, hold_open
    from lab.report.held import print_up

    at_most_s = _at_most(at_most)
    need_a_folder()
    wish = Wish(scenario, runs.absolute(), seed, runtime, at_most_s)
    with watcher(silent=as_json or quiet) as progress:
        facts = hold_open(wish, progress)
    if as_json:
        typer.echo(json.dumps(facts, ensure_ascii=False))
    elif quiet:
        typer.echo(facts["folder"])
    else:
        print_up(facts, default=runs == Path("runs"))
    return 0


def attach(
    node: Annotated[str, typer.Argument(help="A node of the run that is held open, such as consumer1.")],
    run: Of = None,
    until: Annotated[
        str | None, typer.Option(metavar="TEXT", help="At the end of a file or pipe: go on until this was written.")
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option(min=0, max=LONGEST_S, metavar="SECONDS", help="At the end of a file or pipe: so long."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Only watch: leave typing to others.")] = False,
) -> int:
    """Join this terminal to a node's program. Ctrl-C or Ctrl-D leaves, and the program goes on."""
    from lab.cli.terminal import Attachment, Ending, put
    from lab.orchestrate.held.client import ask

    wire, answer = ask(_keeper(run), do="attach", node=node, type=not watch)
    attachment = Attachment(node, wire, Ending(until, wait), put, streams.say)
    try:
        with _left_by_ctrl_c():
            _attached(attachment, answer)
    finally:
        wire.close()
    return 0


def _attached(attachment: Attachment, answer: dict[str, object]) -> None:
    attachment.begin(answer)
    attachment.run()


def tap(
    node: Annotated[str, typer.Argument(metavar="NODE[@SUBNET]", help="Whose link; the broker has more than one.")],
    run: Of = None,
    file: Annotated[
        Path | None, typer.Option("--write", "-w", metavar="FILE", help="Into a file instead of standard output.")
    ] = None,
) -> int:
    """Stream a link's capture, live and from its first packet: lab tap consumer1 | wireshark -k -i -"""
    from lab.cli.tapping import copy, target
    from lab.orchestrate.held.client import ask

    keeper = _keeper(run)
    with _left_by_ctrl_c(), target(file) as number:
        wire, _ = ask(keeper, do="tap", link=node)
        try:
            copy(wire, number)
        finally:
            wire.close()
    return 0


def down(
    run: Of = None,
    no_verdict: Annotated[bool, typer.Option("--no-verdict", help="Do not judge it; `lab analyse` can later.")] = False,
    master: Master = "local[*]",
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Stop the programs, take everything down, and judge what was played."""
    from lab.analysis.background import SparkStart
    from lab.orchestrate.held.client import take_down
    from lab.orchestrate.session import analyse_run

    need_a_folder()
    keeper = _keeper(run)
    with watcher(silent=as_json or quiet) as progress:
        spark = None if no_verdict else SparkStart(master)
        take_down(keeper, progress)
        results = None if spark is None else analyse_run(keeper.run, progress, spark)
    if results is not None:
        return tell_verdict(results, keeper.run.path, as_json, quiet)
    folder = str(keeper.run.path)
    typer.echo(json.dumps({"folder": folder}) if as_json else f"run folder: {os.path.relpath(folder)}")
    return 0


def _keeper(run: Path | None) -> Keeper:
    from lab.orchestrate.held.place import find

    return find(run)


@contextlib.contextmanager
def _left_by_ctrl_c() -> Iterator[None]:
    """It is the usual way to leave; any other signal is told as one."""
    try:
        yield
    except Interrupted as stop:
        if str(stop) != "SIGINT":
            raise

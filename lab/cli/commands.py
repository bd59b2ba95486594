"""The commands, each a few lines over the layer that does the work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab import __version__
from lab.cli import held
from lab.cli.display import watcher
from lab.cli.main import CODES
from lab.cli.options import Json, Master, Quiet, Runs, Runtime, need_a_folder, tell_verdict
from lab.errors import InputError
from lab.model.runfolder import RunFolder

if TYPE_CHECKING:
    from lab.orchestrate.session import Request

app = typer.Typer(
    name="lab",
    help="A network lab for publish/subscribe protocols: run a scenario, get a verdict from the wire.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


for command in (held.up, held.attach, held.tap, held.down):
    app.command()(command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lab {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Exit codes: 0 pass, 1 fail, 2 unknown, 3 the lab, the host or the input is at fault."""


@app.command()
def run(
    scenario: Annotated[Path, typer.Argument(help="A scenario, such as scenarios/quickstart.yaml.")],
    seed: Annotated[int | None, typer.Option(min=0, max=2**32 - 1, help="Instead of the scenario's own.")] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="1..20", help="One run for each of these seeds, and a table of all.")
    ] = None,
    runs: Runs = Path("runs"),
    runtime: Runtime = "auto",
    master: Master = "local[*]",
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run a scenario and judge it."""
    from lab.orchestrate.session import Request, run_scenario

    need_a_folder()
    request = Request(scenario, runs, seed, master, runtime)
    if seeds is not None:
        return _run_seeds(request, seeds, as_json=as_json, quiet=quiet)
    with watcher(silent=as_json or quiet) as progress:
        judged = run_scenario(request, progress)
    return tell_verdict(judged.results, judged.folder.path, as_json, quiet)


def _run_seeds(request: Request, text: str, *, as_json: bool, quiet: bool) -> int:
    from lab.cli.seeds import read_seeds, run_seeds

    if request.seed is not None:
        raise InputError("--seed and --seeds cannot both be given", expected="one of them")
    return CODES[run_seeds(request, read_seeds(text), as_json=as_json, quiet=quiet)]


@app.command()
def analyse(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN | --captures FILE…", help="A run folder, such as runs/latest; or captures."),
    ] = None,
    captures: Annotated[
        bool, typer.Option("--captures", help="The files are captures that the lab did not make; needs --nodes.")
    ] = False,
    protocol: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="With --captures: a protocol of the lab, or a wire table by its path."),
    ] = None,
    nodes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --captures: who is who, by address and port.")
    ] = None,
    runs: Runs = Path("runs"),
    master: Master = "local[*]",
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Judge a run folder again, or captures that the lab did not make; needs neither Docker nor root."""
    from lab.analysis.background import SparkStart
    from lab.cli.captures import given_captures, one_run
    from lab.orchestrate.session import analyse_given, analyse_run

    need_a_folder()
    if not captures:
        opened = RunFolder.open(one_run(files or [], protocol, nodes))
        with watcher(silent=as_json or quiet) as progress:
            results = analyse_run(opened, progress, SparkStart(master))
        return tell_verdict(results, opened.path, as_json, quiet)
    given = given_captures(files or [], protocol, nodes, runs)
    with watcher(silent=as_json or quiet) as progress:
        results = analyse_given(given, progress, SparkStart(master))
    return tell_verdict(results, given.folder.path, as_json, quiet)


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Scenarios.")], as_json: Json = False
) -> int:
    """Validate scenarios without starting anything."""
    from lab.model.units import counted, printable
    from lab.orchestrate.session import load_checked

    faults = []
    for file in files:
        try:
            scenario, _ = load_checked(file)
        except InputError as error:
            faults.append(error)
            if not as_json:
                typer.echo(f"error: {error}", err=True)
        else:
            if not as_json:
                producers = counted(scenario.nodes.producers, "producer")
                consumers = counted(scenario.nodes.consumers, "consumer")
                typer.echo(f"{printable(str(file))}: ok ({producers}, {consumers})")
    if as_json:
        typer.echo(json.dumps({"checked": len(files), "errors": [fault.as_dict() for fault in faults]}))
    return 3 if faults else 0


@app.command()
def clean(as_json: Json = False) -> int:
    """Remove what runs that are no longer alive left behind, and nothing else."""
    from lab.orchestrate.clean import clean as clean_up

    done = clean_up()
    if as_json:
        facts = {
            "removed": done.removed,
            "ended": done.ended,
            "alive": list(done.alive),
            "not_judged": list(done.not_judged),
            "no_engine": done.no_engine,
            "kept": [error.as_dict() for error in done.kept],
        }
        typer.echo(json.dumps(facts))
        return 3 if done.kept else 0
    if done.no_engine:
        typer.echo(f"no containers were looked for: {done.no_engine}")
    for run_id, count in done.removed.items():
        typer.echo(f"removed {count} containers and networks of run {run_id}")
    for run_id, count in done.ended.items():
        typer.echo(f"ended {count} processes of run {run_id}, and with them its namespaces")
    for run_id in done.alive:
        typer.echo(f"left alone: run {run_id} is still under way")
    for run_id in done.not_judged:
        typer.echo(f"left alone: run {run_id} cannot be judged from here (another container, machine or version)")
    for error in done.kept:
        typer.echo(f"error: {error}", err=True)
    if not done.removed and not done.ended:
        others = done.no_engine or done.not_judged or done.kept
        typer.echo("nothing else was left behind" if others else "nothing was left behind")
    return 3 if done.kept else 0


@app.command()
def doctor(runs: Runs = Path("runs"), as_json: Json = False) -> int:
    """Find out what this machine has and lacks, and prove each runtime by starting it. Ends 0 if one works, else 3."""
    from lab.doctor.examine import examine
    from lab.report.doctor import as_document, print_report, telling

    need_a_folder()
    with telling(silent=as_json) as tell:
        report = examine(runs, tell)
    if as_json:
        typer.echo(json.dumps(as_document(report), ensure_ascii=False))
    else:
        print_report(report)
    return report.conclusion.exit_code


@app.command()
def protocols(
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="A protocol of the lab (rooms), or the path of your own wire table."),
    ] = None,
    as_json: Json = False,
    wireshark: Annotated[
        bool,
        typer.Option("--wireshark", help="Print a Wireshark dissector: lab protocols rooms --wireshark > rooms.lua"),
    ] = False,
    scapy: Annotated[
        bool, typer.Option("--scapy", help="Print a scapy module: lab protocols rooms --scapy > rooms_layer.py")
    ] = False,
) -> int:
    """List the protocols' wire tables, draw one, or export it.

    A wire table is a YAML file that says which messages a protocol has and which bytes their fields are. Without TABLE
    all tables of the lab are listed; with one its header is drawn and its fields and messages are explained. Begin your
    own with a copy of lab/protocols/tables/rooms.yaml.
    """
    from lab.cli.protocols import show

    wanted = {"json": as_json, "wireshark": wireshark, "scapy": scapy}
    show(table, [form for form, chosen in wanted.items() if chosen])
    return 0

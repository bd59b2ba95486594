"""Options that several commands have, and how several of them end. No work of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.main import CODES, this_command
from lab.errors import HostError
from lab.model.master import spark_master
from lab.model.results import Results, canonical
from lab.report.verdict import print_verdict
from lab.runtimes.choose import Wish

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but the verdict.")]
Runs = Annotated[Path, typer.Option("--runs", help="Where run folders are made.")]
Master = Annotated[str, typer.Option("--master", help="The Spark master that analyses.", callback=spark_master)]
Runtime = Annotated[
    Wish,
    typer.Option(
        "--runtime", help="Containers, or namespaces of this machine; auto: containers where an engine answers."
    ),
]


def need_a_folder() -> None:
    """Spark and the engine's client are started in the current folder, wherever the run is."""
    try:
        os.getcwd()
    except OSError as error:
        raise HostError(
            f"the current folder cannot be used: {error.strerror}",
            expected="a folder that is still there",
            hint="cd into one",
        ) from None


def tell_verdict(results: Results, folder: Path, as_json: bool, quiet: bool) -> int:
    if as_json:
        typer.echo(canonical(results), nl=False)
    elif quiet:
        typer.echo(results.verdict)
    else:
        print_verdict(results, folder, this_command())
    return CODES[results.verdict]

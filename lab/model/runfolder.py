"""The run folder: the only interface between running, analysing and reporting. Knows names of files, not their use."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lab.errors import HostError, InputError
from lab.model.plan import Message, Plan
from lab.model.units import printable


def new_run_id() -> str:
    """Sortable by time, unique among runs that start in the same second."""
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime()) + "-" + secrets.token_hex(3)


class RunFolder:
    """`runs/<scenario>/<run-id>/` and what lies where in it."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()

    @classmethod
    def create(cls, runs: Path, scenario: str, run_id: str) -> RunFolder:
        folder = cls(runs / scenario / run_id)
        try:
            for part in ("pcap", "logs"):
                (folder.path / part).mkdir(parents=True)
        except OSError as error:
            raise HostError(
                f"the run folder cannot be made: {error.strerror}", where=printable(str(folder.path)), hint="--runs DIR"
            ) from None
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        folder = cls(path)
        where, expected = printable(str(path)), "a folder that lab run has made"
        for name in ("plan.json", "manifest.json"):
            try:
                there = (folder.path / name).is_file()
            except OSError as error:
                raise InputError(f"cannot be opened: {error.strerror}", where=where, expected=expected) from None
            if not there:
                what = f"this is not a run folder: it has no {name}"
                raise InputError(what, where=where, expected=expected, hint="runs/latest is the newest one")
        return folder

    @property
    def scenario(self) -> Path:
        return self.path / "scenario.yaml"

    @property
    def compose(self) -> Path:
        return self.path / "compose.yaml"

    @property
    def manifest(self) -> Path:
        return self.path / "manifest.json"

    @property
    def pcaps(self) -> Path:
        return self.path / "pcap"

    @property
    def capture(self) -> Path:
        return self.path / "capture.pcapng"

    @property
    def relay(self) -> Path:
        """What the relay did to which packet, as it told it."""
        return self.path / "relay.jsonl"

    @property
    def results(self) -> Path:
        return self.path / "results.json"

    def log(self, node: str) -> Path:
        return self.path / "logs" / f"{node}.log"

    def write_scenario(self, text: str) -> None:
        with writing(self.scenario):
            self.scenario.write_text(text, encoding="utf-8", newline="")

    def write_plan(self, plan: Plan, messages: Iterable[Message]) -> None:
        write_json(self.path / "plan.json", plan.model_dump(mode="json"))
        file = self.path / "messages.jsonl"
        with writing(file), file.open("w", encoding="utf-8") as stream:
            for message in messages:
                stream.write(message.model_dump_json() + "\n")

    def read_plan(self) -> Plan:
        return Plan.model_validate_json((self.path / "plan.json").read_text(encoding="utf-8"))

    def read_messages(self) -> Iterator[Message]:
        with (self.path / "messages.jsonl").open(encoding="utf-8") as stream:
            for line in stream:
                yield Message.model_validate_json(line)

    def link_latest(self, runs: Path) -> None:
        """Let `runs/latest` point here; two runs that end together may race, the last one wins."""
        link = runs.resolve() / "latest"
        fresh = link.with_name(f".latest-{self.path.name}")
        try:
            fresh.symlink_to(os.path.relpath(self.path, link.parent))
            fresh.replace(link)
        except OSError:
            fresh.unlink(missing_ok=True)  # a file system without links has no `latest`; the path is printed

    def discard(self) -> None:
        """Remove a folder in which nothing has happened yet."""
        shutil.rmtree(self.path, ignore_errors=True)
        for parent in (self.path.parent, self.path.parent.parent):
            try:
                parent.rmdir()
            except OSError:
                return


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the file system refuses, as one clear error; half a file is not left."""
    try:
        yield
    except OSError as error:
        with contextlib.suppress(OSError):
            path.with_name(path.name + ".part").unlink()
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> HostError:
    return HostError(
        f"cannot be written: {error.strerror or error}",
        where=printable(str(path)),
        expected="a file system with room for a run",
        hint="make room, or --runs DIR elsewhere",
    )


def write_json(path: Path, value: Any) -> None:
    """Whole or not at all: a reader never sees half a file."""
    fresh = path.with_name(path.name + ".part")
    with writing(path):
        fresh.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        fresh.replace(path)

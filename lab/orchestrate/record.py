"""The manifest while it grows: what was really applied and what was noticed. Written even if the run breaks off."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab import __version__
from lab.model.plan import Plan, Step
from lab.model.runfolder import write_json
from lab.runtimes.base import HostLink

UNFINISHED = "the end of the run was not recorded: it was killed, or is still under way"


class Record:
    """Collects the manifest of one run."""

    def __init__(self, plan: Plan, runtime: str, reason: str) -> None:
        self._started = time.time_ns()
        self._monotonic = time.monotonic()
        self.value: dict[str, Any] = {
            "format": 1,
            "run_id": plan.run_id,
            "scenario": plan.scenario,
            "seed": plan.seed,
            "seed_honoured": False,
            "seed_reason": "the run did not come so far",
            "runtime": runtime,
            "runtime_reason": reason,
            "lab_version": __version__,
            "started": _iso(self._started),
            "duration_s": 0.0,
            "completed": False,
            "versions": {"host_python": platform.python_version()},
            "links": {},
            "clock": {"start": None, "end": None, "step_ms": None},
            "phases": [],
            "timeline": [],
            "faults": [],
            "nodes": {},
            "logs": {},
            "problems": [],
        }

    def versions(self, more: dict[str, str]) -> None:
        self.value["versions"].update(more)

    def links(self, plan: Plan, host: dict[str, HostLink], opened: dict[str, Any]) -> None:
        for link in plan.links:
            self.value["links"][link.name] = {
                "interface": opened[link.name]["interface"],
                "mac": host[link.name].mac,
                "address": link.address,
                "mtu": opened[link.name]["mtu"],
                "capture": {"file": f"pcap/{link.name}.pcap", "packets": None, "dropped": None},
                "backend": None,
                "backend_why": None,
                "impairments": [],
                "tc_dropped": None,
                "relay": None,
            }

    def backends(self, chosen: Mapping[str, tuple[str, str]]) -> None:
        for name, (backend, why) in chosen.items():
            self.value["links"][name].update(backend=backend, backend_why=why)

    def seed(self, honoured: bool, reason: str) -> None:
        """Whether another run with this seed hits the same packets."""
        self.value.update(seed_honoured=honoured, seed_reason=reason)

    def impaired(self, applied: dict[str, list[dict[str, Any]]]) -> None:
        for name, entries in applied.items():
            self.value["links"][name]["impairments"] += entries

    def counted(self, counts: dict[str, Any]) -> None:
        for name, count in counts.items():
            link = self.value["links"][name]
            link["capture"].update(packets=count["packets"], dropped=count["dropped"])
            link["tc_dropped"] = count["tc_dropped"]
            link["relay"] = count.get("relay")

    def faults(self, counts: list[dict[str, int]]) -> None:
        self.value["faults"] = counts

    def step(self, number: int, step: Step, asked_ns: int, done_ns: int, *, ok: bool, detail: str | None) -> None:
        """What the timeline did, and when it was done."""
        self.value["timeline"].append(
            {"step": number, "title": step.title, "at_s": step.at_s, "asked_ns": asked_ns, "done_ns": done_ns}
            | {"ok": ok, "detail": detail}
        )

    def clock(self, end: str, reading: dict[str, int]) -> None:
        clock = self.value["clock"]
        clock[end] = reading
        if clock["start"] and clock["end"]:
            offsets = [clock[one]["realtime_ns"] - clock[one]["monotonic_ns"] for one in ("start", "end")]
            clock["step_ms"] = round((offsets[1] - offsets[0]) / 1e6, 6)

    def phase(self, name: str, started_ns: int, **more: Any) -> None:
        self.value["phases"].append({"name": name, "started_ns": started_ns, "ended_ns": time.time_ns(), **more})

    def node(self, name: str, **facts: Any) -> None:
        self.value["nodes"][name] = facts

    def logs(self, written: dict[str, dict[str, Any]]) -> None:
        """What had been written to each log when it was closed: a log that was cut later is no program's fault."""
        self.value["logs"] = written

    def problem(self, text: str) -> None:
        self.value["problems"].append(text)

    def write_unfinished(self, path: Path) -> None:
        """What is known so far: if the run is killed, its folder can still be analysed."""
        write_json(path, {**self.value, "problems": [*self.value["problems"], UNFINISHED]})

    def write(self, path: Path, *, completed: bool) -> None:
        self.value["completed"] = completed
        self.value["duration_s"] = round(time.monotonic() - self._monotonic, 3)
        write_json(path, self.value)


def _iso(stamp_ns: int) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(stamp_ns // 1_000_000_000))
    return f"{whole}.{stamp_ns // 1000 % 1_000_000:06d}Z"

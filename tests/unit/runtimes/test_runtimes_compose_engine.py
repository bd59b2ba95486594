"""The compose runtime against a fake engine: what is removed, what is left alone, what is copied, what is told."""

from __future__ import annotations

import io
import tarfile
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, DockerException, NotFound
from requests.exceptions import ConnectionError as NoConnection
from run_plans import plan

from lab.errors import HostError, LeftoverError
from lab.runtimes import compose, owned
from lab.runtimes.base import ExitState

MINE, OTHERS = "20260131-235959-a1b2c3", "20260131-235959-ffffff"


def refusal(code: int) -> APIError:
    kind = NotFound if code == 404 else APIError
    return kind("no", SimpleNamespace(status_code=code, url="x", reason="no"), f"the engine says {code}")


class FakeEngine:
    """Things with labels, and what became of them. Also its own low-level side."""

    def __init__(self) -> None:
        self.api = self
        self.things: dict[str, dict[str, Any]] = {"container": {}, "network": {}, "volume": {}}
        self.gone: list[str] = []
        self.refuses: dict[str, APIError] = {}
        self.dead: Exception | None = None
        self.files: dict[str, bytes] | None = None
        self.state: dict[str, Any] = {}
        self.codes: dict[str, int | Exception] = {}  # how containers end that are waited for
        self.sweeps: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self._lock = threading.Lock()

    def add(self, kind: str, name: str, labels: dict[str, str]) -> None:
        self.things[kind][name] = {"Id": name, "Name": name, "Labels": labels, "ImageID": "sha256:fabric"}

    def add_run(self, run_id: str, owner: str) -> None:
        labels = {"brokerlab.run": run_id, "brokerlab.owner": owner}
        tail = run_id[-6:]
        for part in ("net", "fabric", "program"):
            self.add("container", f"{part}-{tail}", {**labels, "brokerlab.part": part})
        self.add("network", f"network-{tail}", labels)
        self.add("volume", f"volume-{tail}", labels)

    def _with(self, kind: str, filters: dict[str, str]) -> list[dict[str, Any]]:
        if self.dead:
            raise self.dead
        assert set(filters) == {"label"}
        name, equals, value = filters["label"].partition("=")
        things = list(self.things[kind].values())
        return [one for one in things if name in one["Labels"] and (not equals or one["Labels"][name] == value)]

    def containers(self, *, all: bool, filters: dict[str, str]) -> list[dict[str, Any]]:
        assert all, "stopped ones must be found too"
        return self._with("container", filters)

    def networks(self, *, filters: dict[str, str]) -> list[dict[str, Any]]:
        return self._with("network", filters)

    def volumes(self, *, filters: dict[str, str]) -> dict[str, Any]:
        return {"Volumes": self._with("volume", filters) or None}

    def _remove(self, kind: str, name: str) -> None:
        with self._lock:
            self.gone.append(name)
        if name in self.refuses:
            raise self.refuses[name]
        del self.things[kind][name]

    def remove_container(self, name: str, *, v: bool, force: bool) -> None:
        assert (v, force) == (True, True)
        self._remove("container", name)

    def wait(self, name: str, *, timeout: float) -> dict[str, int]:
        self.calls.append(f"wait {name}")
        code = self.codes.get(name, 0)
        if isinstance(code, Exception):
            raise code
        return {"StatusCode": code}

    def kill(self, name: str) -> None:
        self.calls.append(f"kill {name}")

    def create_host_config(self, **options: Any) -> dict[str, Any]:
        return options

    def create_container(self, image: str, command: list[str], **options: Any) -> dict[str, str]:
        if "create" in self.refuses:
            raise self.refuses["create"]
        self.sweeps.append({"image": image, "command": command, **options})
        self.add("container", "sweep", options["labels"])
        return {"Id": "sweep"}

    def start(self, name: str) -> None:
        assert name == "sweep"

    def logs(self, name: str) -> bytes:
        assert name == "sweep"
        return b"ip is not there\ninterfaces cannot be deleted: rel0\n"

    def remove_network(self, name: str) -> None:
        self._remove("network", name)

    def remove_volume(self, name: str) -> None:
        self._remove("volume", name)

    def get_archive(self, container: str, path: str) -> tuple[list[bytes], dict[str, Any]]:
        assert path == "/captures"
        if self.files is None:
            raise refusal(404)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            folder = tarfile.TarInfo("captures")
            folder.type = tarfile.DIRTYPE
            tar.addfile(folder)
            for name, data in self.files.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        whole = packed.getvalue()
        return [whole[:700], whole[700:]], {}

    def inspect_container(self, name: str) -> dict[str, Any]:
        assert name == f"brokerlab-{MINE}-producer1"
        return {"State": self.state}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owned, "REMOVE_PAUSE_S", 0.0)


@pytest.fixture
def engine() -> Any:
    fake = FakeEngine()
    fake.add_run(MINE, "boot:1:2")
    fake.add_run(OTHERS, "boot:3:4")
    fake.add("container", "web", {"brokerlab.owner": "somebody", "app": "shop"})
    fake.add("network", "bridge", {})
    fake.add("volume", "data", {"brokerlab.runs": MINE})
    return fake


def left(engine: FakeEngine) -> set[str]:
    return {name for things in engine.things.values() for name in things}


def test_a_run_is_removed_and_nothing_else(engine: Any) -> None:
    before = left(engine)
    assert owned.remove(engine, MINE) == 5
    assert before - left(engine) == {f"{part}-a1b2c3" for part in ("net", "fabric", "program", "network", "volume")}


def test_programs_go_before_the_networks_they_live_in(engine: Any) -> None:
    owned.remove(engine, MINE)
    order = [name.partition("-")[0] for name in engine.gone]
    assert order[0] == "program"
    assert order[3:] == ["network", "volume"]


def test_a_second_removal_finds_nothing(engine: Any) -> None:
    owned.remove(engine, MINE)
    engine.gone.clear()
    assert owned.remove(engine, MINE) == 0
    assert engine.gone == []


@pytest.mark.parametrize("code", [404, 409])
@pytest.mark.parametrize("part", ["program", "net", "network", "volume"])
def test_what_somebody_else_is_removing_does_not_stop_the_rest(engine: Any, code: int, part: str) -> None:
    name = f"{part}-a1b2c3"
    engine.refuses[name] = refusal(code)
    owned.remove(engine, MINE)
    assert {one for one in left(engine) if one.endswith("a1b2c3")} == {name}


def test_any_other_refusal_is_told(engine: Any) -> None:
    engine.refuses["network-a1b2c3"] = refusal(403)
    told = f"the engine does not let go of what run {MINE} had: the engine says 403"
    with pytest.raises(LeftoverError, match=told) as caught:
        owned.remove(engine, MINE)
    assert caught.value.hint == "restart the Docker engine, then: lab clean"


def test_what_the_engine_was_still_making_goes_too(engine: Any) -> None:
    engine.refuses["network-a1b2c3"] = refusal(403)  # has active endpoints, says the engine

    def network_gone(name: str) -> None:
        engine.refuses.clear()
        engine.add("container", "late-a1b2c3", {"brokerlab.run": MINE, "brokerlab.part": "net"})
        FakeEngine.remove_volume(engine, name)

    engine.refuses["volume-a1b2c3"] = refusal(409)
    engine.remove_volume = network_gone
    engine.things["network"].pop("network-a1b2c3")
    assert owned.remove(engine, MINE) == 5
    assert {one for one in left(engine) if one.endswith("a1b2c3")} == set()


FABRIC = "fabric-a1b2c3"


def test_a_fabric_that_ended_well_has_left_nothing_on_the_host(engine: Any) -> None:
    owned.remove(engine, MINE)
    assert engine.calls == [f"wait {FABRIC}"]
    assert engine.sweeps == []


@pytest.mark.parametrize("killed", [True, False])
def test_what_a_killed_fabric_left_on_the_host_is_swept_by_its_own_image(engine: Any, killed: bool) -> None:
    engine.codes[FABRIC] = 137 if killed else NoConnection("read timed out")
    assert owned.remove(engine, MINE) == 5
    assert engine.calls == [f"wait {FABRIC}", *([] if killed else [f"kill {FABRIC}"]), "wait sweep"]
    [sweep] = engine.sweeps
    assert sweep["image"] == "sha256:fabric"
    assert sweep["command"] == ["python3", "-m", "lab.capture.sweep", MINE]
    assert sweep["labels"] == {"brokerlab.run": MINE, "brokerlab.owner": "boot:1:2", "brokerlab.part": "sweep"}
    rights = sweep["host_config"]
    assert (rights["network_mode"], rights["cap_drop"], rights["cap_add"]) == ("host", ["ALL"], ["NET_ADMIN"])
    order = [name.partition("-")[0] for name in engine.gone]
    assert order == ["program", "net", "sweep", "fabric", "network", "volume"]
    assert {one for one in left(engine) if one.endswith("a1b2c3") or one == "sweep"} == set()


def test_a_sweep_that_somebody_left_is_removed_before_the_next(engine: Any) -> None:
    engine.codes[FABRIC] = 137
    engine.add("container", "old-sweep", {"brokerlab.run": MINE, "brokerlab.part": "sweep"})
    owned.remove(engine, MINE)
    assert engine.gone.index("old-sweep") < engine.gone.index("sweep")


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ({"sweep": 3}, "interfaces cannot be deleted: rel0"),
        ({"sweep": NoConnection("read timed out")}, "it took more than 20 s"),
        ({"create": 404}, "the engine says 404"),
    ],
)
def test_what_could_not_be_swept_is_told_when_all_the_rest_is_gone(engine: Any, broken: Any, told: str) -> None:
    engine.codes |= {FABRIC: 137, "sweep": broken.get("sweep", 0)}
    engine.refuses |= {name: refusal(code) for name, code in broken.items() if name == "create"}
    with pytest.raises(LeftoverError) as caught:
        owned.remove(engine, MINE)
    assert caught.value.what == f"interfaces of run {MINE} may be left on the engine's host: {told}"
    assert f"brokerlab:{MINE}" in (caught.value.hint or "")
    assert {one for one in left(engine) if one.endswith("a1b2c3") or one == "sweep"} == set()


def test_without_a_fabric_nothing_is_swept(engine: Any) -> None:
    del engine.things["container"][FABRIC]
    owned.remove(engine, MINE)
    assert (engine.calls, engine.sweeps) == ([], [])


def test_a_fabric_that_somebody_else_removes_is_theirs(engine: Any) -> None:
    engine.codes[FABRIC] = refusal(404)
    assert owned.remove(engine, MINE) == 5
    assert engine.sweeps == []


def test_runs_are_found_by_anything_they_left(engine: Any) -> None:
    del engine.things["container"]["net-ffffff"]
    for part in ("fabric", "program"):
        del engine.things["container"][f"{part}-ffffff"]
    assert owned.runs_of_ours(engine) == {MINE: "boot:1:2", OTHERS: "boot:3:4"}
    owned.remove(engine, OTHERS)
    assert owned.runs_of_ours(engine) == {MINE: "boot:1:2"}


def test_a_run_without_an_owner_is_nobodys(engine: Any) -> None:
    engine.add("container", "old", {"brokerlab.run": "r"})
    assert owned.runs_of_ours(engine)["r"] == ""


@pytest.mark.parametrize("error", [DockerException("gone"), NoConnection("gone"), OSError("gone")])
def test_an_engine_that_is_gone_is_the_hosts_fault(engine: Any, error: Exception) -> None:
    engine.dead = error
    for call in (owned.runs_of_ours, lambda client: owned.remove(client, MINE)):
        with pytest.raises(HostError, match=r"the engine failed while .*: gone"):
            call(engine)


def test_captures_are_copied_by_their_bare_names(engine: Any, tmp_path: Path) -> None:
    (tmp_path / "pcap").mkdir()
    engine.files = {"captures/a@x.pcap": b"a" * 900, "captures/../../b@x.pcap": b"b"}
    owned.fetch_folder(engine, "fabric", tmp_path / "pcap")
    found = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*.pcap")}
    assert found == {"pcap/a@x.pcap": b"a" * 900, "pcap/b@x.pcap": b"b"}


def test_a_fabric_without_captures_is_no_error(engine: Any, tmp_path: Path) -> None:
    owned.fetch_folder(engine, "fabric", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"Running": True, "ExitCode": 0, "OOMKilled": False, "Error": ""}, ExitState(True, None, None)),
        ({"Running": False, "ExitCode": 1, "OOMKilled": False, "Error": ""}, ExitState(False, 1, None)),
        (
            {"Running": False, "ExitCode": 137, "OOMKilled": True, "Error": ""},
            ExitState(False, 137, "ended by the kernel: out of memory"),
        ),
        ({"Running": False, "ExitCode": 127, "Error": "no such file"}, ExitState(False, 127, "no such file")),
    ],
)
def test_how_a_program_stands(engine: Any, state: dict[str, Any], expected: ExitState) -> None:
    engine.state = state
    runtime = compose.ComposeRuntime(engine, MINE)
    assert runtime.state(plan().nodes[1]) == expected


def test_networks_of_the_engine_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    configs: list[Any] = [
        {"Config": [{"Subnet": "172.20.0.0/16"}, {"Subnet": "fd00::/64"}]},
        {"Config": None},
        None,
        {"Config": [{}]},
    ]
    networks = [SimpleNamespace(name=f"n{n}", attrs={"IPAM": one}) for n, one in enumerate(configs)]
    engine: Any = SimpleNamespace(networks=SimpleNamespace(list=lambda: networks))
    monkeypatch.setattr(compose, "host_routes", lambda: {"192.0.2.0/24": "a route"})
    taken = compose.ComposeRuntime(engine, MINE).taken_subnets()
    assert taken == {"192.0.2.0/24": "a route", "172.20.0.0/16": "the Docker network n0"}

"""The run folder: made, opened, linked, discarded; what is written in it is read back."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from modelkit import ROOT, plan_of

from lab.errors import HostError, InputError
from lab.model.planner import make_messages
from lab.model.runfolder import RunFolder, new_run_id, write_json


def made(runs: Path, run_id: str = "20260101-000000-abcdef") -> RunFolder:
    folder = RunFolder.create(runs, "test", run_id)
    write_json(folder.manifest, {})
    folder.write_plan(plan_of(), [])
    return folder


def test_run_ids_are_sortable_names_and_differ() -> None:
    ids = [new_run_id() for _ in range(100)]
    assert all(re.fullmatch(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}", one) for one in ids)
    assert len(set(ids)) == 100


def test_a_new_folder_has_places_for_captures_and_logs(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "runs", "test", "id")
    assert folder.path == tmp_path / "runs" / "test" / "id"
    assert folder.pcaps.is_dir()
    assert folder.log("broker").parent.is_dir()
    assert folder.log("broker").name == "broker.log"


def test_names_of_files(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    names = [path.name for path in (folder.scenario, folder.compose, folder.manifest, folder.capture, folder.results)]
    assert names == ["scenario.yaml", "compose.yaml", "manifest.json", "capture.pcapng", "results.json"]


def test_a_run_never_writes_into_another_one(tmp_path: Path) -> None:
    RunFolder.create(tmp_path, "test", "id")
    with pytest.raises(HostError, match="cannot be made: File exists") as caught:
        RunFolder.create(tmp_path, "test", "id")
    assert caught.value.hint == "--runs DIR"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(HostError, match="cannot be made: Not a directory"):
        RunFolder.create(tmp_path / "runs", "test", "id")


def test_a_finished_folder_is_opened(tmp_path: Path) -> None:
    assert RunFolder.open(made(tmp_path).path).path == tmp_path / "test" / "20260101-000000-abcdef"


@pytest.mark.parametrize("missing", ["plan.json", "manifest.json"])
def test_a_folder_without_its_facts_is_not_opened(tmp_path: Path, missing: str) -> None:
    folder = made(tmp_path)
    (folder.path / missing).unlink()
    with pytest.raises(InputError) as caught:
        RunFolder.open(folder.path)
    assert caught.value.what == f"this is not a run folder: it has no {missing}"
    assert caught.value.hint == "runs/latest is the newest one"


def test_a_path_that_is_no_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(InputError, match="this is not a run folder"):
            RunFolder.open(path)


def test_plan_and_messages_are_read_back(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "test", "id")
    plan = plan_of(title="Räume – 100 %", workload="{topics: 2, messages: 10}")
    messages = make_messages(plan)
    folder.write_plan(plan, messages)
    assert folder.read_plan() == plan
    assert list(folder.read_messages()) == messages
    assert "Räume" in (folder.path / "plan.json").read_text("utf-8")


def test_latest_follows_the_newest_run(tmp_path: Path) -> None:
    first, second = made(tmp_path, "a"), made(tmp_path, "b")
    first.link_latest(tmp_path)
    assert (tmp_path / "latest").resolve() == first.path
    second.link_latest(tmp_path)
    assert (tmp_path / "latest").resolve() == second.path
    assert not os.path.isabs(os.readlink(tmp_path / "latest")), "the runs could not be moved"
    assert RunFolder.open(tmp_path / "latest").path == second.path
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "test"]


def test_where_no_link_can_be_made_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "latest").mkdir()
    made(tmp_path).link_latest(tmp_path)
    assert (tmp_path / "latest").is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "test"]


def test_a_discarded_run_leaves_nothing(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "runs", "test", "id").discard()
    assert list(tmp_path.iterdir()) == []


def test_a_discarded_run_leaves_others_alone(tmp_path: Path) -> None:
    other = made(tmp_path / "runs", "other")
    RunFolder.create(tmp_path / "runs", "test", "id").discard()
    assert RunFolder.open(other.path)


def test_json_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"a": "ä"})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text("utf-8")) == {"a": "ä"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    program = """
        import os
        from pathlib import Path
        from lab.errors import HostError
        from lab.model.runfolder import RunFolder
        if os.geteuid() == 0:  # root may write everywhere
            os.seteuid(65534)
        try:
            RunFolder.create(Path("runs"), "test", "id")
        except HostError as error:
            print(error.what)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "the run folder cannot be made: Permission denied\n"


def test_what_the_file_system_refuses_is_one_clear_error(tmp_path: Path) -> None:
    place = tmp_path / "evil\x1b[31m"
    place.mkdir()
    (place / "a.json").mkdir()  # the file cannot take its place
    with pytest.raises(HostError, match="cannot be written: Is a directory") as caught:
        write_json(place / "a.json", {})
    assert caught.value.where == f"{tmp_path}/evil\\x1b[31m/a.json"
    assert [entry.name for entry in place.iterdir()] == ["a.json"], "half a file was left"


def test_a_name_cannot_give_orders_to_the_terminal(tmp_path: Path) -> None:
    for do in (RunFolder.open, lambda path: RunFolder.create(path, "test", "id")):
        (tmp_path / "evil\x1b[31m").touch()
        with pytest.raises((InputError, HostError)) as caught:
            do(tmp_path / "evil\x1b[31m")
        assert "\x1b" not in str(caught.value)

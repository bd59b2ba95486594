"""What a path may lead to: a scenario's text, or one clear error, without waiting and without filling the memory."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import tracemalloc
from pathlib import Path

import pytest
from modelkit import ROOT, text_of

from lab.errors import InputError
from lab.model.document import MAX_BYTES, read_text


def refusal(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        read_text(path)
    return caught.value


def test_a_missing_file_names_the_one_beside_it(tmp_path: Path) -> None:
    (tmp_path / "quickstart.yaml").write_text(text_of())
    error = refusal(tmp_path / "quikstart.yaml")
    assert error.what == "there is no such file"
    assert error.hint == str(tmp_path / "quickstart.yaml")


@pytest.mark.parametrize("name", ["nothing-like-it.yaml", "no/such/folder.yaml", "x" * 5000, "nul\0.yaml"])
def test_a_path_that_leads_nowhere(tmp_path: Path, name: str) -> None:
    error = refusal(tmp_path / name)
    assert error.what.startswith(("there is no such file", "cannot be read: "))
    assert error.hint is None


def test_a_file_used_as_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text_of())
    assert refusal(tmp_path / "a.yaml" / "b.yaml").what == "cannot be read: Not a directory"


def test_a_directory(tmp_path: Path) -> None:
    assert refusal(tmp_path).what == "this is a directory"
    assert refusal(tmp_path).hint is None
    (tmp_path / "b.yaml").touch()
    (tmp_path / "a.yaml").touch()
    assert refusal(tmp_path).hint == f"name a file in it, such as {tmp_path / 'a.yaml'}"


@pytest.mark.usefixtures("no_hang")
def test_a_pipe_without_a_writer_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    assert refusal(tmp_path / "pipe.yaml").what == "this is not a regular file"


@pytest.mark.usefixtures("no_hang")
def test_a_pipe_of_the_shell_is_not_waited_for() -> None:
    reader, writer = os.pipe()
    try:
        assert refusal(Path(f"/dev/fd/{reader}")).what == "this is not a regular file"
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.usefixtures("no_hang")
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device_is_not_read(device: str) -> None:
    assert refusal(Path(device)).what == "this is not a regular file"


def test_a_link_that_leads_to_itself(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to("a.yaml")
    assert refusal(tmp_path / "a.yaml").what.startswith("cannot be read: ")


def test_a_link_to_a_scenario_is_as_good_as_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text_of())
    (tmp_path / "b.yaml").symlink_to("a.yaml")
    assert read_text(tmp_path / "b.yaml") == text_of()


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text(text_of())
    (tmp_path / "secret.yaml").chmod(0)
    tmp_path.chmod(0o755)
    program = """
        import os
        from pathlib import Path
        from lab.errors import InputError
        from lab.model.document import read_text
        if os.geteuid() == 0:  # root may read everything
            os.seteuid(65534)
        try:
            read_text(Path("secret.yaml"))
        except InputError as error:
            print(error)
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
    assert done.stdout == "secret.yaml: you may not read this file\n  try: chmod u+r secret.yaml\n"


@pytest.mark.usefixtures("no_hang")
def test_a_file_of_50_megabytes_is_refused_without_being_read(tmp_path: Path) -> None:
    with (tmp_path / "large.yaml").open("wb") as stream:
        stream.write(b"- x\n" * 12_500_000)
    tracemalloc.start()
    try:
        error = refusal(tmp_path / "large.yaml")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (error.what, error.expected) == ("too large for a scenario", "at most 200,000 bytes")
    assert peak < 2_000_000


def test_the_largest_file_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "full.yaml"
    path.write_bytes(b"#" * MAX_BYTES)
    assert len(read_text(path)) == MAX_BYTES
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    assert refusal(path).what == "too large for a scenario"


def test_a_name_with_control_characters_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    error = refusal(tmp_path / "a\x1b[2J\nb.yaml")
    assert error.where is not None
    assert error.where.endswith(r"a\x1b[2J\nb.yaml")


@pytest.mark.parametrize(
    ("raw", "what", "line"),
    [
        (b"name: a\ntitle: \xff\xfe\n", "this is not text in UTF-8", 2),
        (b"\x7fELF\x02\x01\x01\x00\x90\x80", "this is not text in UTF-8", 1),
        (text_of().encode("utf-16"), "this is text in UTF-16", 1),
        ("title: Räume\n".encode("latin-1"), "this is not text in UTF-8", 1),
        (b"a: 1\nb: \xed\xa0\x80\n", "this is not text in UTF-8", 2),
    ],
)
def test_bytes_that_are_not_utf8(tmp_path: Path, raw: bytes, what: str, line: int) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(raw)
    error = refusal(path)
    assert (error.what, error.where) == (what, f"{path}:{line}")
    assert error.hint == "save the file as UTF-8 in your editor"

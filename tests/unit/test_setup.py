"""Set-up and make, tried in a small copy of the repository on a machine that is pretended by its PATH.

No root, no network: the machine's python3, apt-get and id are small scripts that write down their calls.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = """
awk cat chmod cp cut dirname echo env flock head make mkdir mktemp mv readlink rm sed sh sha256sum tail touch
xargs
"""

PYTHON = """\
#!/bin/sh
case "$1 $2" in
  "-c "*) exec "{real}" "$@" ;;
  "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m pip")
    echo "$@ TARGET=${{PIP_TARGET-}} USER=$PIP_USER INDEX=${{PIP_INDEX_URL-}}" >>"{log}"
    [ ! -e "{log}.fail" ] || exit 1
    case "$*" in *--editable*) echo lab >"$(dirname "$0")/lab"; chmod +x "$(dirname "$0")/lab" ;; esac ;;
esac
"""
OLD_PYTHON = '#!/bin/sh\ncase "$1" in -c) exit 1 ;; -V) echo Python 3.9.2 ;; esac\n'
APT_GET = """\
#!/bin/sh
echo "$DEBIAN_FRONTEND $*" >>"{log}"
case "$*" in *" install "*) touch "{bin}/tshark"; chmod +x "{bin}/tshark"; cp "{bin}/ip" "{bin}/java" ;; esac
"""
APT_CACHE = '#!/bin/sh\ncase " {known} " in *" $2 "*) echo "Version: {version}" ;; *) exit 1 ;; esac\n'
JAVA_17 = "#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n"


class Machine:
    """A pretended machine and a copy of the repository on it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a copy"
        self.bin = folder / "bin"
        self.log = folder / "calls.log"
        self.bin.mkdir(parents=True)
        (self.root / ".ci").mkdir(parents=True)
        for name in (".ci/setup", "pyproject.toml", "requirements.lock", "Makefile"):
            shutil.copy(ROOT / name, self.root / name)
        for tool in TOOLS.split():
            found = shutil.which(tool)
            assert found, tool
            (self.bin / tool).symlink_to(found)
        self.put("python3", PYTHON.format(real=sys.executable, log=self.log))
        self.put("ip", JAVA_17)  # only its being there matters; apt-get makes java of it
        self.put("tc", "#!/bin/sh\n")
        self.put("java", JAVA_17)
        self.put("id", "#!/bin/sh\necho 1000\n")
        self.put("apt-get", APT_GET.format(log=self.log, bin=self.bin))
        self.knows("openjdk-17-jre-headless tshark python3")

    def put(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def lacks(self, name: str) -> None:
        (self.bin / name).unlink()

    def knows(self, packages: str, version: str = "3.11.2-1") -> None:
        self.put("apt-cache", APT_CACHE.format(known=packages, version=version))

    def environment(self, **more: str) -> dict[str, str]:
        return {"PATH": str(self.bin), "HOME": str(self.root), "TMPDIR": str(self.bin.parent), **more}

    def setup(self, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.root / ".ci/setup"), *args],
            env=self.environment(**more),
            cwd="/",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def calls(self) -> list[str]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_makes_the_environment_from_the_lock_and_nothing_else(machine: Machine) -> None:
    done = machine.setup()
    assert (done.returncode, done.stderr) == (0, "")
    tools, everything, project = machine.calls()
    assert "--require-hashes --no-deps -r" in tools
    assert "build.lock" in tools
    assert "--require-hashes --no-deps --no-build-isolation -r" in everything
    assert "requirements.lock" in everything
    assert "--no-deps --no-build-isolation --no-index --editable ." in project


def test_build_tools_are_the_locks_own_lines(machine: Machine) -> None:
    machine.setup()
    lines = (machine.root / ".venv/build.lock").read_text().splitlines()
    names = [line.split("==")[0] for line in lines if not line.startswith(" ")]
    assert names == ["packaging", "setuptools", "wheel"]
    assert sum("--hash=sha256:" in line for line in lines) >= 3


def test_second_call_does_nothing_and_says_nothing(machine: Machine) -> None:
    machine.setup()
    machine.calls()
    done = machine.setup()
    assert (done.returncode, done.stdout, done.stderr, machine.calls()) == (0, "", "", [])


def test_a_changed_lock_makes_it_anew(machine: Machine) -> None:
    machine.setup()
    machine.calls()
    (machine.root / ".venv/leftover").touch()
    with (machine.root / "requirements.lock").open("a") as lock:
        lock.write("# changed\n")
    assert "making .venv anew" in machine.setup().stdout
    assert len(machine.calls()) == 3
    assert not (machine.root / ".venv/leftover").exists()


def test_a_changed_project_file_installs_only_the_project(machine: Machine) -> None:
    machine.setup()
    machine.calls()
    with (machine.root / "pyproject.toml").open("a") as project:
        project.write("# changed\n")
    machine.setup()
    (call,) = machine.calls()
    assert "--editable" in call
    assert machine.setup().stdout == ""


@pytest.mark.parametrize("broken", ["bin/python", "bin/lab", ".complete"])
def test_a_broken_environment_is_repaired(machine: Machine, broken: str) -> None:
    machine.setup()
    (machine.root / ".venv" / broken).unlink()
    done = machine.setup()
    assert done.returncode == 0
    assert "ready" in done.stdout
    assert (machine.root / ".venv" / broken).exists()
    assert machine.setup().stdout == ""


def test_a_moved_copy_is_made_anew(machine: Machine) -> None:
    machine.setup()
    machine.root = machine.root.rename(machine.root.with_name("moved copy"))
    assert "making .venv anew" in machine.setup().stdout


def test_a_failed_install_never_counts_as_done(machine: Machine) -> None:
    fail = machine.log.with_name("calls.log.fail")
    fail.touch()
    done = machine.setup()
    assert done.returncode == 3
    assert "pip could not install" in done.stderr
    assert not (machine.root / ".venv/.complete").exists()
    fail.unlink()
    assert "making .venv anew" in machine.setup().stdout


def test_pip_settings_that_would_mislead_are_dropped_and_mirrors_kept(machine: Machine) -> None:
    machine.setup(PIP_TARGET="/elsewhere", PIP_USER="1", PIP_INDEX_URL="http://mirror.example/simple")
    for call in machine.calls():
        assert call.endswith("TARGET= USER=0 INDEX=http://mirror.example/simple")


def test_without_java_and_root_the_command_is_printed(machine: Machine) -> None:
    machine.lacks("java")
    done = machine.setup()
    assert done.returncode == 3
    command = "sudo apt-get install -y --no-install-recommends openjdk-17-jre-headless\n"
    assert done.stderr.endswith(f"type:  sudo apt-get update && {command}")
    assert machine.calls() == []
    assert not (machine.root / ".venv").exists()


def test_the_newest_java_is_taken_where_17_is_gone(machine: Machine) -> None:
    machine.lacks("java")
    machine.knows("openjdk-21-jre-headless")
    assert "--no-install-recommends openjdk-21-jre-headless\n" in machine.setup().stderr


def test_as_root_missing_packages_are_installed_at_once(machine: Machine) -> None:
    machine.lacks("java")
    machine.put("id", "#!/bin/sh\necho 0\n")
    done = machine.setup("--test")
    assert (done.returncode, done.stderr) == (0, "")
    assert "installing system packages: openjdk-17-jre-headless tshark" in done.stdout
    apt = [call for call in machine.calls() if call.startswith("noninteractive")]
    assert len(apt) == 1
    assert apt[0].endswith("install -y -q --no-install-recommends openjdk-17-jre-headless tshark")


def test_package_lists_are_refreshed_when_they_do_not_know_a_package(machine: Machine) -> None:
    machine.lacks("java")
    machine.put("id", "#!/bin/sh\necho 0\n")
    machine.knows("")
    assert machine.setup().returncode == 0
    apt = [call.split("=300 ")[1] for call in machine.calls() if call.startswith("noninteractive")]
    assert apt == ["update -q", "install -y -q --no-install-recommends openjdk-17-jre-headless"]


def test_tshark_is_only_asked_for_by_the_tests(machine: Machine) -> None:
    assert machine.setup().returncode == 0
    done = machine.setup("--test")
    assert done.returncode == 3
    assert done.stderr.endswith("--no-install-recommends tshark\n")


def with_tshark(machine: Machine, known: str, user: int) -> Machine:
    machine.put("tshark", "#!/bin/sh\n")
    machine.put("id", f"#!/bin/sh\necho {user}\n")
    machine.knows(known)
    return machine


def test_a_guest_for_the_tests_is_installed_as_root(machine: Machine) -> None:
    done = with_tshark(machine, "user-mode-linux", 0).setup("--test")
    assert (done.returncode, done.stderr) == (0, "")
    assert machine.calls()[0].endswith("install -y -q --no-install-recommends user-mode-linux")
    machine.put("linux.uml", "#!/bin/sh\n")
    assert machine.setup("--test").stdout == ""
    assert machine.calls() == []


@pytest.mark.parametrize(
    ("known", "user", "told"),
    [
        ("user-mode-linux", 1000, "type:  sudo apt-get install -y --no-install-recommends user-mode-linux"),
        ("tshark", 1000, "user-mode-linux cannot be had here; the tests that need it are skipped"),
        ("tshark", 0, "user-mode-linux cannot be had here; the tests that need it are skipped"),
    ],
)
def test_a_guest_that_is_missing_stops_nothing(machine: Machine, known: str, user: int, told: str) -> None:
    done = with_tshark(machine, known, user).setup("--test")
    assert (done.returncode, done.stderr) == (0, "")
    assert told in done.stdout
    assert not [call for call in machine.calls() if "apt-get" in call or "install -y" in call]
    assert machine.setup().stdout == "", "only the tests want it"


def test_a_guest_that_cannot_be_installed_stops_nothing(machine: Machine) -> None:
    with_tshark(machine, "user-mode-linux", 0).put("apt-get", "#!/bin/sh\necho 'no network'\nexit 100\n")
    done = machine.setup("--test")
    assert (done.returncode, done.stderr) == (0, "no network\nno network\n")
    assert "that failed; the tests that need it are skipped" in done.stdout


def test_java_home_is_respected(machine: Machine, tmp_path: Path) -> None:
    machine.lacks("java")
    home = tmp_path / "jvm 21"
    (home / "bin").mkdir(parents=True)
    (home / "bin/java").write_text("#!/bin/sh\nexit 9\n")  # its release file answers, it is not started
    (home / "bin/java").chmod(0o755)
    (home / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="21.0.2"\n')
    assert machine.setup(JAVA_HOME=str(home)).returncode == 0


def test_an_old_java_home_is_named(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "bin8/bin").mkdir(parents=True)
    shutil.copy(machine.bin / "java", tmp_path / "bin8/bin/java")
    (tmp_path / "bin8/release").write_text('JAVA_VERSION="1.8.0_392"\n')
    done = machine.setup(JAVA_HOME=str(tmp_path / "bin8"))
    assert done.returncode == 3
    assert f"JAVA_HOME={tmp_path}/bin8 is no Java 17 or newer" in done.stderr


@pytest.mark.parametrize(
    ("version", "packages"),
    [("3.11.2-1+b1", "python3 python3-venv"), ("3.10.6-1", "python3.12 python3.12-venv")],
)
def test_an_old_python_asks_for_a_newer_one(machine: Machine, version: str, packages: str) -> None:
    machine.put("python3", OLD_PYTHON)
    machine.knows("python3 python3.12 python3.11", version)
    done = machine.setup()
    assert done.returncode == 3
    assert done.stderr.endswith(f"--no-install-recommends {packages}\n")


def test_a_python_without_venv_asks_for_its_venv_package(machine: Machine) -> None:
    body = PYTHON.format(real=sys.executable, log=machine.log)
    machine.put("python3", body.replace("#!/bin/sh\n", '#!/bin/sh\ncase "$*" in *ensurepip*) exit 1 ;; esac\n'))
    major, minor = sys.version_info[:2]
    assert machine.setup().stderr.endswith(f"--no-install-recommends python{major}.{minor}-venv\n")


def test_another_python_can_be_chosen(machine: Machine) -> None:
    machine.put("snake", (machine.bin / "python3").read_text())
    machine.put("python3", OLD_PYTHON)
    assert machine.setup(PYTHON="snake").returncode == 0


def test_without_apt_the_needs_are_listed(machine: Machine) -> None:
    machine.lacks("java")
    machine.lacks("apt-get")
    done = machine.setup()
    assert done.returncode == 3
    assert "Java >= 17" in done.stderr
    assert "package manager" in done.stderr


def test_two_at_once_wait_for_each_other(machine: Machine) -> None:
    with (machine.root / ".ci/setup").open() as script:
        fcntl.flock(script, fcntl.LOCK_EX)
        second = subprocess.Popen(
            [str(machine.root / ".ci/setup")], env=machine.environment(), stdout=subprocess.PIPE, text=True
        )
        assert second.stdout is not None
        assert second.stdout.readline() == "setup: another set-up is at work; waiting for it\n"
        assert machine.calls() == []
    rest, _ = second.communicate(timeout=60)
    assert second.returncode == 0
    assert rest.endswith("setup: ready\n")


def make(machine: Machine, *args: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", "-C", str(machine.root), "--no-print-directory", *args],
        env={**environment, **machine.environment()},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("code", "word", "make_code"),
    [(0, "pass", 0), (1, "fail", 2), (2, "unknown", 2), (3, "error", 2), (137, "error", 2)],
)
def test_make_run_ends_with_the_verdict(machine: Machine, code: int, word: str, make_code: int) -> None:
    machine.setup()
    (machine.root / ".venv/bin/lab").write_text(f'#!/bin/sh\nprintf "[%s]" "$@"; echo\nexit {code}\n')
    done = make(machine, "run", "SCENARIO=my 'own' scenario.yaml")
    assert done.returncode == make_code
    assert done.stdout.splitlines() == ["[run][my 'own' scenario.yaml]", f"verdict: {word} (lab exit {code})"]


def test_make_run_is_an_error_where_set_up_fails(machine: Machine) -> None:
    machine.lacks("java")
    done = make(machine, "run")
    assert done.returncode == 2
    assert done.stdout.splitlines() == ["verdict: error (lab exit 3)"]
    assert "openjdk-17-jre-headless" in done.stderr


def test_make_alone_lists_every_target(machine: Machine) -> None:
    done = make(machine)
    targets = [line.split()[1] for line in done.stdout.splitlines()]
    assert targets == ["help", "run", "test", "test-full", "check", "images", "bench", "clean"]

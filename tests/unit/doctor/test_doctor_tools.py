"""Python, Java, ip and tc on machines that have them, lack them, or have others."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from doctor_host import MODULES, TOOLS, machine

import lab
from lab.doctor import tools
from lab.doctor.findings import missing, ok
from lab.doctor.host import Ran, User

ROOT = Path(lab.__file__).resolve().parent.parent
INSTALL_JAVA = "sudo apt-get install -y openjdk-17-jre-headless (21 where there is no 17)"
LIST = "/usr/bin/java --list-modules"
EIGHT = {
    LIST: Ran(1, "", "Unrecognized option: --list-modules\n"),
    "/usr/bin/java -version": Ran(0, "", 'openjdk version "1.8.0_412"\nOpenJDK Runtime Environment\n'),
}


def test_python_with_every_package_and_without_one() -> None:
    assert tools.python(machine()).state == "ok"
    answer = tools.python(machine(has_package=lambda name: name not in ("scapy", "pyspark")))
    assert answer.state == "missing"
    assert answer.found.endswith("without pyspark, scapy")
    assert answer.do is not None
    assert "make run" in answer.do


def test_every_package_that_the_project_asks_for_is_looked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = {re.split(r"[<>=]", one)[0] for one in project["dependencies"]}
    assert {{"pyyaml": "yaml"}.get(name, name) for name in wanted} == set(tools.PACKAGES)


def test_java_as_spark_needs_it() -> None:
    assert tools.java(machine()) == ok("17.0.15 with jdk.incubator.vector")
    newer = {LIST: Ran(0, MODULES.replace("17.0.15", "21"), "")}
    assert tools.java(machine(newer)) == ok("21 with jdk.incubator.vector")


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        (EIGHT, "1.8.0_412; Spark needs 17 or newer"),
        ({LIST: Ran(0, MODULES.replace("17.0.15", "11.0.2"), "")}, "11.0.2; Spark needs 17 or newer"),
        (
            {LIST: Ran(0, "java.base@17.0.15\n", "")},
            "17.0.15 without the module jdk.incubator.vector: Spark would not start",
        ),
        (
            {LIST: Ran(127, "", "bash: broken"), "/usr/bin/java -version": Ran(127, "", "broken")},
            "/usr/bin/java does not tell its version; Spark needs 17 or newer",
        ),
    ],
)
def test_java_that_spark_cannot_use(commands: dict[str, Ran], found: str) -> None:
    assert tools.java(machine(commands)) == missing(found, INSTALL_JAVA)


def test_no_java_at_all() -> None:
    nowhere = machine(which=lambda tool: None)
    assert tools.java(nowhere) == missing("there is no java; without it no verdict", INSTALL_JAVA)


def test_java_home_comes_before_path() -> None:
    home = {"JAVA_HOME": "/opt/jdk"}
    other = {"/opt/jdk/bin/java --list-modules": Ran(0, MODULES.replace("17.0.15", "21.0.3"), "")}
    assert tools.java(machine(other, environ=home)) == ok("21.0.3 with jdk.incubator.vector")
    lost = machine(environ=home, which=TOOLS.get)
    assert tools.java(lost) == missing(
        "JAVA_HOME is /opt/jdk and has no bin/java", "unset JAVA_HOME, or set it to a Java 17 or 21"
    )


@pytest.mark.parametrize("probe", [tools.ip, tools.tc])
def test_iproute2(probe: object) -> None:
    look = {tools.ip: "ip", tools.tc: "tc"}[probe]  # type: ignore[index]
    assert probe(machine()) == ok("iproute2-6.1.0")  # type: ignore[operator]
    absent = machine(which=lambda tool: None)
    assert probe(absent) == missing(f"there is no command {look}", "sudo apt-get install -y iproute2")  # type: ignore[operator]
    other = machine({f"/sbin/{look} -Version": Ran(1, "", "BusyBox v1.36")})
    assert probe(other).found == f"/sbin/{look} is not that of iproute2"  # type: ignore[operator]


def test_advice_fits_the_user_and_the_system() -> None:
    assert machine(user=User(0, "root", ())).install("iproute2") == "apt-get install -y iproute2"
    assert machine(distribution="arch").install("iproute2") == (
        "install iproute2 (its Debian name) with this system's package manager"
    )

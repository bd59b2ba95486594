"""Programs that the lab needs on this machine: Python with its packages, Java for Spark, ip and tc."""

from __future__ import annotations

import platform
import re

from lab.doctor.findings import Answer, missing, ok
from lab.doctor.host import Host

PACKAGES = ("docker", "num2words", "numpy", "pandas", "pyarrow", "pydantic", "pyspark", "rich", "scapy", "typer", "yaml")
OLDEST_JAVA = 17
VECTOR_MODULE = "jdk.incubator.vector"  # Spark does not start without it; some small Java runtimes leave it out


def python(host: Host) -> Answer:
    absent = [name for name in PACKAGES if not host.has_package(name)]
    if absent:
        return missing(f"{platform.python_version()}, without {', '.join(absent)}", "make run (it completes .venv)")
    return ok(f"{platform.python_version()} with every package")


def java(host: Host) -> Answer:
    """Whichever Spark would start: that of JAVA_HOME, else the one on PATH."""
    install = host.install("openjdk-17-jre-headless") + " (21 where there is no 17)"
    home = host.environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else host.which("java")
    if program is None or host.which(program) is None:
        where = f"JAVA_HOME is {home} and has no bin/java" if home else "there is no java; without it no verdict"
        return missing(where, "unset JAVA_HOME, or set it to a Java 17 or 21" if home else install)
    modules = host.run([program, "--list-modules"])
    found = re.search(r"^java\.base@(\d+)(\S*)", modules.out, re.MULTILINE)
    if found is None or int(found[1]) < OLDEST_JAVA:
        version = found[1] + found[2] if found else _old_version(host, program)
        return missing(f"{version}; Spark needs {OLDEST_JAVA} or newer", install)
    if f"{VECTOR_MODULE}@" not in modules.out:
        return missing(f"{found[1]}{found[2]} without the module {VECTOR_MODULE}: Spark would not start", install)
    return ok(f"{found[1]}{found[2]} with {VECTOR_MODULE}")


def _old_version(host: Host, program: str) -> str:
    """Java 8 knows no --list-modules; it tells its version as an error."""
    told = host.run([program, "-version"])
    found = re.search(r'version "([^"]+)"', told.err + told.out)
    return found[1] if found else f"{program} does not tell its version"


def ip(host: Host) -> Answer:
    return _iproute2(host, "ip")


def tc(host: Host) -> Answer:
    return _iproute2(host, "tc")


def _iproute2(host: Host, tool: str) -> Answer:
    program = host.which(tool)
    if program is None:
        return missing(f"there is no command {tool}", host.install("iproute2"))
    told = host.run([program, "-Version"])
    found = re.search(r"iproute2-[^\s,]+", told.out)
    if found is None:
        return missing(f"{program} is not that of iproute2", host.install("iproute2"))
    return ok(found[0])

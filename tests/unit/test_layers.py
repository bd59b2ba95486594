"""The import rules of the code, read from the source of every module.

An upper layer may use a lower one, never the reverse; what runs in a container
uses only what its image holds.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import lab
from lab.runtimes.recipes import RECIPES

ROOT = Path(lab.__file__).resolve().parent.parent

# Which parts of the lab each part may use, besides itself.
BESIDE = {"runtimes", "impairments", "capture", "analysis"}
BELOW_ORCHESTRATE = BESIDE | {"model", "protocols", "errors"}
MAY_USE: dict[str, set[str]] = {
    "errors": set(),
    "protocols": {"errors"},
    "node": {"protocols", "errors"},
    "impairments": {"protocols", "errors"},  # in the fabric's image, so it knows no model
    "model": {"impairments", "protocols", "errors"},  # of impairments only what they are and which backend can do them
    "capture": {"impairments", "protocols", "errors"},
    "analysis": {"model", "impairments", "protocols", "errors"},
    "runtimes": {"capture", "impairments", "node", "model", "protocols", "errors"},
    "orchestrate": BELOW_ORCHESTRATE,
    "doctor": BELOW_ORCHESTRATE | {"orchestrate"},
    "report": BELOW_ORCHESTRATE | {"orchestrate", "doctor"},
    "grading": BELOW_ORCHESTRATE | {"orchestrate"},
    "cli": BELOW_ORCHESTRATE | {"orchestrate", "doctor", "report", "grading"},
    "__main__": {"cli"},
    "__init__": set(),
}
# Who may use a library that belongs to one part only.
ONLY_IN = {"pyspark": {"analysis"}, "scapy": {"capture"}, "docker": {"runtimes"}}
# The one module of a bare part that may use a library more, as it is loaded only where its image has it.
ONLY_HERE = {"lab.protocols.editor.spelling": {"num2words"}}
# Parts that run without the virtual environment: the libraries they may use besides the standard one.
BARE: dict[str, set[str]] = {
    "errors": set(),
    "protocols": set(),
    "node": set(),
    "impairments": set(),
    "capture": {"scapy"},
    "__init__": set(),
}


def imports(module: str, source: str, is_package: bool = False) -> set[str]:
    """Full names of everything a module imports, wherever in it, also by importlib with a fixed name."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.split(".")[: len(module.split(".")) - node.level + is_package]
                base = ".".join([*above, *filter(None, [node.module])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("import_module", "__import__"):
                found.add(str(node.args[0].value))
    return found


def part_of(module: str) -> str:
    """`lab.analysis.checks.order` → `analysis`; the package's own top is `__init__`."""
    return [*module.split("."), "__init__"][1]


def broken_rules(module: str, source: str, is_package: bool = False) -> list[str]:
    """What a module imports against the rules, each as a sentence."""
    part = part_of(module)
    if part not in MAY_USE:
        return [f"{module}: lab/{part} has no place in the layers; give it one in this test"]
    problems = []
    for name in sorted(imports(module, source, is_package)):
        top, _, rest = name.partition(".")
        if top == "lab":
            used = rest.split(".")[0]
            if used in MAY_USE and used != part and used not in MAY_USE[part]:
                problems.append(f"{module} uses {name}: {part} may not know {used}")
        elif part not in ONLY_IN.get(top, {part}):
            problems.append(f"{module} uses {name}: {top} belongs in {', '.join(ONLY_IN[top])}")
        elif part in BARE and top not in sys.stdlib_module_names | BARE[part] | ONLY_HERE.get(module, set()):
            problems.append(f"{module} uses {name}: {part} runs with the standard library only")
    return problems


def modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted((ROOT / "lab").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found


def test_every_module_keeps_the_rules() -> None:
    found = modules()
    problems = [
        problem
        for module, path in found
        for problem in broken_rules(module, path.read_text("utf-8"), path.name == "__init__.py")
    ]
    assert len(found) > 20, "the walk over lab/ found next to nothing"
    assert problems == []


@pytest.mark.parametrize("image", sorted(RECIPES))
def test_an_image_holds_all_that_its_modules_use(image: str) -> None:
    held = {Path(source).stem for source in RECIPES[image].sources}
    for module, path in modules():
        if part_of(module) in held:
            names = imports(module, path.read_text("utf-8"), path.name == "__init__.py")
            used = {part_of(name) for name in names if name.startswith("lab.")} & set(MAY_USE)
            assert used <= held, f"{module} uses {used - held}, which the {image} image does not have"


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("lab.node.loop", "import numpy", "standard library only"),
        ("lab.node.loop", "from lab.model.plan import Plan", "node may not know model"),
        ("lab.node.loop", "from lab import capture", "node may not know capture"),
        ("lab.node.loop", "from ..analysis import job", "node may not know analysis"),
        ("lab.protocols.rooms.core", "def f():\n    import yaml", "standard library only"),
        ("lab.protocols.editor.words", "import num2words", "standard library only"),
        ("lab.protocols.catalog", "import lab.model.scenario", "protocols may not know model"),
        ("lab.errors", "from lab.protocols import catalog", "errors may not know protocols"),
        ("lab.model.plan", "from lab.runtimes.base import Runtime", "model may not know runtimes"),
        ("lab.model.plan", "import docker.errors", "docker belongs in runtimes"),
        ("lab.capture.tap", "import pydantic", "standard library only"),
        ("lab.capture.tap", "from lab.model.marker import MARKER", "capture may not know model"),
        ("lab.impairments.tc", "from scapy.utils import hexdump", "scapy belongs in capture"),
        ("lab.analysis.job", "import lab.runtimes.images", "analysis may not know runtimes"),
        ("lab.report.table", "from pyspark.sql import SparkSession", "pyspark belongs in analysis"),
        ("lab.runtimes.compose", "from lab.orchestrate.run import run", "runtimes may not know orchestrate"),
        ("lab.orchestrate.run", "from lab.report import table", "orchestrate may not know report"),
        ("lab.report.table", "import importlib\nimportlib.import_module('lab.cli.main')", "may not know cli"),
        ("lab.doctor.engine", "import docker", "docker belongs in runtimes"),
        ("lab.doctor.trial", "from lab.report import doctor", "doctor may not know report"),
        ("lab.surprise.thing", "", "no place in the layers"),
    ],
)
def test_the_checker_catches(module: str, source: str, complaint: str) -> None:
    problems = broken_rules(module, source)
    assert len(problems) == 1
    assert complaint in problems[0]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("lab.node.loop", "import selectors\nfrom lab.protocols.rooms import core\nfrom . import output"),
        (
            "lab.capture.tap",
            "from scapy.utils import RawPcapWriter\nfrom lab.impairments import tc\nimport lab",
        ),
        ("lab.analysis.job", "import numpy\nfrom pyspark.sql import functions\nfrom lab.model import plan"),
        ("lab.orchestrate.run", "from lab.runtimes import images\nfrom lab.analysis.job import analyse"),
        ("lab.cli.main", "import typer\nfrom lab.report import table\nfrom lab.errors import LabError"),
    ],
)
def test_the_checker_lets_pass(module: str, source: str) -> None:
    assert broken_rules(module, source) == []


def test_relative_imports_of_a_package_are_its_own() -> None:
    assert imports("lab.node", "from . import loop", is_package=True) == {"lab.node.loop"}
    assert imports("lab.node.loop", "from . import output") == {"lab.node.output"}

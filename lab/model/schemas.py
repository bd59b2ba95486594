"""The published JSON schemas: of scenarios, for editors, and of results.json, for programs that read it.

`python -m lab.model.schemas [FOLDER]` writes both, next to the scenarios if no folder is given. They come from the
models and registries that the lab itself runs on; a test checks that the committed files are current.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from lab.model.faulting import BELONGS
from lab.model.impairing import KINDS
from lab.model.network import ACTIONS, STEPS
from lab.model.results import Results
from lab.model.scenario import Scenario
from lab.protocols.catalog import PROTOCOLS, Option
from lab.protocols.mutants import MUTANTS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FOLDER = Path(__file__).resolve().parent.parent.parent / "scenarios"
_DURATION = r"^\s*[0-9]+(\.[0-9]+)?\s*(us|µs|μs|ms|s|m)\s*$"
_INDEX = r"[1-9][0-9]*"


def scenario_schema() -> dict[str, Any]:
    """What a scenario may hold; the rules between its parts are only in `lab check`."""
    schema = _without_null(Scenario.model_json_schema())
    known = schema["properties"]
    known["protocol"]["enum"] = sorted(PROTOCOLS)
    known["subscriptions"]["propertyNames"] = {"pattern": f"^consumer{_INDEX}$"}
    known["subscriptions"]["additionalProperties"]["uniqueItems"] = True
    known["mutants"] |= {"patternProperties": _mutants_schema(), "additionalProperties": False}
    for name in ("Expectation", "LatencyExpectation"):
        schema["$defs"][name]["minProperties"] = 1
    defs = schema["$defs"]
    defs["Impairment"] |= {"anyOf": _each_required(KINDS), "dependentRequired": TOGETHER}
    defs["Step"] |= {"oneOf": _each_required(STEPS)}
    defs["Fault"] |= {"oneOf": _each_required(ACTIONS), "dependentRequired": WITH_FAULT}
    schema["allOf"] = [
        {
            "if": {"properties": {"protocol": {"const": protocol.name}}},
            "then": {
                "properties": {
                    "options": {
                        "properties": {option.name: _option_schema(option) for option in protocol.options},
                        "additionalProperties": False,
                    }
                }
            },
        }
        for protocol in PROTOCOLS.values()
    ]
    return {"$schema": DIALECT, **schema}


TOGETHER = {"jitter": ["delay"], "reorder": ["delay"], "queue": ["rate"], "checksum": ["corrupt"]}
WITH_FAULT = {
    **{key: [owner] for key, owner in BELONGS.items()},
    "delay": ["by"],
    "hold": ["until"],
}


def _each_required(names: Sequence[str]) -> list[dict[str, list[str]]]:
    return [{"required": [name]} for name in names]


def _option_schema(option: Option) -> dict[str, Any]:
    default, words = option.default, {"enum": list(option.choices)}
    shape: dict[str, Any] = {}
    if option.kind == "duration":
        shape = {"type": "string", "pattern": _DURATION}
        default = f"{default:g}s" if isinstance(default, float) else default
    elif option.kind == "integer":
        bounds = {"minimum": option.minimum, "maximum": option.maximum}
        shape = {"type": "integer", **{name: bound for name, bound in bounds.items() if bound is not None}}
    kinds = [kind for kind in (shape, words if option.choices else {}) if kind]
    return {"description": option.help, "default": default, **(kinds[0] if len(kinds) == 1 else {"anyOf": kinds})}


def _mutants_schema() -> dict[str, Any]:
    """Which defects each node can have, in any protocol."""
    every = [mutant for mutants in MUTANTS.values() for mutant in mutants.values()]
    nodes = {"broker": "^broker$", "producer": f"^producer{_INDEX}$", "consumer": f"^consumer{_INDEX}$"}
    return {
        pattern: {"enum": sorted({mutant.name for mutant in every if mutant.role == role})}
        for role, pattern in nodes.items()
    }


def results_schema() -> dict[str, Any]:
    """What results.json holds, every field of it."""
    return {"$schema": DIALECT, **Results.model_json_schema(mode="serialization", schema_generator=_Written)}


class _Written(GenerateJsonSchema):
    """Of what the lab writes: a field with a default is there all the same."""

    def field_is_required(self, *_arguments: Any, **_keywords: Any) -> bool:
        return True


def _without_null(schema: Any) -> Any:
    """The same schema without the alternative `null`: in a scenario a key has a value or is left out."""
    if isinstance(schema, list):
        return [_without_null(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {name: _without_null(part) for name, part in schema.items() if not (name == "default" and part is None)}
    kinds = [kind for kind in result.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) == 1:
        del result["anyOf"]
        result = {**kinds[0], **result}
    return result


SCHEMAS = {"schema.json": scenario_schema, "results.schema.json": results_schema}


def written(schema: dict[str, Any]) -> str:
    """The text of a schema file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> None:
    folder = Path(arguments[0]) if arguments else FOLDER
    for name, make in SCHEMAS.items():
        (folder / name).write_text(written(make()), encoding="utf-8")
        print(folder / name)


if __name__ == "__main__":
    main(sys.argv[1:])

"""One way to read a JSON file of a run folder, and one way to refuse it. Knows no file in particular."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from lab.errors import InputError
from lab.model.units import printable, shown

AS_WRITTEN = "the file as lab run wrote it"
MOST_TEXT = 200
M = TypeVar("M", bound=BaseModel)


class Part(BaseModel):
    """Frozen, exact types, no infinite numbers; keys that the analysis does not read are left alone."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


def parse(model: type[M], path: Path) -> M:
    """The file as that model, or one error that names the value at fault."""
    try:
        return model.model_validate_json(path.read_bytes(), strict=True)
    except ValidationError as error:
        raise unusable(path, first_fault(error)) from None
    except OSError as error:
        raise unreadable(path, error) from None


def first_fault(error: ValidationError) -> str:
    """What pydantic found first, in one line."""
    fault = error.errors(include_url=False)[0]
    place = printable(".".join(str(part) for part in fault["loc"]))[:MOST_TEXT]
    if fault["type"] == "missing":
        return f"the key '{place}' is missing"
    said = printable(fault["msg"]).removeprefix("Value error, ")[:MOST_TEXT]
    return f"{place} is {shown(fault['input'])}: {said}" if place else said


def unusable(path: Path, why: str, line: int | None = None) -> InputError:
    where = printable(str(path)) + ("" if line is None else f":{line}")
    return InputError(
        f"cannot be used: {why}",
        where=where,
        expected=AS_WRITTEN,
        hint="restore it from a copy, or run the scenario again",
    )


def unreadable(path: Path, error: OSError) -> InputError:
    return InputError(
        f"cannot be read: {error.strerror}",
        where=printable(str(path)),
        expected="a file that you may read",
        hint="ask its owner, or copy the folder with cp -r as its owner",
    )

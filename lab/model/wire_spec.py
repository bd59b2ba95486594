"""The shape of a wire table's YAML: keys, types and plain limits. What the keys mean together is wire_table.py's."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from lab.model.units import refuse, shown

WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
MEANINGS = (
    "published", "forwarded", "acked", "refused", "subscribed", "unsubscribed", "created", "asked", "answered",
    "confirmed", "ended",
)  # fmt: skip
MAX_BYTES = 65_507


def _word(value: Any) -> str:
    if not isinstance(value, str) or not WORD.fullmatch(value):
        raise refuse(f"{shown(value)} is not a name", "letters, digits, _ and -, at most 32, a letter first")
    return value


def _whole(value: Any, low: int, high: int) -> int:
    number = value
    if isinstance(value, str) and re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}", value):
        number = int(value, 16)
    if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
        raise refuse(f"{shown(value)} is not possible here", f"a whole number from {low} to {high}")
    return number


def _number(low: int, high: int) -> Any:
    return BeforeValidator(lambda value: _whole(value, low, high))


def _list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _meaning(value: Any) -> str:
    if value not in MEANINGS:
        raise refuse(f"{shown(value)} is not a meaning", "one of " + ", ".join(MEANINGS))
    return str(value)


def _constant(value: Any) -> int | str:
    if isinstance(value, str) and re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}", value):
        return int(value, 16)
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise refuse(f"{shown(value)} cannot be a field's value", "a whole number or a text")
    return value


Word = Annotated[str, BeforeValidator(_word)]
Byte = Annotated[int, _number(0, 255)]
Port = Annotated[int, _number(1, 65535)]
Whole = Annotated[int, _number(-(2**63), 2**64 - 1)]
Constant = Annotated[int | str, BeforeValidator(_constant)]
Way = Literal["request", "answer", "push"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FieldSpec(_Part):
    name: Word = Field(examples=["seq"])
    bytes: (
        Annotated[int | str, BeforeValidator(lambda v: v if isinstance(v, str) else _whole(v, 1, MAX_BYTES))] | None
    ) = Field(None, examples=[4])
    plus: Annotated[int, _number(-MAX_BYTES, MAX_BYTES)] = 0
    bits: Annotated[int, _number(1, 64)] | None = Field(None, examples=[4])
    until: Byte | None = Field(None, examples=[0])
    rest: Literal[True] | None = None
    kind: Literal["uint", "int", "decimal", "text", "bytes", "entries"] = "uint"
    value: Constant | None = None
    names: dict[str, Whole] = Field({}, examples=[{"none": 0}])
    pad: Byte | None = None
    min: Whole | None = None
    max: Whole | None = None
    about: str = ""
    fields: tuple[FieldSpec, ...] = ()


class MessageSpec(_Part):
    where: dict[str, Constant] = Field({}, examples=[{"type": 1}])
    way: Annotated[tuple[Way, ...], BeforeValidator(_list)] = ("request", "answer", "push")
    means: Annotated[tuple[Annotated[str, BeforeValidator(_meaning)], ...], BeforeValidator(_list)] = ()
    about: str = ""
    only: dict[str, str] = {}
    fields: tuple[FieldSpec, ...] = ()


class FollowSpec(_Part):
    topic: str | None = None
    sequence: str | None = None
    text: str | None = None
    identity: tuple[str, ...] = ()


class TableSpec(_Part):
    name: Word = Field(examples=["rooms"])
    title: str = Field(examples=["Room temperatures"])
    transport: Literal["udp", "tcp"] = Field(examples=["udp"])
    ports: Annotated[tuple[Port, ...], BeforeValidator(_list)] = Field(examples=[50001])
    byte_order: Literal["big", "little"] = "big"
    ends_with: Byte | None = None
    fields: tuple[FieldSpec, ...] = ()
    messages: Annotated[dict[Word, MessageSpec], Field(examples=[{"PUB": {"where": {"type": 4}}}])]
    follow: FollowSpec = FollowSpec()

"""A wire table → the source of a scapy module that stands alone. Must not know scapy: it only writes text for it."""

from __future__ import annotations

import builtins
import keyword
from importlib.resources import files
from typing import Any

from lab.protocols.wire.table import Field, Message, Table
from lab.report.wire.names import distinct, field_names, one_line, option_values

# What a scapy Packet calls its own; a field of that name could not be read. A test holds this against scapy.
_PACKET = """
    add_parent add_payload add_underlayer aliastypes answers build build_done build_padding build_ps canvas_dump
    class_default_fields class_default_fields_ref class_dont_cache class_fieldtype class_packetfields clear_cache
    clone_with command comment comments copy copy_field_value copy_fields_dict decode_payload_as default_fields
    default_payload_class delfieldval deprecated_fields direction display dissect dissection_done do_build
    do_build_payload do_build_ps do_dissect do_dissect_payload do_init_cached_fields do_init_fields explicit
    extract_padding fields fields_desc fieldtype firstlayer fragment from_hexcap get_field getfield_and_val getfieldval
    getlayer guess_payload_class hashret haslayer hide_defaults init_fields iterpayloads json lastlayer layers
    lower_bonds match_subclass mysummary name original overload_fields overloaded_fields packetfields parent payload
    payload_guess pdfdump post_build post_dissect post_dissection post_transform post_transforms pre_dissect
    prepare_cached_fields process_information psdump raw_packet_cache raw_packet_cache_fields remove_parent
    remove_payload remove_underlayer route self self_build sent_time setfieldval show show2 show_indent show_summary
    sniffed_on sprintf stop_dissection_after summary svgdump time underlayer upper_bonds wirelen
"""
PACKET = frozenset(_PACKET.split())
OWN = frozenset(["TRANSPORT", "PORTS", "ORDER", "ENDS_WITH", "OPTIONS", "MESSAGES", "dissect", "guess", "split"])
FIELDS_TAKEN = PACKET | frozenset(keyword.kwlist)
CLASSES_TAKEN = OWN | frozenset(keyword.kwlist) | frozenset(dir(builtins))
KINDS = {
    "uint": "_Uint", "int": "_Int", "decimal": "_Decimal", "text": "_Text", "bytes": "_Bytes", "entries": "_Entries",
}  # fmt: skip

HEADER = """\
# scapy layer of the protocol {name}: {title}
# Made from its wire table by `lab protocols {name} --scapy`; make it anew rather than change it. It needs scapy only.
#
#   from {module} import *
#   bytes({first}(…))           # the bytes of a message; lengths and fixed values may be left out
#   dissect(data, "request")   # the message that some bytes are, or None
#   {upper}() / {first}(…)         # the right port is filled in; captures are dissected by port
# Of several layers with the same port the one that was imported first dissects it.
#
# A name that Python or scapy uses has a _ behind it{renamed}.
"""


def layer(table: Table) -> str:
    """The source text, ready for a file with the ending .py."""
    fixed = files("lab.report.wire").joinpath("scapy_layer.txt").read_text(encoding="utf-8")
    imports, rest = fixed.split("#TABLE#")
    reading, binding = rest.split("#MESSAGES#")
    return _header(table) + "\n" + imports + _facts(table) + reading + _messages(table) + binding


def class_names(table: Table) -> dict[str, str]:
    """A message's name → that of its class; entries have one of their own, `<message>_<field>`."""
    inner = [f"{m.name}.{f.name}" for m in table.messages for f in m.fields if f.kind == "entries"]
    return distinct([message.name for message in table.messages] + inner, CLASSES_TAKEN)


def attribute_names(table: Table) -> dict[str, str]:
    return field_names(table, FIELDS_TAKEN)


def _header(table: Table) -> str:
    changed = [f"{old}: {new}" for old, new in (class_names(table) | attribute_names(table)).items() if old != new]
    return HEADER.format(
        name=table.name,
        title=one_line(table.title),
        module=distinct([table.name], keyword.kwlist)[table.name],
        first=class_names(table)[table.messages[0].name],
        upper=table.transport.upper(),
        renamed=f" ({', '.join(changed)})" if changed else "",
    )


def _facts(table: Table) -> str:
    ends = None if table.ends_with is None else bytes([table.ends_with])
    lines = [
        f"TRANSPORT = {table.transport!r}",
        f"PORTS = {table.ports!r}",
        f"ORDER = {table.order!r}",
        f"ENDS_WITH = {ends!r}",
        "OPTIONS = {}  # of the scenario, on which messages may depend",
    ]
    lines += [f"# OPTIONS[{name!r}] may be {' or '.join(map(repr, v))}" for name, v in option_values(table).items()]
    return "\n".join(lines)


def _messages(table: Table) -> str:
    names = class_names(table)
    texts = [_message(table, message, names) for message in table.messages]
    listed = "".join(f"    {names[message.name]},\n" for message in table.messages)
    return "\n\n".join(texts) + f"\n\nMESSAGES = (\n{listed})"


def _message(table: Table, message: Message, classes: dict[str, str]) -> str:
    attributes, text = attribute_names(table), ""
    for field in message.fields:
        if field.kind == "entries":
            inner = distinct((one.name for one in field.fields), FIELDS_TAKEN)
            name = f"{message.name}.{field.name}"
            text += _class(classes[name], "_Entry", f"entry of {field.name}", field.fields, inner, {}) + "\n\n"
    entries = {f.name: classes[f"{message.name}.{f.name}"] for f in message.fields if f.kind == "entries"}
    text += _class(classes[message.name], "_Message", message.name, message.fields, attributes, entries)
    text += f"    _ways = {message.ways!r}\n"
    return text + (f"    _only = {dict(message.only)!r}\n" if message.only else "")


def _class(
    name: str, base: str, title: str, fields: tuple[Field, ...], attributes: dict[str, str], entries: dict[str, str]
) -> str:
    lines = [f"class {name}({base}):", f"    name = {title!r}", "    fields_desc = ["]
    for field in fields:
        of = next((other for other in fields if other.length == field.name), None)
        rule = {"of": (attributes[of.name], of.plus)} if of else {}
        given = ", ".join(f"{key}={value!r}" for key, value in (rule | _rule(field, attributes)).items())
        if field.name in entries:
            width = sum(inner.bits or 0 for inner in field.fields) // 8
            given += f", entry={entries[field.name]}, width={width}"
        about = f"  # {one_line(field.about)}" if field.about else ""
        lines.append(f"        {KINDS[field.kind]}({attributes[field.name]!r}, {given}),{about}")
    return "\n".join([*lines, "    ]"]) + "\n"


def _rule(field: Field, attributes: dict[str, str]) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "bits": field.bits,
        "until": None if field.until is None else bytes([field.until]),
        "length": None if field.length is None else attributes[field.length],
        "plus": field.plus or None,
        "rest": field.rest or None,
        "value": field.value,
        "pad": None if field.pad is None else bytes([field.pad]),
        "low": field.low,
        "high": field.high,
        "names": dict(field.names) or None,
    }
    return {key: value for key, value in rule.items() if value is not None}

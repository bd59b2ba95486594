"""The program of a node: `python3 -m lab.node PROTOCOL ROLE …`. Command line and wiring only.

What every role takes is here; a role may have flags of its own, and other words for itself, for people.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import os
import socket
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from lab.node.control import Control
from lab.node.driver import Driver, Unattended
from lab.node.files import Files
from lab.node.loop import Loop
from lab.node.output import Output
from lab.node.prompt import Prompt
from lab.node.watched import Watched
from lab.protocols.catalog import PROTOCOLS
from lab.protocols.core import Address
from lab.protocols.roles import Program, Role, Start, roles_of


def _words(roles: Mapping[str, Role]) -> dict[str, str]:
    """Every word for a role on a command line, and the role."""
    return {word: name for name, role in roles.items() for word in (name, *role.also)}


def _role_of(arguments: list[str]) -> tuple[str, str, Role]:
    """Protocol, role by its own name, and the role; what is wrong ends the program with a usage error."""
    top = argparse.ArgumentParser(prog="python3 -m lab.node", description="One node of a lab.", add_help=False)
    top.add_argument("protocol", choices=sorted(PROTOCOLS))
    top.add_argument("role")
    if not arguments or arguments[0].startswith("-"):
        top.parse_args(arguments or [])
    found = top.parse_args(arguments[:2])
    roles = roles_of(found.protocol)
    words = _words(roles)
    if found.role not in words:
        top.error(f"argument role: {found.protocol} has {', '.join(sorted(words))}, not {found.role!r}")
    name = words[found.role]
    return found.protocol, name, roles[name]


def _parser(protocol: str, name: str, role: Role) -> argparse.ArgumentParser:
    short_help = [] if any("-h" in flag.names for flag in role.flags) else ["-h"]
    parser = argparse.ArgumentParser(prog=f"python3 -m lab.node {protocol} {name}", add_help=False, allow_abbrev=False)
    parser.add_argument(*short_help, "--help", action="help", help="show this and end")
    for flag in role.flags:
        parser.add_argument(*flag.names, dest=f"own_{flag.key}", metavar=flag.key.upper(), help=flag.help)
    parser.add_argument("--name", default=name, help="the node's name, for messages about it")
    parser.add_argument("--broker", metavar="HOST[:PORT]", help="where the broker is (producer and consumer)")
    parser.add_argument("--service", action="append", default=[], metavar="NAME=HOST:PORT", help="where a service is")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="a protocol option")
    parser.add_argument("--mutant", metavar="NAME", help="run with this known defect")
    parser.add_argument("--driven", action="store_true", help="controlled by JSON lines on standard input")
    parser.add_argument("--watched", action="store_true", help="by hand, and tell the lab when it is ready")
    parser.add_argument("--file", type=Path, metavar="F", help="commands to take before those of standard input")
    parser.add_argument("--bind", default="0.0.0.0", metavar="ADDRESS", help="the own address (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of what a program makes up itself")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the files that come here")
    return parser


def load() -> None:
    """Everything that any program needs later, for where a program that has started can read nothing any more."""
    codecs.lookup("unicode_escape")
    for protocol in PROTOCOLS:
        for name, role in roles_of(protocol).items():
            _parser(protocol, name, role)
            for module in role.loads:
                with contextlib.suppress(ImportError):
                    import_module(module)


def _pairs(pairs: list[str], what: str) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign:
            raise ValueError(f"{what} {pair}: expected name=value")
        found[name] = value
    return found


def _resolve(host: str) -> str:
    try:
        return socket.gethostbyname(host)
    except OSError as error:
        raise ValueError(f"{host} cannot be found: {error.strerror or error}") from error


def _address(text: str, port: int | None) -> Address:
    host, sign, own_port = text.rpartition(":")
    if not sign:
        host, own_port = text, "" if port is None else str(port)
    if not (own_port.isascii() and own_port.isdecimal() and 0 < int(own_port) < 65536):
        raise ValueError(f"{text} is no HOST:PORT")
    return _resolve(host), int(own_port)


def _own_host(bind: str, towards: Address) -> str:
    """The address this node has towards another; nothing is sent."""
    if bind != "0.0.0.0":
        return bind
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect(towards)
            return str(sock.getsockname()[0])
    except OSError as error:
        raise ValueError(f"there is no way to {towards[0]}: {error.strerror or error}") from error


def _start(protocol: str, name: str, args: argparse.Namespace) -> Start:
    own = {key.removeprefix("own_"): value for key, value in vars(args).items() if key.startswith("own_")}
    return Start(
        role=name,
        options=_pairs(args.option, "option"),
        flags={key: value for key, value in own.items() if value is not None},
        broker=None if args.broker is None else _address(args.broker, PROTOCOLS[protocol].broker_port),
        services={key: _address(value, None) for key, value in _pairs(args.service, "service").items()},
        name=args.name,
        driven=args.driven,
        mutant=args.mutant,
        seed=args.seed,
        resolve=_resolve,
        own_host=lambda towards: _own_host(args.bind, towards),
    )


def _driver(args: argparse.Namespace, program: Program, output: Output) -> Driver:
    if args.driven:
        return Control(program.core, output)
    by_hand = Unattended(output) if program.desk is None else Prompt(program.core, program.desk, output)
    return Watched(by_hand, program.core, output) if args.watched else by_hand


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    protocol, name, role = _role_of(arguments)
    parser = _parser(protocol, name, role)
    args = parser.parse_args(arguments[2:])
    try:
        program = role.make(_start(protocol, name, args))
        given = [] if args.file is None else args.file.read_text("utf-8", "replace").splitlines()
        lines = [*program.lines, *given]
    except (ValueError, OSError) as error:
        parser.error(str(error))
    output = Output(sys.stdout.buffer, echoed=os.isatty(0))
    loop = Loop(program.core, output, args.bind, Files(args.out))
    try:
        return loop.run(_driver(args, program, output), lines, 0)
    except OSError as error:
        print(f"{args.name}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

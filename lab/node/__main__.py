"""The program of a node: `python3 -m lab.node PROTOCOL ROLE …`. Command line and wiring only."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from pathlib import Path

from lab.node.control import Control
from lab.node.driver import Driver, Unattended
from lab.node.loop import Loop
from lab.node.output import Output
from lab.node.prompt import PublisherPrompt, SubscriberPrompt
from lab.protocols.catalog import PROTOCOLS
from lab.protocols.rooms.core import BROKER_PORT, Core, Settings
from lab.protocols.rooms.publisher import Publisher
from lab.protocols.rooms.roles import ROLES, make_broker, make_client
from lab.protocols.rooms.subscriber import Subscriber


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m lab.node", description="One node of a lab.")
    parser.add_argument("protocol", choices=sorted(PROTOCOLS))
    parser.add_argument("role", choices=sorted(ROLES))
    parser.add_argument("--name", help="the node's name, for messages about it")
    parser.add_argument("--broker", metavar="HOST", help="where the broker is (producer and consumer)")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="a protocol option")
    parser.add_argument("--mutant", metavar="NAME", help="run with this known defect")
    parser.add_argument("--driven", action="store_true", help="controlled by JSON lines on standard input")
    parser.add_argument("--file", type=Path, metavar="F", help="commands to take before those of standard input")
    parser.add_argument("--bind", default="0.0.0.0", metavar="ADDRESS", help="the own address (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the readings published at the prompt")
    return parser


def _options(pairs: list[str]) -> dict[str, str]:
    options = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign:
            raise ValueError(f"option {pair}: expected name=value")
        options[name] = value
    return options


def _own_host(bind: str, broker: tuple[str, int]) -> str:
    """The address this node has towards the broker; nothing is sent."""
    if bind != "0.0.0.0":
        return bind
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(broker)
        return str(sock.getsockname()[0])


def _core(args: argparse.Namespace) -> Core:
    settings = Settings.from_options(_options(args.option), chatter=not args.driven)
    if args.role == "broker":
        return make_broker(settings, args.mutant)
    if args.broker is None:
        raise ValueError(f"a {args.role} needs --broker HOST")
    try:
        broker = (socket.gethostbyname(args.broker), BROKER_PORT)
        return make_client(args.role, settings, broker, _own_host(args.bind, broker), args.mutant)
    except OSError as error:
        raise ValueError(f"the broker {args.broker} cannot be found: {error.strerror or error}") from error


def _driver(args: argparse.Namespace, core: Core, output: Output) -> Driver:
    if args.driven:
        return Control(core, output)
    if isinstance(core, Publisher):
        return PublisherPrompt(core, output, args.seed)
    if isinstance(core, Subscriber):
        return SubscriberPrompt(core, output)
    return Unattended(core, output)


def main(argv: list[str] | None = None) -> int:
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        core = _core(args)
        lines = [] if args.file is None else args.file.read_text("utf-8", "replace").splitlines()
    except (ValueError, OSError) as error:
        parser.error(str(error))
    output = Output(sys.stdout.buffer, echoed=os.isatty(0))
    loop = Loop(core, output, args.bind)
    try:
        loop.run(_driver(args, core, output), lines, 0)
    except OSError as error:
        print(f"{args.name or args.role}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

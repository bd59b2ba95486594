"""`python -P -m lab.impairments.relay --channel FD --folder DIR`: started by the fabric, with one end of a channel."""

from __future__ import annotations

import argparse
import signal
import socket
import sys
from pathlib import Path

from lab.impairments.relay.process import Relay
from lab.impairments.relay.prompt import be_prompt


def main() -> int:
    parser = argparse.ArgumentParser(prog="relay", description=__doc__)
    parser.add_argument("--channel", type=int, required=True, help="file descriptor of a connected socket")
    parser.add_argument("--folder", type=Path, required=True, help="where relay.jsonl is written")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the fabric decides when this ends
    be_prompt()
    Relay(socket.socket(fileno=arguments.channel), arguments.folder).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())

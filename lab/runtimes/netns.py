"""The netns runtime: a plan as network namespaces and processes of this machine, no engine. For the lab's own programs.

Nothing it makes has a name on the host or lies on disk: namespaces are held by one supervisor (netns_supervisor.py),
which the kernel takes down with everything in it when this process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import lab
from lab.capture.follow import FileFollower
from lab.errors import HostError, LateError, printable
from lab.model.owner import owner_mark
from lab.model.plan import Link, Node, Plan
from lab.runtimes.actions import Action
from lab.runtimes.base import ExitState, Follower, HostLink, Say, Streams
from lab.runtimes.netns_channel import BrokenChannelError, Message, close_all, receive, send
from lab.runtimes.netns_leftovers import command, processes
from lab.runtimes.netns_streams import PipeStreams
from lab.runtimes.netns_topology import FIRST_PORT
from lab.runtimes.program import NODE_PROGRAM, bridge_name, known_hosts, program_command

ANSWER_TIMEOUT_S = 20.0
NETWORK_TIMEOUT_S = 60.0
END_TIMEOUT_S = 10.0
SYSTEM_PATHS = "/usr/local/sbin:/usr/sbin:/sbin"  # where ip and tc may be, also if a user's PATH leaves them out
LONGEST_NAME = 15


class SupervisorProcess:
    """The supervisor as seen from here: one question, one answer."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._lock = threading.Lock()
        self._complaints = os.fdopen(os.memfd_create("brokerlab-supervisor"), "w+b")
        self._channel, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                command(sys.executable, run_id, owner_mark(), theirs.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._complaints,
                pass_fds=(theirs.fileno(),),
                cwd="/",
                env=_environment(),
                start_new_session=True,  # Ctrl-C in a terminal is for the orchestrator alone
            )

    def ask(self, do: str, timeout_s: float, descriptors: Sequence[int] = (), **more: object) -> Message:
        """Its answer; what went wrong there is raised here."""
        with self._lock:
            self._channel.settimeout(timeout_s)
            try:
                send(self._channel, {"do": do, **more}, descriptors)
                received = receive(self._channel)
            except TimeoutError:
                raise LateError(f"the network supervisor did not answer '{do}' within {timeout_s:g} s") from None
            except (OSError, BrokenChannelError):
                received = None
        if received is None:
            raise HostError(f"the network supervisor ended during '{do}': {self._last_words()}")
        answer = received[0]
        if not answer["ok"]:
            raise failure(answer)
        return answer

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no reason given"

    def end(self) -> None:
        """Everything of the run is gone when this returns."""
        with self._lock, contextlib.suppress(OSError):
            send(self._channel, {"do": "end"})
        self._channel.close()
        late = ""
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            late = ", ".join(f"{one.name} ({one.pid})" for one in processes() if one.run_id == self._run_id)
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_TIMEOUT_S)
        self._complaints.close()
        if late:
            raise LateError(f"processes of run {self._run_id} did not end within {END_TIMEOUT_S:g} s: {late}")


def failure(answer: Message) -> HostError:
    """What went wrong in the supervisor, as it would have been raised here."""
    kind = LateError if answer.get("error") == LateError.__name__ else HostError
    return kind(answer["what"], expected=answer.get("expected"), hint=answer.get("hint"))


class NetnsRuntime:
    """One run's namespaces and processes."""

    name = "netns"
    shares_addresses = False

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._supervisor: SupervisorProcess | None = None
        self._plan: Plan | None = None

    def taken_subnets(self) -> dict[str, str]:
        """None: a run's addresses are in namespaces of its own."""
        return {}

    def prepare(self, say: Say) -> dict[str, str]:
        self._supervisor = SupervisorProcess(self._run_id)
        hello = self._supervisor.ask("hello", ANSWER_TIMEOUT_S)
        return {
            "kernel": hello["kernel"],
            "iproute2": hello["iproute2"],
            "rootless": "yes" if hello["rootless"] else "no",
        }

    def start_fabric(self, folder: Path) -> Streams:
        """In the switch namespace, which is there from the start; it loads its libraries while the network comes up."""
        return self._start("fabric", folder=str(folder / "pcap"))

    def network_up(self, plan: Plan, folder: Path) -> dict[str, HostLink]:
        self._plan = plan
        attached = attachments(plan)
        nodes = [
            {
                "name": node.name,
                "gateways": [plan.subnets[link.subnet].gateway for link in node.links],
                "links": [attached[link.name] for link in node.links],
            }
            for node in plan.nodes
        ]
        bridges = [bridge_name(plan.run_id, subnet) for subnet in plan.subnets]
        self._running().ask("network", NETWORK_TIMEOUT_S, bridges=bridges, nodes=nodes)
        return {name: HostLink(one["index"], one["mac"], one["bridge"]) for name, one in attached.items()}

    def start_program(self, node: Node) -> Streams:
        assert self._plan is not None
        arguments = program_command(self._plan, node)[len(NODE_PROGRAM) :]
        return self._start("program", node=node.name, arguments=arguments, hosts=known_hosts(self._plan, node))

    def act(self, node: Node, action: Action) -> None:
        self._running().ask("act", ANSWER_TIMEOUT_S, node=node.name, action=action)

    def restart_program(self, node: Node) -> Streams:
        self.act(node, "kill")
        return self.start_program(node)

    def state(self, node: Node) -> ExitState:
        answer = self._running().ask("state", ANSWER_TIMEOUT_S, node=node.name)
        return ExitState(answer["running"], answer["code"], answer["note"])

    def fetch_captures(self, target: Path) -> None:
        """Nothing to do: the fabric writes into the run folder itself."""

    def follow_capture(self, link: str, folder: Path) -> Follower:
        file = folder / "pcap" / f"{link}.pcap"
        try:
            return FileFollower(file)
        except OSError as error:
            raise HostError(f"cannot be followed: {error.strerror}", where=printable(str(file))) from None

    def down(self) -> None:
        if self._supervisor is not None:
            self._supervisor.end()
            self._supervisor = None

    def _start(self, do: str, **more: object) -> PipeStreams:
        streams = PipeStreams()
        try:
            self._running().ask(do, ANSWER_TIMEOUT_S, streams.handed_over, **more)
        except BaseException:
            streams.close()
            raise
        finally:
            close_all(streams.handed_over)
        return streams

    def _running(self) -> SupervisorProcess:
        if self._supervisor is None:
            raise HostError("the network supervisor does not run")
        return self._supervisor


def attachments(plan: Plan) -> dict[str, Message]:
    """Every link by name, with names, numbers and addresses of both its ends."""
    made: dict[str, Message] = {}
    for node in plan.nodes:
        for number, link in enumerate(sorted(node.links, key=lambda one: one.subnet)):
            index = FIRST_PORT + len(made)
            made[link.name] = {
                "device": f"eth{number}",
                "mac": mac_of(link),
                "address": f"{link.address}/{link.prefix}",
                "port": port_name(node, link, index),
                "index": index,
                "bridge": bridge_name(plan.run_id, link.subnet),
            }
    return made


def mac_of(link: Link) -> str:
    """From the address, as engines do: the same plan gives the same frames."""
    return "02:42:" + ipaddress.IPv4Address(link.address).packed.hex(":")


def port_name(node: Node, link: Link, index: int) -> str:
    """Readable where the kernel's 15 characters allow it."""
    readable = f"{node.name}-{link.subnet[:1]}"
    return readable if len(readable) <= LONGEST_NAME else f"port{index}"


def rights() -> str:
    """In words, by which right this machine lets us make namespaces: found by making a small network."""
    for tool in ("ip", "tc"):
        if shutil.which(tool, path=_environment()["PATH"]) is None:
            raise HostError(f"the command {tool} is not there", hint="install iproute2")
    supervisor = SupervisorProcess("probe")
    try:
        link = {"device": "eth0", "mac": "02:42:0a:50:00:02", "address": "10.80.0.2/24", "port": "probe-p"}
        node = {"name": "probe", "gateways": ["10.80.0.1"], "links": [{**link, "index": FIRST_PORT, "bridge": "probe"}]}
        rootless = supervisor.ask("hello", ANSWER_TIMEOUT_S)["rootless"]
        supervisor.ask("network", ANSWER_TIMEOUT_S, bridges=["probe"], nodes=[node])
    except HostError as error:
        raise HostError(
            f"no network namespaces can be made here: {error.what}",
            expected="root, or a kernel that lets users make user namespaces",
            hint="sudo, or sysctl kernel.unprivileged_userns_clone=1 (kernel.apparmor_restrict_unprivileged_userns=0)",
        ) from None
    finally:
        supervisor.end()
    return "user namespaces on Linux" if rootless else "root on Linux"


def _environment() -> dict[str, str]:
    """For the supervisor and the fabric: where the tools and this package are, and nothing else of the caller's."""
    package = str(Path(lab.__file__).resolve().parent.parent)
    return {
        "PATH": os.pathsep.join(filter(None, [os.environ.get("PATH"), SYSTEM_PATHS])),
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")])),
        "LANG": "C.UTF-8",
    }

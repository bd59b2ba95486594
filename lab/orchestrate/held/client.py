"""A terminal's side of a held-open run: connects to its keeper and asks for one thing. Knows no terminal itself."""

from __future__ import annotations

from lab.errors import HostError, LateError
from lab.orchestrate.held.hub import relay
from lab.orchestrate.held.place import LOG, Keeper, connect
from lab.orchestrate.held.wire import Message, Wire, failure
from lab.orchestrate.progress import Progress

ANSWER_TIMEOUT_S = 20.0
DOWN_TIMEOUT_S = 180.0  # between two things that it tells


def ask(keeper: Keeper, **request: object) -> tuple[Wire, Message]:
    """An open connection and the keeper's answer; what it refuses is raised here."""
    wire = Wire(connect(keeper))
    try:
        wire.send(**request)
        answer = wire.receive(ANSWER_TIMEOUT_S)
        if answer is None:
            raise HostError("the keeper of this run ended the connection", hint=f"see {LOG} in the run folder")
        if not answer.get("ok"):
            raise failure(answer)
        return wire, answer
    except TimeoutError:
        wire.close()
        raise LateError(f"the keeper of this run did not answer within {ANSWER_TIMEOUT_S:g} s") from None
    except BrokenPipeError:
        wire.close()
        raise HostError("the keeper of this run is ending", hint="its verdict: lab analyse RUN") from None
    except BaseException:
        wire.close()
        raise


def take_down(keeper: Keeper, progress: Progress) -> None:
    """Returns when the run folder is complete and nothing else is left."""
    wire, _ = ask(keeper, do="down")
    try:
        while True:
            message = wire.receive(DOWN_TIMEOUT_S)
            if message is None:
                what = "the keeper ended before the run was down"
                raise HostError(what, hint=f"see {LOG} in the run folder; then: lab clean")
            if "failed" in message:
                raise failure(message["failed"])
            if "down" in message:
                return
            relay(message, progress)
    except TimeoutError:
        raise LateError(f"the keeper told nothing for {DOWN_TIMEOUT_S:g} s while the run was taken down") from None
    finally:
        wire.close()

"""The end of a fabric container: it clears its interfaces by itself, or what it has left on the host is taken away.

Those interfaces are in the host's network, where the caller may have no rights: a container of the same image does it.
"""

from __future__ import annotations

import contextlib
from typing import Any

from docker.errors import APIError, NotFound
from requests.exceptions import ConnectionError as NoAnswer
from requests.exceptions import Timeout

from lab.runtimes.base import OWNER_LABEL, PART_LABEL, RUN_LABEL

END_TIMEOUT_S, SWEEP_TIMEOUT_S = 5.0, 20.0


def end_fabric(api: Any, fabric: dict[str, Any]) -> str | None:
    """`fabric` as the engine lists it. What could not be taken away, in words."""
    try:
        if api.wait(fabric["Id"], timeout=END_TIMEOUT_S)["StatusCode"] == 0:
            return None
    except NotFound:
        return None  # somebody else is removing the same run
    except (Timeout, NoAnswer):
        with contextlib.suppress(APIError):
            api.kill(fabric["Id"])
    try:
        return _sweep(api, fabric)
    except APIError as error:
        return str(error.explanation or error)
    except (Timeout, NoAnswer):
        return f"it took more than {SWEEP_TIMEOUT_S:g} s"


def _sweep(api: Any, fabric: dict[str, Any]) -> str | None:
    """Its labels are the fabric's: whoever removes that run removes this one too."""
    labels = fabric["Labels"]
    made = api.create_container(
        fabric["ImageID"],
        ["python3", "-m", "lab.capture.sweep", labels[RUN_LABEL]],
        labels={RUN_LABEL: labels[RUN_LABEL], OWNER_LABEL: labels.get(OWNER_LABEL, ""), PART_LABEL: "sweep"},
        host_config=api.create_host_config(
            network_mode="host",
            cap_drop=["ALL"],
            cap_add=["NET_ADMIN"],
            security_opt=["no-new-privileges"],
            read_only=True,
        ),
    )
    try:
        api.start(made["Id"])
        if api.wait(made["Id"], timeout=SWEEP_TIMEOUT_S)["StatusCode"] == 0:
            return None
        said = api.logs(made["Id"]).decode(errors="replace").strip()
        return said.splitlines()[-1] if said else "no reason given"
    finally:
        with contextlib.suppress(APIError):
            api.remove_container(made["Id"], v=True, force=True)

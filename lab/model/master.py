"""Spark masters as a person may write them. Knows their forms, not Spark."""

from __future__ import annotations

import re

from lab.errors import InputError
from lab.model.units import shown

_FORMS = re.compile(
    r"local(\[(\*|[1-9][0-9]{0,3})(,[1-9][0-9]{0,3})?\])?"
    r"|spark://[^\s,/:]+:[0-9]{1,5}(,[^\s,/:]+:[0-9]{1,5})*"
    r"|yarn"
    r"|k8s://\S+"
)


def spark_master(text: str) -> str:
    """The same text if Spark could start with it; else one error, before anything is started."""
    if _FORMS.fullmatch(text):
        return text
    raise InputError(
        f"{shown(text)} is not a Spark master",
        where="--master",
        expected="local, local[4], local[*], spark://host:7077, yarn or k8s://host:port",
        hint="leave the option out to use all cores of this machine",
    )

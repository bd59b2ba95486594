"""Names that a person may have misspelt: the nearest known one, and short lists of what there is."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

MAX_NAMED = 20


def nearest(word: object, known: Sequence[str]) -> str | None:
    """The known name that a misspelt one was perhaps meant to be, or nothing."""
    lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(str(word).strip().lower(), lower, n=1, cutoff=0.6)
    return lower[close[0]] if close else None


def one_of(names: Sequence[str]) -> str:
    """What could have been written; a long list is cut."""
    if len(names) > MAX_NAMED:
        return "one of " + ", ".join(names[:7]) + f", … ({len(names)} in all)"
    if len(names) > 1:
        return "one of " + ", ".join(names)
    return names[0] if names else "nothing: there is none"

"""Names that a person may have misspelt: the nearest known one, and short lists of what there is."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

LONGEST_NAME = 100  # no known name is longer; a longer word is not compared


def nearest(word: object, known: Sequence[str]) -> str | None:
    """The known name that a misspelt one was perhaps meant to be, or nothing."""
    text = str(word).strip().lower()
    if len(text) > LONGEST_NAME:
        return None
    close = difflib.get_close_matches(text, known, n=1, cutoff=0.6)
    return close[0] if close else None


def one_of(names: Sequence[str]) -> str:
    """What could have been written; a long list is cut."""
    if len(names) > 16:
        return "one of " + ", ".join(names[:7]) + f", … ({len(names)} in all)"
    if len(names) > 1:
        return "one of " + ", ".join(names)
    return names[0] if names else "nothing: there is none"

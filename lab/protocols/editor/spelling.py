"""English words for a number. The only module that needs num2words, which only the image of the words service has."""

from __future__ import annotations

import re

from num2words import num2words

MOST_DIGITS = 300  # num2words knows names for no more
_NUMBER = re.compile(r"([+-]?)([0-9]+)(?:\.([0-9]+))?")


def spell(number: str) -> str:
    """ValueError if that is no number, or one without a name."""
    found = _NUMBER.fullmatch(number.strip())
    if found is None:
        raise ValueError("that is no number")
    sign, whole, digits = found.groups()
    if len(whole.lstrip("0")) > MOST_DIGITS or len(digits or "") > MOST_DIGITS:
        raise ValueError("there is no name for so large a number")
    words = [_named(whole)]
    if sign == "-" and (int(whole) or int(digits or 0)):
        words.insert(0, "minus")
    if digits:
        words += ["point", *(_named(digit) for digit in digits)]
    return " ".join(words)


def _named(digits: str) -> str:
    return str(num2words(int(digits)))

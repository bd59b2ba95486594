"""The options of a protocol: defaults, bounds, and what is said beyond them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from modelkit import FILE, checked, refused, text_of

from lab.errors import InputError
from lab.model.loader import load_text
from lab.model.options import resolve_options
from lab.protocols.catalog import ROOMS, Option


def options(text: str) -> dict[str, object]:
    scenario, document = checked(options=text)
    return resolve_options(scenario, document, ROOMS)


def test_options_have_defaults() -> None:
    assert options("{}") == {"arq": "none", "reply_timeout_s": 1.0, "window": 64}


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("{reply_timeout: 1ms}", "reply_timeout_s", 0.001),
        ("{reply_timeout: 60m}", "reply_timeout_s", 3600.0),
        ("{reply_timeout: never}", "reply_timeout_s", "never"),
        ("{arq: sliding-window, window: 1}", "window", 1),
        ("{arq: sliding-window, window: 127}", "window", 127),
        ("{arq: sliding-window}", "arq", "sliding-window"),
    ],
)
def test_options_up_to_their_bounds(text: str, name: str, value: object) -> None:
    assert options(text)[name] == value


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{reply_timeout: 0.9ms}", "'0.9ms' is out of range for 'reply_timeout'"),
        ("{reply_timeout: [1]}", "a list is not a duration"),
        ("{window: 0}", "0 is out of range for 'window'"),
        ("{window: true}", "true is not a whole number"),
        ("{window: never}", "'never' is not a whole number"),
        ("{window: {}}", "a mapping is not a whole number"),
        ("{arq: true}", "true cannot be the value of 'arq'"),
        ("{arq: [none]}", "a list cannot be the value of 'arq'"),
        ("{ARQ: none}", "rooms has no option 'ARQ'"),
    ],
)
def test_options_beyond_their_bounds(text: str, what: str) -> None:
    assert refused(options=text).what == what


@pytest.mark.parametrize(
    ("wrong", "hint"), [("{ARQ: none}", "arq"), ("{arq: Sliding-Window}", "sliding-window"), ("{colour: red}", None)]
)
def test_a_misspelt_option_gets_the_nearest_one(wrong: str, hint: str | None) -> None:
    assert refused(options=wrong).hint == hint


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        (Option("x", "integer", 1), "many", "a whole number"),
        (Option("x", "integer", 1, minimum=2), "1", "a whole number from 2"),
        (Option("x", "integer", 1, maximum=2), "3", "a whole number to 2"),
        (Option("x", "duration", 1.0, minimum=2.0, choices=("never",)), "1s", "a duration from 2s, or never"),
    ],
)
def test_options_with_other_bounds(option: Option, value: str, expected: str) -> None:
    protocol = replace(ROOMS, options=(option,))
    scenario, document = load_text(text_of(options=f"{{x: {value}}}"), FILE)
    with pytest.raises(InputError) as caught:
        resolve_options(scenario, document, protocol)
    assert caught.value.expected == expected


def test_options_without_bounds() -> None:
    protocol = replace(ROOMS, options=(Option("x", "integer", 1), Option("y", "duration", 1.0)))
    scenario, document = load_text(text_of(options="{x: -99999, y: 0s}"), FILE)
    assert resolve_options(scenario, document, protocol) == {"x": -99999, "y_s": 0.0}

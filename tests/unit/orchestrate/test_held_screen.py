"""What a program wrote, for watchers: half lines at once, no control lines, bounded, each at its own pace."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lab.orchestrate.held.screen import KEPT, SCREEN_LINES, ControlFilter, Screen

WRITTEN = 'hello\n@lab {"event": "ready"}\nEnter: \n@laboratory\n@lab\n  @lab {}\rx\u2028y\n@lab {"n": 3}\nPrompt: '
SHOWN = "hello\nEnter: \n@laboratory\n@lab\n  @lab {}\rx\u2028y\nPrompt: "


@given(st.lists(st.integers(0, len(WRITTEN))))
def test_control_lines_are_left_out_however_it_is_cut(cuts: list[int]) -> None:
    control, places = ControlFilter(), [0, *sorted(cuts), len(WRITTEN)]
    shown = "".join(control.without(WRITTEN[a:b]) for a, b in pairwise(places))
    assert shown + control.rest() == SHOWN


def test_a_prompt_is_there_at_once_and_utf8_in_pieces() -> None:
    screen = Screen()
    screen.wrote("out", "Enter é".encode()[:-1])
    assert screen.now().text == "Enter "
    screen.wrote("out", "é".encode()[-1:])
    assert screen.news(6, None, 0).text == "é"


def test_only_the_last_screenful_is_shown_at_first() -> None:
    screen = Screen()
    for number in range(100):
        screen.wrote("out", f"line {number}\n".encode())
    lines = screen.now().text.splitlines()
    assert (len(lines), lines[-1]) == (SCREEN_LINES, "line 99")


def test_who_is_slow_loses_what_is_too_old_and_is_told() -> None:
    screen = Screen()
    for _ in range(100):
        screen.wrote("out", b"x" * 10_000)
    news = screen.news(0, None, 0)
    assert len(news.text) + news.lost == 1_000_000
    assert KEPT - 10_000 <= len(news.text) <= KEPT + 10_000
    assert screen.news(news.upto, None, 0).text == ""


def test_what_was_typed_is_shown_to_all_but_its_typist() -> None:
    screen, me = Screen(), object()
    screen.wrote("out", b"Enter: ")
    screen.typed("hello", me)
    screen.wrote("out", b"\nHELLO\n")
    assert screen.news(0, me, 0).text == "Enter: \nHELLO\n"
    assert screen.news(0, object(), 0).text == "Enter: hello\nHELLO\n"
    screen.end()
    assert screen.news(screen.now().upto, me, 60).ended

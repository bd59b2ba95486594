"""Both ends of a terminal dialogue: each alone, and talking to each other."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lab.protocols.dialogue import (
    Answering,
    Asking,
    Choice,
    Desk,
    Dialogue,
    Do,
    Failed,
    Question,
    Quit,
    Step,
    Tell,
    Told,
)

SHOP = Dialogue(
    (
        Question(
            "menu", "Buy or sell? ", (Choice("UNSELL", "which"), Choice("SELL", "what"), Choice("LIST", does="list"))
        ),
        Question("what", "What? ", value="thing", to="price"),
        Question("price", "For how much? ", value="price", does="sell"),
        Question("which", "Which? ", value="thing", does="unsell"),
    )
)


class Shop(Desk):
    dialogue = SHOP

    def __init__(self) -> None:
        self.done: list[tuple[str, dict[str, str]]] = []

    def refusal(self, question: str, text: str) -> str | None:
        return "No bread today." if text == "bread" else None

    def do(self, action: str, values: Mapping[str, str], now: float) -> None:
        self.done.append((action, dict(values)))


def test_a_program_goes_from_question_to_question() -> None:
    asking = Asking(Shop())
    assert asking.prompt == "Buy or sell? "
    assert asking.line(" please sell ") is None
    assert asking.prompt == "What? "
    assert asking.line("  a hat ") is None
    assert asking.prompt == "For how much? "
    assert asking.line("5") == Do("sell", {"thing": "a hat", "price": "5"})
    assert asking.prompt == "Buy or sell? "
    assert asking.line("list") == Do("list", {})


def test_the_first_choice_that_fits_counts() -> None:
    asking = Asking(Shop())
    asking.line("unsell")
    assert asking.prompt == "Which? "


def test_what_cannot_be_taken() -> None:
    asking = Asking(Shop())
    assert asking.line("steal") == Tell("Invalid input.")
    assert asking.line("") == Tell("Invalid input.")
    asking.line("sell")
    assert asking.line("   ") == Tell("Invalid input.")
    assert asking.prompt == "What? "  # asked again
    assert asking.line("bread") == Tell("No bread today.")
    assert asking.prompt == "Buy or sell? "
    assert asking.line("Quit") == Quit()


def test_the_steps_to_an_action_come_from_the_dialogue() -> None:
    assert SHOP.steps("sell") == (
        Step("Buy or sell? ", "SELL"),
        Step("What? ", "{thing}"),
        Step("For how much? ", "{price}"),
    )
    assert SHOP.steps("list") == (Step("Buy or sell? ", "LIST"),)
    with pytest.raises(ValueError, match="leads to 'steal'"):
        SHOP.steps("steal")


def converse(answering: Answering, shop: Shop) -> None:
    """Join both ends until neither has anything to say."""
    asking = Asking(shop)
    answering.receive(asking.prompt.encode(), 0.0)
    while lines := answering.lines_to_send():
        for line in lines:
            taken = asking.line(line)
            if isinstance(taken, Do):
                shop.do(taken.action, taken.values, 0.0)
            said = f"{taken.text}\n" if isinstance(taken, Tell) else ""
            for byte in (said + asking.prompt).encode():
                answering.receive(bytes([byte]), 0.0)


def test_both_ends_together() -> None:
    shop, answering = Shop(), Answering()
    answering.ask("1", SHOP.steps("sell"), {"thing": "a hät", "price": "{5}"}, 0.0)
    answering.ask("2", SHOP.steps("sell"), {"thing": "bread", "price": "5"}, 0.0)
    answering.ask("3", SHOP.steps("unsell"), {"thing": "a hät"}, 0.0)
    converse(answering, shop)
    assert shop.done == [("sell", {"thing": "a hät", "price": "{5}"})]
    assert [type(event) for event in iter(answering.next_event, None)] == [Told]
    answering.handle_timer(10.0)
    failed = answering.next_event()
    assert isinstance(failed, Failed)
    assert failed.request == "2"
    assert failed.reason == "the prompt 'For how much?' did not come within 10 s"
    assert "No bread today." in failed.wrote
    assert answering.lines_to_send() == ["UNSELL"]  # the menu is there: the next request goes on


def test_a_settled_request_knows_all_that_was_written() -> None:
    shop, answering = Shop(), Answering()
    answering.ask("1", (*SHOP.steps("sell"), SHOP.settled), {"thing": "hat", "price": "5"}, 0.0)
    answering.ask("2", (*SHOP.steps("list"), SHOP.settled), {}, 0.0)
    converse(answering, shop)
    told = [event for event in iter(answering.next_event, None) if isinstance(event, Told)]
    assert [event.wrote.strip() for event in told] == [
        "Buy or sell? What? For how much? Buy or sell?",
        "Buy or sell? Buy or sell?",
    ]
    assert shop.done == [("sell", {"thing": "hat", "price": "5"}), ("list", {})]


def test_a_prompt_that_stood_there_before_is_no_answer() -> None:
    answering = Answering(patience_s=2.0)
    answering.receive(b"Command: ", 0.0)
    answering.ask("a", [Step("Command: ", "one")], {}, 0.0)
    answering.ask("b", [Step("Command: ", "two")], {}, 0.0)
    assert answering.lines_to_send() == ["one"]
    assert answering.get_timer() == 2.0
    answering.receive(b"ok\r\nCommand: ", 1.0)
    assert answering.lines_to_send() == ["two"]
    assert [event.request for event in iter(answering.next_event, None)] == ["a", "b"]
    assert answering.get_timer() is None


def test_prompts_are_compared_without_blanks_and_case_or_as_patterns() -> None:
    answering = Answering()
    answering.ask("a", [Step("please  ENTER a topic:", "x"), Step(r"room \d+ (ok|done)", None, pattern=True)], {}, 0.0)
    answering.receive(b"Please enter\n a topic :".replace(b" :", b":"), 0.0)
    assert answering.lines_to_send() == ["x"]
    answering.receive(b"room 12 ok", 0.0)
    event = answering.next_event()
    assert isinstance(event, Told)


def test_the_end_of_a_program_fails_what_is_open() -> None:
    answering = Answering()
    answering.ask("a", [Step("Name: ", "x"), Step("Age: ", "y")], {}, 0.0)
    answering.ask("b", [Step("Name: ", "z")], {}, 0.0)
    answering.receive(b"Name: ", 0.0)
    answering.end_of_output(0.0)
    reasons = [event.reason for event in iter(answering.next_event, None) if isinstance(event, Failed)]
    assert reasons == [f"the prompt '{name}:' did not come before the program's end" for name in ("Age", "Name")]


@pytest.mark.parametrize(
    ("line", "values", "message"),
    [("{topic}", {}, "no value for 'topic'"), ("{topic}", {"topic": "a\nb"}, "more than one line")],
)
def test_values_that_cannot_be_said(line: str, values: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Answering().ask("a", [Step("x", line)], values, 0.0)


def test_a_program_that_writes_without_end_costs_no_memory() -> None:
    answering = Answering()
    for _ in range(100):
        answering.receive(b"x" * 10000, 0.0)
    assert len(answering._unread) <= 65536

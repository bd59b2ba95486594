"""Which texts can be a Spark master."""

from __future__ import annotations

import pytest

from lab.errors import InputError
from lab.model.master import spark_master


@pytest.mark.parametrize(
    "text",
    [
        *("local", "local[1]", "local[*]", "local[16]", "local[*,3]", "yarn", "k8s://https://10.0.0.1:6443"),
        *("spark://host:7077", "spark://a.example:7077,b.example:7077"),
    ],
)
def test_a_master(text: str) -> None:
    assert spark_master(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "foo",
        "local[]",
        "local[0]",
        "local[-1]",
        "local[x]",
        "local ",
        "spark://",
        "spark://host",
        "k8s://",
        "yarn1",
    ],
)
def test_what_is_no_master(text: str) -> None:
    with pytest.raises(InputError, match="is not a Spark master") as caught:
        spark_master(text)
    assert caught.value.where == "--master"


def test_it_cannot_give_orders_to_the_terminal() -> None:
    with pytest.raises(InputError) as caught:
        spark_master("\x1b[31m")
    assert "\x1b" not in str(caught.value)

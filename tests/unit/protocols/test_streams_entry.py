"""What the catalog says of streams is what the cores do."""

import random

import pytest

from lab.protocols.catalog import PROTOCOLS
from lab.protocols.streams.core import BROKER_PORT, Settings, stream_number
from lab.protocols.streams.critical import REPEAT_S
from lab.protocols.streams.parts import check

STREAMS = PROTOCOLS["streams"]


def test_defaults_and_ports() -> None:
    defaults = {option.key: option.default for option in STREAMS.options}
    assert Settings() == Settings(**defaults)
    assert STREAMS.broker_port == BROKER_PORT
    assert STREAMS.silence({}) == REPEAT_S


def test_topics_are_stream_numbers_and_every_producer_has_them() -> None:
    names = STREAMS.topics(254)
    assert [stream_number(name) for name in names] == [n for n in range(1, 256) if n != 0x99]
    assert STREAMS.topics_of is not None
    assert STREAMS.topics_of(1, 3) == STREAMS.topics_of(2, 3) == ("1", "2", "3")
    with pytest.raises(ValueError, match="at most 254"):
        STREAMS.topics(255)


@pytest.mark.parametrize(("split", "longest"), [("none", 1467), ("ip", 65502), ("protocol", 1463)])
def test_the_longest_text_fits(split: str, longest: int) -> None:
    assert STREAMS.text_limit({"split": split}) == longest
    check(b"x" * longest, split)


def test_readings_are_seeded() -> None:
    first = [STREAMS.reading(random.Random(7)) for _ in range(2)]
    assert first[0] == first[1]

import random
import re

import pytest

from lab.protocols.catalog import PROTOCOLS
from lab.protocols.fixed.core import BROKER_PORT
from lab.protocols.fixed.link import LONGEST_WAIT_S
from lab.protocols.rooms.core import FIRST_ROOMS, MAX_ROOM, Settings
from lab.protocols.rooms.wire import MAX_TEXT


def test_rooms_in_the_catalog_is_what_the_cores_do() -> None:
    rooms = PROTOCOLS["rooms"]
    assert (rooms.broker_port, rooms.max_text, rooms.max_topics) == (BROKER_PORT, MAX_TEXT, MAX_ROOM)
    assert rooms.existing_topics == tuple(str(room) for room in FIRST_ROOMS)
    defaults = {option.name: option.default for option in rooms.options}
    assert Settings() == Settings(str(defaults["arq"]), int(defaults["window"]), float(defaults["reply_timeout"]))
    assert rooms.topics(4) == ("1", "2", "3", "4")
    with pytest.raises(ValueError, match="1 to 15534"):
        rooms.topics(15535)


def test_readings_are_seeded() -> None:
    reading = PROTOCOLS["rooms"].reading
    first = [reading(random.Random(7)) for _ in range(2)]
    assert first[0] == first[1]
    assert re.fullmatch(r"The Temp is [1-9][0-9] degree ", first[0])


def test_the_longest_silence_is_the_links_own() -> None:
    assert PROTOCOLS["rooms"].silence_s == {"none": 0.0, "sliding-window": LONGEST_WAIT_S}

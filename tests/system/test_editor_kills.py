"""Storage and broker killed with -9 at random moments under load: what was acknowledged is in the log, none twice."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from editorkit import BROKER_PORT, PATIENCE_S, Place, place

EDITORS = 4
TOPICS = ("weather", "politics", "sports")


class Editors:
    """Threads that publish texts of their own, each once, and note which of them an orderly close acknowledged."""

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._changed = threading.Condition()
        self._over = threading.Event()
        self.acknowledged: list[str] = []
        self.tried = 0
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(EDITORS)]

    def __enter__(self) -> Editors:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "an editor hangs"

    def wait_for_more(self, count: int) -> None:
        """Until so many more publications are acknowledged."""
        with self._changed:
            due = len(self.acknowledged) + count
            come = self._changed.wait_for(lambda: len(self.acknowledged) >= due, PATIENCE_S)
            assert come, f"{due - len(self.acknowledged)} of {count} acknowledgements did not come in {PATIENCE_S} s"

    def _work(self, number: int) -> None:
        count = 0
        while not self._over.is_set():
            count += 1
            text = f"text {number} {count}"
            done = self._publish(TOPICS[count % len(TOPICS)], text)
            with self._changed:
                self.tried += 1
                if done:
                    self.acknowledged.append(text)
                    self._changed.notify_all()
            if not done:
                self._over.wait(0.005)  # as an editor that is started again would take a moment

    def _publish(self, topic: str, text: str) -> bool:
        try:
            with socket.create_connection((self._broker, BROKER_PORT), PATIENCE_S) as sock:
                for part in ("PUBLISH", topic, text):
                    sock.sendall(part.encode() + b"\0")
                return sock.recv(1) == b""
        except ConnectionError:
            return False


def survive(lab: Place, kills: int, seed: int) -> Editors:
    rng = random.Random(seed)
    start: dict[str, Callable[[], object]] = {"storage": lab.storage, "broker": lab.broker}
    programs = dict(zip(("storage", "broker"), lab.start(), strict=True))
    with Editors(lab.broker_at) as editors:
        for _ in range(kills):
            editors.wait_for_more(rng.randint(1, 20))
            threading.Event().wait(rng.uniform(0, 0.01))  # any moment
            victims = rng.choice((("storage",), ("broker",), ("storage", "broker"), ("broker", "storage")))
            for victim in victims:
                programs[victim].kill()
            for victim in sorted(victims, reverse=True):  # the storage first: the broker waits for it
                programs[victim] = start[victim]()  # type: ignore[assignment]
        editors.wait_for_more(20)
    return editors


@pytest.mark.parametrize("kills", [pytest.param(10, id="ten"), pytest.param(50, id="fifty", marks=pytest.mark.full)])
def test_nothing_acknowledged_is_lost_and_nothing_is_stored_twice(tmp_path: Path, kills: int) -> None:
    begun = time.monotonic()
    with place(tmp_path) as lab:
        editors = survive(lab, kills, seed=kills)
        log = Counter(text.decode() for _, text in lab.log())
    assert [text for text in editors.acknowledged if text not in log] == []
    assert [text for text, times in log.items() if times > 1] == []
    assert len(editors.acknowledged) > 10 * kills / 2
    assert editors.tried > len(editors.acknowledged)  # some were under way when a program was killed
    assert time.monotonic() - begun < 110

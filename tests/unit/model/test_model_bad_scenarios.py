"""Bad scenarios, one fault each: the whole answer of `lab check` stands next to each file.

After a wording was changed on purpose, a run with LAB_REWRITE_ANSWERS=1 in the environment writes the answers anew;
read the difference before it is committed.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import jsonschema
import pytest
from modelkit import BAD

from lab.errors import InputError
from lab.model.document import parse, read_text
from lab.model.schemas import scenario_schema
from lab.orchestrate.session import load_checked

FILES = sorted(BAD.glob("*.yaml"))
# What a schema cannot say, because it lies between two parts of a scenario or needs arithmetic.
BEYOND_A_SCHEMA = {
    "at-most-days",
    "expect-delivery-unsubscribed",
    "expect-latency-unsubscribed",
    "expect-nothing",
    "expect-only-off",
    "expect-order-unsubscribed",
    "fault-backend-kernel",
    "fault-cut-udp",
    "fault-field-unknown",
    "fault-field-value",
    "fault-from-unknown",
    "fault-nth-and-first",
    "fault-past-the-broker",
    "fault-type-unknown",
    "impair-all-twice",
    "impair-backend-cannot",
    "impair-backend-corrupt",
    "impair-blackhole-and-loss",
    "impair-bursts-and-loss",
    "impair-bursts-for-ever",
    "impair-delay-longer-than-quiet",
    "impair-jitter-huge",
    "impair-jitter-large",
    "impair-partition-one-way",
    "impair-partition-stranger",
    "impair-partition-unknown",
    "impair-queue-small",
    "impair-rate-slow",
    "impair-twice",
    "impair-unknown-node",
    "late-twice",
    "late-unknown",
    "messages-many-in-all",
    "mutant-no-difference",
    "option-duration-range",
    "quiet-default-over-at-most",
    "quiet-impatient",
    "quiet-over-at-most",
    "rate-too-high",
    "services-unknown",
    "size-large",
    "size-one",
    "size-small",
    "subnets-host-bits",
    "subnets-overlap",
    "subnets-same",
    "subnets-services-none",
    "subnets-small",
    "subnets-small-one",
    "subscribe-silent-topic",
    "subscribe-twice",
    "subscribe-unknown-node",
    "subscribe-unknown-topic",
    "timeline-backwards",
    "timeline-clear-nothing",
    "timeline-heal-nothing",
    "timeline-heal-other",
    "timeline-kill-group",
    "timeline-kill-twice",
    "timeline-late",
    "timeline-node-unknown",
    "timeline-partition-apart",
    "timeline-partition-self",
    "timeline-partition-twice",
    "timeline-resume-running",
    "timeline-two-backends",
    "too-long",
}
each_file = pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])


def test_there_are_many() -> None:
    assert len(FILES) >= 150
    assert {path.stem for path in FILES} == {path.stem for path in BAD.glob("*.txt")}


@each_file
def test_the_answer_is_the_one_beside_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD)
    with pytest.raises(InputError) as caught:
        load_checked(Path(path.name))
    answer = path.with_suffix(".txt")
    if os.environ.get("LAB_REWRITE_ANSWERS"):
        answer.write_text(f"{caught.value}\n", encoding="utf-8")
    assert f"{caught.value}\n" == answer.read_text(encoding="utf-8")


@each_file
def test_the_answer_says_where_and_what_to_do(path: Path) -> None:
    first, *rest = path.with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    file, line, column, what = first.split(":", 3)
    assert file == path.name
    assert 1 <= int(line) <= len(path.read_text(encoding="utf-8").splitlines()) + 1
    assert int(column) >= 1
    assert what.strip()
    assert rest, "neither what was expected nor what to try"
    assert all(line.startswith(("  expected: ", "  try: ")) for line in rest)
    assert not re.search(
        r"(?<!-)\b(1 (producer|consumer|message|byte|topic)s|None|dict\w*|True|False|pydantic)\b", what
    )


@each_file
def test_an_editor_with_the_schema_sees_it_too(path: Path) -> None:
    try:
        data = parse(read_text(path), path.name).data
    except InputError:
        return  # not even YAML that the lab reads
    valid = jsonschema.Draft202012Validator(scenario_schema()).is_valid(data)
    assert valid == (path.stem in BEYOND_A_SCHEMA)

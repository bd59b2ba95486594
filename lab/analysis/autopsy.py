"""Autopsies: a sentence and the frames that prove it for each delivery that is missing, double or not due."""

from __future__ import annotations

from collections.abc import Callable

from lab.analysis.evidence import Scene
from lab.analysis.facts import AUTOPSIES, Delivery, Facts
from lab.model.results import Autopsy, Evidence

Told = tuple[str, list[Evidence]]


def autopsies(facts: Facts) -> tuple[list[Autopsy], int]:
    """At most so many, missing ones first, and how many were left off."""
    scene, numbers, samples = Scene(facts.run, facts.log), facts.numbers, facts.samples
    found = [_missing(scene, row) for row in samples.missing]
    found += [_double(scene, row) for row in samples.doubled]
    found += [_not_due(scene, row) for row in samples.strange if row.strange == "not-subscribed"]
    total = numbers.expected - numbers.delivered + numbers.doubled + numbers.not_subscribed
    return found[:AUTOPSIES], total - min(len(found), AUTOPSIES)


def _missing(scene: Scene, row: Delivery) -> Autopsy:
    text, evidence = _unwatched(scene, row) or _CAUSES[row.cause or "not-sent"](scene, row)
    return Autopsy(
        what="missing",
        cause=row.cause or "not-sent",
        marker=row.marker,
        producer=row.producer,
        consumer=row.consumer,
        topic=row.topic,
        text=f"{row.marker} to {row.consumer}: {text}.",
        evidence=evidence,
    )


def _unwatched(scene: Scene, row: Delivery) -> Told | None:
    """Where no capture was taken at the broker, nobody can say which side of it a message was lost on."""
    if row.cause != "lost-before-broker" or scene.broker_link(row.producer) not in scene.run.untapped:
        return None
    sent = f"sent {times(row.sent_times)} by {row.producer}"
    return f"{sent} and never seen on its way to {row.consumer}; no capture was taken at {scene.broker}", [
        scene.sent(row)
    ]


def _never_sent(scene: Scene, row: Delivery) -> Told:
    return f"{row.producer} never sent it", []


def _lost_in(scene: Scene, row: Delivery) -> Told:
    capture = scene.link(row.producer)
    sent = f"sent {times(row.sent_times)} by {row.producer}"
    if row.sent_lost < row.sent_times:
        return f"{sent}, but never seen as a publication at {scene.broker}", [scene.sent(row)]
    how = scene.deeds.lost(
        row.sent_acts, row.sent_lost_frame, capture, scene.broker_link(row.producer), row.sent_lost_ns
    )
    note = f"{row.marker} lost on its way to {scene.broker}"
    proof = scene.at(capture, [row.sent_lost_frame], row.sent_lost_ns, note)
    return f"{sent} and {how}, {_frame(scene, row.sent_lost_frame, capture)}", [proof]


def _not_forwarded(scene: Scene, row: Delivery) -> Told:
    capture = scene.broker_link(row.producer)
    got = f"received by {scene.broker}, {_frame(scene, row.received_frame, capture)}"
    return f"{got}, and never forwarded to {row.consumer}", [scene.received(row)]


def _lost_out(scene: Scene, row: Delivery) -> Told:
    capture = scene.broker_link(row.consumer)
    sent = f"forwarded {times(row.forwarded_times)} by {scene.broker}"
    if row.forwarded_lost < row.forwarded_times:
        return f"{sent}, but never seen as a publication at {row.consumer}", [scene.forwarded(row)]
    how = scene.deeds.lost(
        row.forwarded_acts, row.forwarded_lost_frame, capture, scene.link(row.consumer), row.forwarded_lost_ns
    )
    again = "; it was never sent again" if row.forwarded_times == 1 else ""
    return f"{sent} and {how}, {_frame(scene, row.forwarded_lost_frame, capture)}{again}", [scene.forwarded(row)]


def _altered(scene: Scene, row: Delivery) -> Told:
    capture = scene.link(row.consumer)
    return f"it arrived with another text, {_frame(scene, row.arrived_frame, capture)}", [scene.arrived(row)]


def _corrupted(scene: Scene, row: Delivery) -> Told:
    """On the last way on which that happened."""
    out = row.spoilt_out_frame is not None
    acts, sender = (row.forwarded_acts, scene.broker) if out else (row.sent_acts, row.producer)
    before = scene.broker_link(row.consumer) if out else scene.link(row.producer)
    after = scene.link(row.consumer) if out else scene.broker_link(row.producer)
    frame, time_ns = (row.spoilt_out_frame, row.spoilt_out_ns) if out else (row.spoilt_in_frame, row.spoilt_in_ns)
    told = f"sent {times(row.forwarded_times if out else row.sent_times)} by {sender}"
    for how, sent_frame, wrong in scene.deeds.corrupted(acts):
        told += f" and {how}, {_frame(scene, sent_frame, before)}"
        told += f": it arrived so, {_frame(scene, frame, after)}"
        told += ", with a wrong checksum, and was not taken" if wrong else ""
        break
    proof = scene.at(after, [frame], time_ns, f"{row.marker} arrived corrupted")
    return told, [scene.forwarded(row) if out else scene.sent(row), proof]


def _not_shown(scene: Scene, row: Delivery) -> Told:
    capture = scene.link(row.consumer)
    return f"it arrived, {_frame(scene, row.arrived_frame, capture)}, and was never shown", [scene.arrived(row)]


def _shown_only(scene: Scene, row: Delivery) -> Told:
    return f"shown by {row.consumer} without ever having arrived there", [scene.shown(row)]


_CAUSES: dict[str, Callable[[Scene, Delivery], Told]] = {
    "not-sent": _never_sent,
    "lost-before-broker": _lost_in,
    "not-forwarded": _not_forwarded,
    "lost-after-broker": _lost_out,
    "altered": _altered,
    "corrupted": _corrupted,
    "not-shown": _not_shown,
    "shown-never-arrived": _shown_only,
}


def _double(scene: Scene, row: Delivery) -> Autopsy:
    shown = row.shown_frame is not None
    count, verb = (row.shown_times, "shown") if shown else (row.arrived_times, "arrived")
    forwarded = f"{scene.broker} forwarded it {times(row.forwarded_times)}"
    here = scene.broker_link(row.consumer)
    copies = [f"{how}, {_frame(scene, frame, here)}" for how, frame in scene.deeds.copied(row.forwarded_acts)]
    if row.arrived_unsent and not copies and not scene.run.files:
        copies.append(f"{row.arrived_unsent} more came than were sent: copies of the network's")
    forwarded = "; ".join([forwarded, *copies])
    return Autopsy(
        what="double",
        cause="shown-again" if shown else "arrived-again",
        marker=row.marker,
        producer=row.producer,
        consumer=row.consumer,
        topic=row.topic,
        text=f"{row.marker} to {row.consumer}: {verb} {times(count)}; {forwarded}.",
        evidence=[scene.seen(row), scene.forwarded(row)],
    )


def _not_due(scene: Scene, row: Delivery) -> Autopsy:
    done = f"{scene.broker} forwarded it {times(row.forwarded_times)}"
    why = f"{row.consumer} did not subscribe to {row.topic}"
    return Autopsy(
        what="not-due",
        cause="not-subscribed",
        marker=row.marker,
        producer=row.producer,
        consumer=row.consumer,
        topic=row.topic,
        text=f"{row.marker} to {row.consumer}: {done}, though {why}.",
        evidence=[scene.forwarded(row) if row.forwarded_times else scene.seen(row)],
    )


def _frame(scene: Scene, number: int | None, capture: str) -> str:
    return f"frame {number} of {scene.run.file(capture)}"


def times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")

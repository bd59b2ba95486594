"""The numbers of results.json, from facts and counts."""

from __future__ import annotations

from lab.analysis.facts import Facts
from lab.analysis.links import Count
from lab.analysis.wire import meaning, table_of
from lab.model.results import Bytes, Metrics, Percentiles, Segments


def metrics_of(facts: Facts, counts: list[Count]) -> Metrics:
    numbers = facts.numbers
    span = {name: _percentiles(values) for name, values in numbers.spans.items()}
    return Metrics(
        published=numbers.published,
        expected_deliveries=numbers.expected,
        delivered=numbers.delivered,
        missing=numbers.expected - numbers.delivered,
        duplicates=numbers.duplicates,
        out_of_order=numbers.out_of_order,
        retransmissions=numbers.retransmissions,
        latency_ms=span["latency_ns"],
        latency_segments_ms=Segments(
            network_up=span["network_up_ns"], broker=span["broker_ns"], network_down=span["network_down_ns"]
        ),
        bytes=_bytes(facts, counts),
    )


def _percentiles(values_ns: tuple[float, float, float, float] | None) -> Percentiles:
    if values_ns is None:
        return Percentiles()
    p50, p95, p99, top = (round(value / 1e6, 3) for value in values_ns)
    return Percentiles(p50=p50, p95=p95, p99=p99, max=top)


def _bytes(facts: Facts, counts: list[Count]) -> Bytes:
    acknowledgements = meaning(table_of(facts.run.plan), "acked")
    sent = [count for count in counts if count.direction == "up" and count.paired and count.messages]
    is_ack = {id(c): c.type in acknowledgements for c in sent}
    acks = sum(c.payload_bytes or 0 for c in sent if is_ack[id(c)])
    rest = [c for c in sent if not is_ack[id(c)]]
    total = acks + sum(c.payload_bytes or 0 for c in rest)
    payload = sum(c.text_bytes or 0 for c in rest)
    header = sum(c.header_bytes or 0 for c in rest)
    return Bytes(payload=payload, header=header, padding=total - acks - payload - header, acks=acks, total=total)

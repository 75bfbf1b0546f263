"""The end markers of transactions on the disks, behind the records of an incident.

Brokers write a control record for each transaction and partition when it ends. A read_committed consumer gets the
records only if the first marker of their producer behind them is a commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow.compute as pc

from reports.incidents.evidence import Evidence
from reports.incidents.scan import Wanted, equals, rows
from reports.review.bands import Place
from reports.review.rates import parts_of

_NO_PRODUCER_ID: Final = -1
_COLUMNS: Final = ("broker", "base_offset", "last_offset", "leader_epoch", "producer_id", "transactional", "control")


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The first end marker behind the records on one broker. control: `commit` or `abort`; None = there is none."""

    broker: int
    control: str | None
    offset: int | None
    leader_epoch: int | None


def markers_behind(evidence: Evidence, place: Place, offset: int) -> list[Marker]:
    """For each broker whose disk has the batch of a record in a transaction: the first marker of its producer behind
    it. Raises BadEvidence for a damaged part."""
    producers: dict[int, int] = {}
    for row in _batches(evidence, place, (pc.field("base_offset") <= offset) & (pc.field("last_offset") >= offset)):
        if row["transactional"] and row["producer_id"] not in (None, _NO_PRODUCER_ID) and row["control"] is None:
            producers[_number(row, "broker")] = _number(row, "producer_id")
    found = {broker: Marker(broker=broker, control=None, offset=None, leader_epoch=None) for broker in producers}
    for row in _batches(evidence, place, pc.field("control").is_valid() & (pc.field("base_offset") > offset)):
        broker, at = _number(row, "broker"), _number(row, "base_offset")
        earlier = found.get(broker)
        if earlier is None or producers[broker] != row["producer_id"] or row["control"] not in ("commit", "abort"):
            continue
        if earlier.offset is None or at < earlier.offset:
            epoch = _number(row, "leader_epoch")
            found[broker] = Marker(broker=broker, control=str(row["control"]), offset=at, leader_epoch=epoch)
    return [found[broker] for broker in sorted(found)]


def _batches(evidence: Evidence, place: Place, wanted: Wanted) -> Iterator[dict[str, object]]:
    topic, topic_id, partition = place
    of_place = equals("topic", topic) & equals("topic_id", topic_id) & equals("partition", partition)
    for file in parts_of(evidence.bundle, "batches"):
        for batch in rows(file, of_place & (pc.field("broker") >= 0) & wanted, [*_COLUMNS]):
            yield from batch.to_pylist()


def _number(row: dict[str, object], name: str) -> int:
    value = row[name]
    assert isinstance(value, int)
    return value

"""The expected verdict on a changed copy, down to the record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from harness.model.finding import Finding, Kind
from harness.model.verdict import Status

# kind, topic, partition, offset. No offset: acknowledged without one, a group without one, or a finding about the
# cluster.
Broken = tuple[str, str | None, int | None, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record at its place, as its producer and every reader know it."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    stream: int
    seq: int
    txn_id: int | None = None

    @property
    def at(self) -> dict[str, Any]:
        """The condition for its observations."""
        return {"topic": self.topic, "partition": self.partition, "offset": self.offset}

    @property
    def sent(self) -> dict[str, Any]:
        """The condition for its row in the ledger."""
        return {"stream": self.stream, "seq": self.seq}

    def moved(self, offset: int, partition: int | None = None) -> Record:
        """The same record at another place."""
        return replace(self, offset=offset, partition=self.partition if partition is None else partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The complete expected verdict. `wrong_ack_offset`: the number of records in that note."""

    status: Status
    broken: frozenset[Broken] = frozenset()
    excused: frozenset[Broken] = frozenset()
    explained: frozenset[Broken] = frozenset()
    doubts: frozenset[str] = frozenset()
    wrong_ack_offset: int = 0
    counted: bool = True  # False: too many breaches to list them
    documented: frozenset[Broken] = frozenset()  # those of `broken` without a record in findings.parquet

    def with_excused(self, excused: Iterable[Broken]) -> Expected:
        """The same, with these excused findings."""
        return replace(self, excused=frozenset(excused))


def of(kind: Kind, *records: Record) -> list[Broken]:
    """One breach for each record."""
    return [(kind.value, r.topic, r.partition, r.offset) for r in records]


def fails(
    *broken: Iterable[Broken],
    doubts: Iterable[str] = (),
    wrong_ack_offset: int = 0,
    by_documents: bool = False,
    also: Iterable[Broken] = (),
) -> Expected:
    """FAIL for these breaches and nothing else. by_documents: all are found in documents; `also` are in any case."""
    documented = frozenset(also)
    every = frozenset(one for part in broken for one in part)
    return Expected(
        status=Status.FAIL,
        broken=every | documented,
        doubts=frozenset(doubts),
        wrong_ack_offset=wrong_ack_offset,
        documented=every if by_documents else documented,
    )


def passes(*, wrong_ack_offset: int = 0, excused: Iterable[Broken] = (), explained: Iterable[Broken] = ()) -> Expected:
    """PASS, without a finding that condemns and without a doubt."""
    return Expected(
        status=Status.PASS,
        wrong_ack_offset=wrong_ack_offset,
        excused=frozenset(excused),
        explained=frozenset(explained),
    )


def doubtful(*doubts: str) -> Expected:
    """INCONCLUSIVE for the doubts with these names."""
    return Expected(status=Status.INCONCLUSIVE, doubts=frozenset(doubts))


def records_of(findings: Iterable[Finding]) -> list[Broken]:
    """The records of findings as a list: a record that is reported twice is in it twice."""
    return sorted((one for finding in findings for one in _broken_of(finding)), key=sort_key)


def sort_key(one: Broken) -> tuple[str, str, int, int]:
    """A sort order that has a place for None."""
    kind, topic, partition, offset = one
    return kind, topic or "", -1 if partition is None else partition, -1 if offset is None else offset


def _broken_of(finding: Finding) -> Iterable[Broken]:
    place = (finding.kind.value, finding.topic, finding.partition)
    if finding.offset_first is None or finding.offset_last is None:
        return [(*place, None)] * finding.count
    offsets = range(finding.offset_first, finding.offset_last + 1)
    assert len(offsets) == finding.count, f"{finding} counts otherwise than its offsets"
    return [(*place, offset) for offset in offsets]

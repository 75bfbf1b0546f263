"""Reads the probe's records back from every in-sync replica: soon after they were written, and again and again later.

A wrong record is a finding only when a second look, some seconds later and at a replica that is still in sync, shows it
too. Duplicates and a wrong order are left out, because librdkafka makes some by itself.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from harness.kafka.admin.wire import Unanswered
from harness.workload.probe.checks import Piece, Wrong, elsewhere, wrong_records
from harness.workload.probe.ledger import Acked, ProbeLedger
from harness.workload.probe.replicas import Placed, Replicas

CONFIRM_S: Final = 3.0
REFUSED_S: Final = 60.0  # an outage of the tier, or a leader that starts, may be shorter
_DROPPED_AFTER_S: Final = 600.0  # a second look that was never possible
_PIECES_MAX: Final = 20
_RECORDS_ENOUGH: Final = 200
_AROUND: Final = 1000  # offsets around a wrong one in which its record may be instead
# Errors by which a broker says that it is another one's turn, or that the log begins or ends elsewhere.
_ELSEWHERE: Final = frozenset(
    {
        "FENCED_LEADER_EPOCH",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_OR_FOLLOWER",
        "OFFSET_OUT_OF_RANGE",
        "UNKNOWN_LEADER_EPOCH",
        "UNKNOWN_TOPIC_ID",
        "UNKNOWN_TOPIC_OR_PARTITION",
    }
)


class Refusal(NamedTuple):
    """An offset at which a leader answers with an error, and since when (of `now_s`)."""

    offset: int
    since_s: float


class Suspect(NamedTuple):
    """A wrong record of one replica. Sorted, neighbours of one finding follow each other."""

    partition: int
    broker: int
    wrong: Wrong
    offset: int


@dataclass(frozen=True, slots=True)
class Finding:
    """Confirmed wrong records of one replica, in one range of offsets. tier: the remote tier served them."""

    partition: int
    broker: int
    leads: bool
    tier: bool
    wrong: Wrong
    first_offset: int
    end_offset: int


class Prober:
    """Used by one thread. counts: of records that were read, by where they came from."""

    def __init__(
        self, replicas: Replicas, ledger: ProbeLedger, *, tiered: bool, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._replicas = replicas
        self._ledger = ledger
        self._tiered = tiered
        self._now_s = now_s
        self._live: dict[tuple[int, int], int] = {}  # (partition, broker) -> next offset
        self._again: dict[tuple[int, int], int] = {}
        self._turn = 0
        self._suspects: dict[Suspect, float] = {}  # since when
        self._reported: set[Suspect] = set()
        self._refusals: dict[tuple[int, int], Refusal] = {}  # by partition and leader
        self._unreadable: dict[int, list[tuple[int, int]]] = {}  # partition -> reported ranges
        self._local: dict[int, int] = {}  # partition -> first offset on the leader's own disk

    def follow(self, placed: Sequence[Placed]) -> None:
        """Reads what is new on each in-sync replica."""
        for of in placed:
            span = self._ledger.span(of.partition)
            for broker in of.isr if span is not None else ():
                key = of.partition, broker
                at = self._live.setdefault(key, span[1] if span is not None else 0)
                self._live[key] = self._checked(of, broker, at, "new").end

    def look_again(self, placed: Sequence[Placed]) -> None:
        """Reads one more piece of one replica, in turn; once it reached the end it begins with the oldest record again,
        although the log grows meanwhile.

        An answer from the tier ends with its segment, so several short ones are one piece.
        """
        places = [(of, broker) for of in placed for broker in of.isr]
        if not places:
            return
        of, broker = places[self._turn % len(places)]
        self._turn += 1
        span = self._ledger.span(of.partition)
        if span is None:
            return
        if self._tiered and broker == of.leader:
            self._local[of.partition] = self._local_start(of)
        at = self._again.get((of.partition, broker), span[0])
        at = at if span[0] <= at <= span[1] else span[0]
        for _ in range(_PIECES_MAX):
            at = self._readable(of.partition, at)
            piece = self._checked(of, broker, at, "again")
            if broker == of.leader:
                self._note_refusal(of, piece)
            if piece.end == at or piece.end > span[1] or len(piece.records) > _RECORDS_ENOUGH:
                break
            at = piece.end
        self._again[of.partition, broker] = piece.end if piece.end <= span[1] else span[0]
        self._check_bounds(of, span)

    def confirmed(self, placed: Sequence[Placed]) -> Iterator[Finding]:
        """Second looks at what was wrong some seconds ago."""
        by_partition = {of.partition: of for of in placed}
        right: dict[Suspect, Placed] = {}
        for suspect, since_s in [*self._suspects.items()]:
            of = by_partition.get(suspect.partition)
            age_s = self._now_s() - since_s
            if age_s > _DROPPED_AFTER_S:
                del self._suspects[suspect]
            if of is None or suspect.broker not in of.isr or age_s < CONFIRM_S:
                continue
            answer = self._still_wrong(suspect, of)
            if answer is not None:
                del self._suspects[suspect]
            if answer:
                right[suspect] = of
        yield from self._findings(right)
        yield from self._refused(by_partition)

    def _note_refusal(self, of: Placed, piece: Piece) -> None:
        """A leader that answers with an error is asked again at the same offset."""
        key = of.partition, of.leader
        if piece.error is None or piece.error in _ELSEWHERE:
            self._refusals.pop(key, None)
        elif key not in self._refusals or self._refusals[key].offset != piece.first:
            self._refusals[key] = Refusal(piece.first, self._now_s())

    def _refused(self, by_partition: Mapping[int, Placed]) -> Iterator[Finding]:
        """Acknowledged records that a leader has refused for long; behind them reading goes on."""
        for (partition, broker), refusal in [*self._refusals.items()]:
            of = by_partition.get(partition)
            if of is None or of.leader != broker:
                del self._refusals[partition, broker]
                continue
            if self._now_s() - refusal.since_s < REFUSED_S:
                continue
            del self._refusals[partition, broker]
            span = self._ledger.span(partition)
            offsets = [
                acked.offset for acked in self._ledger.expected(partition, refusal.offset, (span or (0, 0))[1] + 1)
            ]
            count = self._refused_count(of, offsets)
            if not count:
                continue
            end = offsets[count - 1] + 1
            self._unreadable.setdefault(partition, []).append((refusal.offset, end))
            tier = offsets[0] < self._local.get(partition, 0)
            yield Finding(partition, broker, True, tier, Wrong.REFUSED, offsets[0], end)

    def _refused_count(self, of: Placed, offsets: Sequence[int]) -> int:
        """How many of these records, from the first one on, the leader refuses now."""
        low, high = 0, 1  # those below `low` are refused
        while high <= len(offsets) and self._is_refused(of, offsets[high - 1]):
            low, high = high, 2 * high
        high = min(high, len(offsets) + 1)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._is_refused(of, offsets[middle - 1]) else (low, middle)
        return low

    def _is_refused(self, of: Placed, offset: int) -> bool:
        try:
            error = self._replicas.read(of.leader, of.partition, offset).error
        except Unanswered:
            return False
        return error is not None and error not in _ELSEWHERE

    def _readable(self, partition: int, at: int) -> int:
        """The next offset that is in no range of refused records that were reported."""
        for first, end in self._unreadable.get(partition, ()):
            at = end if first <= at < end else at
        return at

    def _checked(self, of: Placed, broker: int, at: int, kind: str) -> Piece:
        try:
            piece = self._replicas.read(broker, of.partition, at)
        except Unanswered:
            self.counts["unanswered"] += 1
            return Piece(at, at, {})
        where = "leader" if broker == of.leader else "follower"
        if where == "leader" and piece.first < self._local.get(of.partition, 0):
            where = "tier"
        self.counts[f"read {kind} from {where}"] += len(piece.records)
        for offset, wrong in wrong_records(self._ledger.expected(of.partition, piece.first, piece.end), piece):
            self._suspect(Suspect(of.partition, broker, wrong, offset))
        return piece

    def _suspect(self, suspect: Suspect) -> None:
        if suspect not in self._reported:
            self._suspects.setdefault(suspect, self._now_s())

    def _check_bounds(self, of: Placed, span: tuple[int, int]) -> None:
        """Expected records below the leader's log start, and at or above its log end, are lost."""
        bounds = self._bounds(of)
        if bounds is None:
            return
        outside = [*self._ledger.expected(of.partition, span[0], bounds[0])]
        outside += self._ledger.expected(of.partition, bounds[1], span[1] + 1)
        for acked in outside:
            self._suspect(Suspect(of.partition, of.leader, Wrong.LOST, acked.offset))

    def _still_wrong(self, suspect: Suspect, of: Placed) -> bool | None:
        """The result of the second look; None if it was not possible."""
        expected = self._ledger.expected(suspect.partition, suspect.offset, suspect.offset + 1)
        try:
            if not expected and suspect.wrong is Wrong.LOST:
                return False  # it expired, or its loss was reported
            bounds = self._bounds(of) if suspect.broker == of.leader else None
            if bounds is not None and not bounds[0] <= suspect.offset < bounds[1]:
                return True
            piece = self._replicas.read(suspect.broker, suspect.partition, suspect.offset)
            if piece.error is not None or piece.end == piece.first:
                return None
            if not any(offset == suspect.offset for offset, _ in wrong_records(expected, piece)):
                return False
            return not (expected and self._is_elsewhere(expected[0], suspect))
        except Unanswered:
            return None

    def _is_elsewhere(self, acked: Acked, suspect: Suspect) -> bool:
        """Whether the client reported a wrong offset. The ledger has the right one then."""
        around = self._replicas.read(suspect.broker, suspect.partition, max(0, acked.offset - _AROUND))
        at = elsewhere(acked, around)
        if at is not None:
            self._ledger.move(suspect.partition, acked.offset, at)
        return at is not None

    def _bounds(self, of: Placed) -> tuple[int, int] | None:
        if of.leader < 0:
            return None
        try:
            return self._replicas.log_bounds(of.leader, of.partition)
        except Unanswered:
            return None

    def _local_start(self, of: Placed) -> int:
        found = self._replicas.local_start(of.leader, of.partition)
        return self._local.get(of.partition, 0) if found is None else found

    def _findings(self, right: dict[Suspect, Placed]) -> Iterator[Finding]:
        """One finding for each range of offsets."""
        self._reported |= right.keys()
        whole: Finding | None = None
        for suspect in sorted(right):
            leads = suspect.broker == right[suspect].leader
            one = Finding(
                partition=suspect.partition,
                broker=suspect.broker,
                leads=leads,
                tier=leads and suspect.offset < self._local.get(suspect.partition, 0),
                wrong=suspect.wrong,
                first_offset=suspect.offset,
                end_offset=suspect.offset + 1,
            )
            if whole is not None and replace(one, first_offset=whole.first_offset) == replace(
                whole, end_offset=whole.end_offset + 1
            ):
                whole = replace(whole, end_offset=one.end_offset)
                continue
            if whole is not None:
                yield whole
            whole = one
        if whole is not None:
            yield whole

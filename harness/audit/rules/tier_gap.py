"""Records between the remote tier and the brokers' disks: neither has them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from harness.audit.engine.view import View
from harness.audit.look import PartitionLook, RemoteSegment
from harness.audit.rules.ending import KEEP, KEEP_S, forgotten, undecided
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.audit.rules.sentences import of_look, ranged
from harness.audit.store.partitions import UNKNOWN, Offsets
from harness.audit.store.segments import DELETED, DELETING, FINISHED
from harness.model.clock import NS_PER_S
from harness.model.severity import Severity

_SEGMENT: Final = "segment"  # of a suspicion about copies
_DELETED: Final = "deleted"  # of a suspicion about copies that are deleted


class TierGap(Rule):
    """The highest offset in the tier grows while a look is under way, and a new leader learns of it late. So the gap
    must still be there `settle_s` later.

    Retention moves the log start first, and then deletes copies below it. A copy that is deleted above the log start,
    without another copy or a local log with its records, is a gap.

    A finished segment that begins above the end of the one before it is a gap, too: a broker deletes its own copy of
    the records between them as soon as the local retention allows it.
    """

    name: ClassVar[str] = "tier_gap"
    severity: ClassVar[Severity] = Severity.LOSS
    explanation: ClassVar[str] = (
        "Brokers may delete a local segment only after it was copied to the remote tier. They deleted records that the "
        "tier does not have, or the tier skips records that only the brokers have, or copies are deleted although the "
        "log still begins below them."
    )
    remedy: ClassVar[str] = (
        "Set local.retention.ms=-2 and local.retention.bytes=-2 on the topic, so that no broker deletes more, and look "
        "for a replica with a log that begins lower."
    )
    source: ClassVar[str] = "KIP-405; RemoteLogManager, UnifiedLog.deletableSegments"
    needs: ClassVar[frozenset[str]] = frozenset({"offsets"})
    limits: ClassVar[Mapping[str, Limit]] = {"settle_s": Limit(10.0, "a gap must last for so long"), KEEP: KEEP_S}

    def _begin(self) -> None:
        self._suspected: dict[tuple[str, int], int] = {}  # where the gap begins
        self._deleted: dict[tuple[str, int], _Deleted] = {}
        self._ends: dict[str, array[int]] = {}  # topic id -> by partition: behind the last record that was copied

    def on_look(self, look: PartitionLook, before: Offsets, view: View) -> Iterable[Suspicion]:
        if look.offsets.local_log_start == UNKNOWN or look.error is not None:
            return ()
        place, gap = (look.topic_id, look.partition), _gap(look, view)
        if gap is None:
            self._suspected.pop(place, None)
            return ()
        if self._suspected.get(place) == gap[0]:
            return ()
        self._suspected[place] = gap[0]
        suspicion = of_look(self.name, look, cause=f"{look.topic}, local copies", what="")
        return (_at_risk(suspicion, gap, look),)

    def confirmed(self, suspicion: Suspicion, look: PartitionLook, view: View) -> Suspicion | None:
        if _SEGMENT in suspicion.detail:
            return self._confirmed_copy(suspicion, look)
        if _DELETED in suspicion.detail:
            return self._confirmed_deletion(suspicion, look, view)
        if look.offsets.local_log_start == UNKNOWN:
            return undecided(suspicion, look)
        gap = _gap(look, view)
        if gap is None:
            return None
        settled = look.asked_ns - suspicion.at_ns >= self.limit_of(suspicion.topic, "settle_s") * NS_PER_S
        return _at_risk(suspicion, gap, look) if settled else replace(suspicion, again=True)

    def on_segment(self, after: RemoteSegment, before: RemoteSegment | None, view: View) -> Iterable[Suspicion]:
        if before is not None and before.state == FINISHED and after.state in (DELETING, DELETED):
            return self._of_deletion(before, after.broker, view)
        if after.state != FINISHED or (before is not None and before.state == FINISHED) or after.first_offset < 0:
            return ()
        place = after.topic_id, after.partition
        end = self._end_before(after)
        if end == UNKNOWN or after.first_offset <= end or view.partition(*place) is None:
            return ()
        suspicion = Suspicion(
            rule=self.name,
            cause=f"{after.topic}, copies",
            what="",
            at_ns=view.now_ns,
            topic=after.topic,
            topic_id=after.topic_id,
            partition=after.partition,
            end_offset=after.first_offset,
            broker=after.broker if after.broker >= 0 else None,
            needs_look=True,
            detail={_SEGMENT: after.segment_id},
        )
        return (_not_copied(suspicion, end),)

    def _confirmed_copy(self, suspicion: Suspicion, look: PartitionLook) -> Suspicion | None:
        """A copy skips deleted records rightly: DeleteRecords may have moved the log start after the last look."""
        if look.offsets.log_start == UNKNOWN:
            return undecided(suspicion, look)
        first = max(suspicion.first_offset or 0, look.offsets.log_start)
        if first >= (suspicion.end_offset or 0):
            return None
        # Brokers may still have the records.
        local = look.offsets.local_log_start <= first
        return replace(_not_copied(suspicion, first), severity=Severity.DANGER if local else None)

    def _of_deletion(self, of: RemoteSegment, broker: int, view: View) -> Iterable[Suspicion]:
        """All copies of a partition that are deleted until the second look are one suspicion."""
        place, end = (of.topic_id, of.partition), of.last_offset + 1
        if of.first_offset < 0 or view.partition(*place) is None or view.offsets(*place).log_start >= end:
            return ()
        known = self._deleted.get(place)
        first = of.first_offset if known is None else min(known.first, of.first_offset)
        self._deleted[place] = _Deleted(first, end if known is None else max(known.end, end), view.now_ns)
        suspicion = Suspicion(
            rule=self.name,
            cause=f"{of.topic}, deleted copies",
            what=f"Copies of {of.topic}/{of.partition} are deleted above the log start.",
            at_ns=view.now_ns,
            topic=of.topic,
            topic_id=of.topic_id,
            partition=of.partition,
            first_offset=of.first_offset,
            end_offset=end,
            broker=broker if broker >= 0 else None,
            needs_look=True,
            detail={_DELETED: of.segment_id},
        )
        return (suspicion,)

    def _confirmed_deletion(self, suspicion: Suspicion, look: PartitionLook, view: View) -> Suspicion | None:
        """After an election a leader takes a moment to learn the log start of the last one."""
        place = look.topic_id, look.partition
        deleted = self._deleted.get(place)
        if deleted is None:
            return None
        now = look.offsets
        if UNKNOWN in (now.log_start, now.local_log_start):
            return undecided(suspicion, look)
        missing = _uncovered(max(deleted.first, now.log_start), min(deleted.end, now.local_log_start), look, view)
        if missing is None:
            del self._deleted[place]
            return None
        if look.asked_ns - deleted.last_ns < self.limit_of(suspicion.topic, "settle_s") * NS_PER_S:
            return replace(suspicion, again=True)
        del self._deleted[place]
        first, end = missing
        what = (
            f"Copies of {look.topic}/{look.partition} were deleted from the tier, although the log begins at "
            f"{now.log_start}: {ranged(first, end)}, are neither in another copy nor on the leader's disk."
        )
        return replace(suspicion, what=what, first_offset=first, end_offset=end)

    def over(self, suspicion: Suspicion, view: View) -> bool:
        deleted = view.offsets(suspicion.topic_id, suspicion.partition or 0).log_start >= (suspicion.end_offset or 0)
        return deleted or forgotten(self, suspicion, view)

    def _end_before(self, segment: RemoteSegment) -> int:
        """The end of the copies before this one; UNKNOWN if it is the first."""
        ends = self._ends.setdefault(segment.topic_id, array("q"))
        if len(ends) <= segment.partition:
            ends.extend([UNKNOWN] * (segment.partition + 1 - len(ends)))
        end = ends[segment.partition]
        ends[segment.partition] = max(end, segment.last_offset + 1)
        return end


@dataclass(frozen=True, slots=True)
class _Deleted:
    """The offsets of copies that brokers began to delete lately, and when the last one was."""

    first: int
    end: int
    last_ns: int


def _uncovered(first: int, end: int, look: PartitionLook, view: View) -> tuple[int, int] | None:
    """The records between two offsets that no finished segment has, without those that some have at both ends."""
    copies = [s for s in view.tier_segments(look.topic_id, look.partition) if s.state == FINISHED]
    for of in sorted(copies, key=lambda s: s.first_offset):
        if of.first_offset <= first <= of.last_offset:
            first = of.last_offset + 1
    for of in sorted(copies, key=lambda s: -s.last_offset):
        if of.first_offset < end <= of.last_offset + 1:
            end = of.first_offset
    return (first, end) if first < end else None


def _gap(look: PartitionLook, view: View) -> tuple[int, int] | None:
    """The records below the leader's own log that the tier does not have."""
    now = look.offsets
    if now.highest_tiered == UNKNOWN:
        if view.tier_bytes(look.topic_id, look.partition) != 0 or now.log_start == UNKNOWN:
            return None
        first = now.log_start
    else:
        first = max(now.highest_tiered + 1, now.log_start)
    return (first, now.local_log_start) if first < now.local_log_start else None


def _not_copied(suspicion: Suspicion, first: int) -> Suspicion:
    end = suspicion.end_offset or 0
    what = (
        f"The tier has no record between offsets {first} and {end} of {suspicion.topic}/{suspicion.partition}: segment "
        f"{suspicion.detail[_SEGMENT]} begins there, so {ranged(first, end)}, were not copied."
    )
    return replace(suspicion, what=what, first_offset=first)


def _at_risk(suspicion: Suspicion, gap: tuple[int, int], look: PartitionLook) -> Suspicion:
    first, end = gap
    what = (
        f"The leader's own log of {look.topic}/{look.partition} begins at {end}, and the tier ends below {first}: "
        f"{ranged(first, end)}, are in neither."
    )
    return replace(suspicion, what=what, first_offset=first, end_offset=end)

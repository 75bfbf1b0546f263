"""The remote tier should have an object, and the storage does not have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from harness.audit.engine.view import View
from harness.audit.look import ObjectLook
from harness.audit.rules.ending import KEEP, KEEP_S, forgotten
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.audit.store.partitions import UNKNOWN
from harness.audit.store.segments import FINISHED
from harness.model.severity import Severity

_SEGMENT: Final = "segment"


class TierObjectMissing(Rule):
    """A list of segments is older than a look at the storage, and meanwhile retention may have deleted the object. So
    the metadata counts that was read after the object was missing."""

    name: ClassVar[str] = "tier_object_missing"
    severity: ClassVar[Severity] = Severity.LOSS
    explanation: ClassVar[str] = (
        "The metadata says that the copy of a segment is finished, and its object is not in the storage. Its records "
        "are lost, unless brokers still have them on their own disks."
    )
    remedy: ClassVar[str] = (
        "Restore the object from a version or a backup of the storage. While brokers have the records, set "
        "local.retention.ms=-2 and local.retention.bytes=-2 on the topic."
    )
    source: ClassVar[str] = "KIP-405; RemoteStorageManager"
    needs: ClassVar[frozenset[str]] = frozenset({"tier", "objects"})
    limits: ClassVar[Mapping[str, Limit]] = {KEEP: KEEP_S}

    def _begin(self) -> None:
        self._back: set[str] = set()

    def on_object(self, look: ObjectLook, view: View) -> Iterable[Suspicion]:
        segment = look.segment
        if look.back:
            self._back.add(segment.segment_id)
            return ()
        self._back.discard(segment.segment_id)
        place = segment.topic_id, segment.partition
        if look.metadata_ns <= look.missing_ns or look.state != FINISHED or view.partition(*place) is None:
            return ()
        seen = view.offsets(*place)
        first, end = max(segment.first_offset, seen.log_start), segment.last_offset + 1
        if first >= end:
            return ()  # retention is about to delete it
        local = seen.local_log_start != UNKNOWN and seen.local_log_start <= first
        where = "brokers still have them on their disks" if local else "no broker has all of them on its disk"
        if seen.local_log_start == UNKNOWN:
            where = "whether brokers still have them is not known"
        what = (
            f"Object {look.object_name} of {segment.topic}/{segment.partition} is missing; its segment "
            f"{segment.segment_id} has offsets {first} to {end - 1}, and {where}."
        )
        return (
            Suspicion(
                rule=self.name,
                cause=f"objects of {segment.topic}",
                what=what,
                at_ns=look.missing_ns,
                topic=segment.topic,
                topic_id=segment.topic_id,
                partition=segment.partition,
                first_offset=first,
                end_offset=end,
                severity=Severity.DANGER if local else None,
                detail={_SEGMENT: segment.segment_id},
            ),
        )

    def over(self, suspicion: Suspicion, view: View) -> bool:
        if suspicion.detail[_SEGMENT] in self._back:
            return True
        deleted = view.offsets(suspicion.topic_id, suspicion.partition or 0).log_start >= (suspicion.end_offset or 0)
        return deleted or forgotten(self, suspicion, view)

"""What the remote tier serves of a partition, by its logs there."""

from __future__ import annotations

from pathlib import Path

from harness.faults.steps.effect import Probe
from harness.faults.steps.step import EffectProof, Place
from harness.faults.steps.step_context import Stage
from harness.kafka.storage.local_tier import LOG, TierObject, objects_of, read_object
from harness.kafka.storage.record_batch import Batch
from harness.model.errors import HarnessFailure

Log = tuple[TierObject, tuple[Batch, ...]]


def whole_logs(store: Path, place: Place) -> list[Log]:
    """Of a partition, in the order of their offsets, without copies that are underway. HarnessFailure where the tier
    has none."""
    mine = (one for one in objects_of(store, [place[0]]) if one.partition == place[1] and one.kind == LOG)
    read = ((one, content) for one in mine if (content := read_object(one)) is not None)
    found = [(one, content.batches) for one, content in read if content.batches and not content.faulty]
    if not found:
        where = f"{place[0]}-{place[1]}"
        raise HarnessFailure(f"no segment of {where} is in the remote tier; wait for it (wait_tiered) before")
    return found


def served_otherwise(stage: Stage, place: Place, was: bytes, batch: Batch) -> Probe:
    """The leader, asked for the batch, has it no more, or not as it was."""
    wanted = was[batch.position : batch.position + batch.size_bytes]
    where = f"{place[0]}-{place[1]} at offset {batch.base_offset}"

    def probe() -> EffectProof:
        served = stage.admin.fetch(*place, batch.base_offset, len(wanted))
        if served is None:
            return EffectProof(False, f"no leader of {where} answers")
        seen = {"error": served.error, "bytes": len(served.records)}
        if served.records.startswith(wanted):
            return EffectProof(False, f"the leader serves {where} as it was", seen)
        reported = served.error or ("other bytes" if served.records else "nothing")
        return EffectProof(True, f"the leader of {where} answered with {reported}", seen)

    return probe

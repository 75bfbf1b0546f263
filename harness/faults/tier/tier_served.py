"""The segments of a partition in the remote tier, and how the leader serves them."""

from __future__ import annotations

from pathlib import Path

from harness.faults.steps.effect import Probe
from harness.faults.steps.step import EffectProof
from harness.faults.steps.step_context import StepContext
from harness.kafka.storage.local_tier import LOG, TierObject, objects_of, read_object
from harness.kafka.storage.record_batch import Batch
from harness.model.errors import HarnessFailure
from harness.model.place import Place

Log = tuple[TierObject, tuple[Batch, ...]]


def whole_logs(store: Path, place: Place) -> list[Log]:
    """The segments of a partition in the tier, in the order of their offsets, without copies that are under way.

    HarnessFailure when there are none.
    """
    mine = (one for one in objects_of(store, [place[0]]) if one.partition == place[1] and one.kind == LOG)
    read = ((one, content) for one in mine if (content := read_object(one)) is not None)
    found = [(one, content.batches) for one, content in read if content.batches and not content.faulty]
    if not found:
        where = f"{place[0]}-{place[1]}"
        raise HarnessFailure(f"no segment of {where} is in the remote tier; add a step wait_tiered before this one")
    return found


def served_differently(context: StepContext, place: Place, was: bytes, batch: Batch) -> Probe:
    """Proof: the leader answers a fetch of the batch with an error, with nothing, or with other bytes."""
    wanted = was[batch.position : batch.position + batch.size_bytes]
    where = f"{place[0]}-{place[1]} at offset {batch.base_offset}"

    def probe() -> EffectProof:
        served = context.admin.fetch(*place, batch.base_offset, len(wanted))
        if served is None:
            return EffectProof(False, f"no leader of {where} answers")
        seen = {"error": served.error, "bytes": len(served.records)}
        if served.records.startswith(wanted):
            return EffectProof(False, f"the leader serves {where} as before", seen)
        reported = served.error or ("other bytes" if served.records else "nothing")
        return EffectProof(True, f"the leader of {where} answered with {reported}", seen)

    return probe

"""A corrupt object in the remote tier. Brokers serve it without checking its checksum."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step import Fault, Injection, PartitionExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.targets import place_of
from harness.faults.tier.common import require_tier_folder, store_of
from harness.faults.tier.tier_served import served_differently, whole_logs
from harness.kafka.storage.record_batch import HEADER_BYTES, Batch
from harness.model.facts import FactKind

What = Literal["lost", "flip", "cut", "zero", "another"]
DEADLINE_S: Final = 20.0


@dataclass(frozen=True, kw_only=True)
class DamageObject(Fault):
    """what: "lost": the object is missing; "flip": one bit of a record in its middle is flipped; "cut": its last batch
    is missing; "zero": it has only zeros; "another": it has the content of the partition's newest segment in the tier.
    kept, for negative controls: it is not restored.
    """

    do: ClassVar[str] = "damage_object"
    facts: ClassVar[Declares] = (Declared(FactKind.TIER_OBJECTS_CHANGED),)
    summary: ClassVar[str] = (
        "Damages (`what`) the oldest segment of a partition in the remote tier; healing restores it."
    )
    proof: ClassVar[str] = (
        "the leader answers a fetch of the changed batch with an error, with nothing, or with other bytes"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"disk.read", "disk.write"})
    of: PartitionExpr
    what: What
    kept: bool = False

    def validate(self, plan: StepValidation) -> None:
        require_tier_folder(plan, self.do, [plan.topic(place_of(self.of)[0])])

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        place = place_of(self.of)
        logs = whole_logs(store_of(context), place)
        one, batches = logs[0]
        was = one.path.read_bytes()
        batch = batches[{"flip": len(batches) // 2, "cut": -1}.get(self.what, 0)]
        resolved = {"object": one.path.name, "what": self.what, "byte": batch.position, "offset": batch.base_offset}
        try:
            self._change(one.path, was, batch, logs[-1][0].path)
            yield Injection(
                resolved=resolved, probe=served_differently(context, place, was, batch), deadline_s=DEADLINE_S
            )
        finally:
            if not self.kept:
                _put(one.path, was)

    def _change(self, path: Path, was: bytes, batch: Batch, another: Path) -> None:
        if self.what == "lost":
            path.unlink()
        elif self.what == "another":
            _put(path, another.read_bytes())
        elif self.what == "flip":
            # In the middle of the first record: at its start, a client would stop at an impossible length.
            at = batch.position + HEADER_BYTES + (batch.size_bytes - HEADER_BYTES) // (2 * batch.records)
            _put(path, was[:at] + bytes([was[at] ^ 1]) + was[at + 1 :])
        else:
            _put(path, was[: batch.position] if self.what == "cut" else bytes(len(was)))


def _put(path: Path, content: bytes) -> None:
    """Replaces a file atomically: a reader gets all of the old content, or all of the new one."""
    arriving = path.with_name("arriving")
    arriving.write_bytes(content)
    arriving.replace(path)

"""Another folder in the place of the remote tier, as after a wrong mount: brokers copy to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import Probe
from harness.faults.steps.step import EffectProof, Fault, Injection
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.tier.common import require_tier_folder, store_of, tiered_places
from harness.faults.tier.tier_outage import exchange
from harness.faults.tier.tier_served import served_differently, whole_logs
from harness.kafka.storage.local_tier import LOG, ROOT, objects_of
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.scenario.scenario import TIERS_IN_FOLDER

DEADLINE_S: Final = 30.0
_OTHER: Final = "other"


@dataclass(frozen=True, kw_only=True)
class TierSwapped(Fault):
    """Objects that were copied to the other folder are moved to the right one on healing."""

    do: ClassVar[str] = "tier_swapped"
    facts: ClassVar[Declares] = (Declared(FactKind.TIER_UNAVAILABLE),)
    summary: ClassVar[str] = (
        "Replaces the folder of the remote tier by an empty one; healing restores it and moves the new copies into it."
    )
    proof: ClassVar[str] = "leaders do not serve older tiered records, and new copies are in the other folder"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.read", "disk.write"})

    def validate(self, plan: StepValidation) -> None:
        require_tier_folder(plan, self.do)
        if plan.scenario.shape.tier not in TIERS_IN_FOLDER:  # a server has the folder open
            raise BadInput(f'{self.do} needs a folder that brokers share; set tier = "local" in [shape]')

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        store = store_of(context)
        folder, other = store / ROOT, store / _OTHER
        probe = _swapped(context, store)
        other.mkdir()
        try:
            exchange(folder, other)
            yield Injection(resolved={"folder": ROOT}, probe=probe, deadline_s=DEADLINE_S)
        finally:
            if any(other.iterdir()):
                exchange(folder, other)
            _move_into(folder, other)


def _swapped(context: StepContext, store: Path) -> Probe:
    """Proof: leaders do not serve older tiered records any more, and new copies are in the other folder."""
    places = tiered_places(context)
    names = sorted({topic for topic, _ in places})
    asked = []
    for place in places:
        one, batches = whole_logs(store, place)[0]
        asked.append(served_differently(context, place, one.path.read_bytes(), batches[0]))

    def probe() -> EffectProof:
        copied = sum(one.kind == LOG for one in objects_of(store, names))
        if not copied:
            return EffectProof(False, "no broker has copied a segment into the other folder")
        for ask in asked:
            if not (answer := ask()).held:
                return answer
        because = f"{copied} segments were copied into the other folder, and no older one is served"
        return EffectProof(True, because, {"copied": copied})

    return probe


def _move_into(folder: Path, other: Path) -> None:
    """Moves all files of `other` into `folder` and removes it; a broker that writes to a file continues to do so."""
    for place in other.iterdir():
        home = folder / place.name
        home.mkdir(exist_ok=True)
        for file in place.iterdir():
            file.rename(home / file.name)
        place.rmdir()
    other.rmdir()

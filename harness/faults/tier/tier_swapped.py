"""Brokers find another folder in the place of their remote tier, as after a wrong mount, and copy to that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from harness.faults.steps.effect import Probe
from harness.faults.steps.step import Bite, Fault, Injection
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import Foresight
from harness.faults.tier.common import foresee_folder, store_of, tiered_places
from harness.faults.tier.tier_outage import exchange
from harness.faults.tier.tier_served import served_otherwise, whole_logs
from harness.kafka.storage.local_tier import LOG, ROOT, objects_of
from harness.model.errors import BadInput
from harness.model.scenario.scenario import TIERS_IN_FOLDER

DEADLINE_S: Final = 30.0
_OTHER: Final = "other"


@dataclass(frozen=True, kw_only=True)
class TierSwapped(Fault):
    """Swaps the folder of the remote tier for an empty one; healing puts it back, with what was copied meanwhile."""

    do: ClassVar[str] = "tier_swapped"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.read", "disk.write"})

    def foresee(self, plan: Foresight) -> None:
        """See `Kind`. BadInput where a server has the folder open."""
        foresee_folder(plan, self.do)
        if plan.scenario.shape.tier not in TIERS_IN_FOLDER:
            raise BadInput(f'{self.do} is about a folder that brokers share: say tier = "local" in [shape]')

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        store = store_of(stage)
        folder, other = store / ROOT, store / _OTHER
        probe = _swapped(stage, store)
        other.mkdir()
        try:
            exchange(folder, other)
            yield Injection(resolved={"folder": ROOT}, probe=probe, deadline_s=DEADLINE_S)
        finally:
            if any(other.iterdir()):
                exchange(folder, other)
            _move_into(folder, other)


def _swapped(stage: Stage, store: Path) -> Probe:
    """What had been copied is served no more, and what was copied since lies in the other folder."""
    places = tiered_places(stage)
    names = sorted({topic for topic, _ in places})
    asked = []
    for place in places:
        one, batches = whole_logs(store, place)[0]
        asked.append(served_otherwise(stage, place, one.path.read_bytes(), batches[0]))

    def probe() -> Bite:
        copied = sum(one.kind == LOG for one in objects_of(store, names))
        if not copied:
            return Bite(False, "no broker has copied a segment into the other folder")
        for ask in asked:
            if not (answer := ask()).held:
                return answer
        because = f"{copied} segments were copied into the other folder, and nothing older is served"
        return Bite(True, because, {"copied": copied})

    return probe


def _move_into(folder: Path, other: Path) -> None:
    """All that is in the other one, which goes; who is writing to a file of it goes on in the same file."""
    for place in other.iterdir():
        home = folder / place.name
        home.mkdir(exist_ok=True)
        for file in place.iterdir():
            file.rename(home / file.name)
        place.rmdir()
    other.rmdir()

"""What a tier whose storage can fail (`tier_faults`) is told to do, and what it says that it did; see FaultyStorage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from harness.faults.steps.effect import Probe
from harness.faults.steps.step import EffectProof
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.targets import place_of
from harness.faults.tier.common import foresee_tier, store_of
from harness.kafka.settings.tier_settings import ORDERS, TOLD
from harness.model.clock import now_ns
from harness.model.errors import BadInput

# Of a remote storage manager (KIP-405): stores a segment, reads one, reads an index of one, deletes one.
Op = Literal["copy", "fetch", "index", "delete"]
_NAMED: Final = 3  # partitions that a bite names


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that the storage of a broker did because of an order."""

    broker: int
    at_ms: int
    op: str
    did: str
    topic: str
    partition: int
    segment_id: str
    base_offset: int


def check_ops(ops: Collection[Op]) -> None:
    """BadInput where none is named."""
    if not ops:
        raise BadInput('ops: names no operation; write for example ["copy"]')


def foresee_orders(plan: StepValidation, what: str, of: str) -> None:
    """BadInput without a tier that takes orders, or about a topic that is not in it."""
    foresee_tier(plan, what, [plan.topic(place_of(of)[0])] if of else ())
    if not plan.scenario.shape.tier_faults:
        raise BadInput(f"{what} is done by the storage itself: say tier_faults = true in [shape]")


@contextmanager
def ordered(stage: Stage, what: str, ops: Collection[Op], of: str, **more: object) -> Iterator[Path]:
    """The order is there inside, and gone outside; a key with None is left out."""
    place = place_of(of) if of else (None, None)
    says = {"what": what, "ops": ",".join(ops), "topic": place[0], "partition": place[1], **more}
    order = store_of(stage) / ORDERS / f"{what}-{now_ns()}.properties"
    arriving = order.with_suffix(".arriving")  # no broker reads half of it
    arriving.write_text("".join(f"{key}={value}\n" for key, value in says.items() if value is not None), "ascii")
    arriving.replace(order)
    try:
        yield order
    finally:
        order.unlink(missing_ok=True)


def deeds(stage: Stage, order: Path) -> list[Deed]:
    """What was done by this order so far, in each broker's own sequence."""
    return [
        Deed(int(file.stem), int(at_ms), op, did, topic, int(partition), segment, int(base))
        for file in sorted((store_of(stage) / TOLD).glob("*.tsv"))
        for at_ms, name, op, did, topic, partition, segment, base in _lines(file)
        if name == order.name
    ]


def done_by(stage: Stage, order: Path, did: Mapping[str, str]) -> Probe:
    """Some broker's storage did it; `did` puts its words into ours."""

    def probe() -> EffectProof:
        found = [deed for deed in deeds(stage, order) if deed.did in did]
        if not found:
            return EffectProof(False, "no broker has asked that of the remote tier since")
        reported = Counter(f"{deed.op} {did[deed.did]}" for deed in found)
        seen = {"deeds": dict(reported), "brokers": sorted({deed.broker for deed in found})}
        places = sorted({f"{deed.topic}/{deed.partition}" for deed in found})
        what = ", ".join(f"{n} times {deed}" for deed, n in sorted(reported.items()))
        return EffectProof(True, f"of {', '.join(places[:_NAMED])}: {what}", seen)

    return probe


def _lines(file: Path) -> Iterator[list[str]]:
    """Those that are whole: a broker may be writing, or was killed while it did."""
    for line in file.read_text("utf-8").splitlines(keepends=True):
        if line.endswith("\n") and len(cells := line.rstrip("\n").split("\t")) == 8:
            yield cells

"""Orders to the faulty storage of a tier (`tier_faults`; Java class FaultyStorage), and its reports of what it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from harness.faults.steps.effect import Probe
from harness.faults.steps.step import EffectProof
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.targets import place_of
from harness.faults.tier.common import require_tier, store_of
from harness.kafka.settings.tier_settings import ORDERS, REPORTS
from harness.model.clock import now_ns
from harness.model.errors import BadInput

# The operations of a remote storage manager (KIP-405): store a segment, read it, read an index of it, delete it.
Op = Literal["copy", "fetch", "index", "delete"]
_NAMED: Final = 3  # the most partitions that an effect proof names


@dataclass(frozen=True, slots=True)
class StorageAct:
    """An operation that the storage of a broker changed because of an order."""

    broker: int
    at_ms: int
    op: str
    did: str
    topic: str
    partition: int
    segment_id: str
    base_offset: int


def check_ops(ops: Collection[Op]) -> None:
    """BadInput for an empty `ops`."""
    if not ops:
        raise BadInput('ops: names no operation; write for example ["copy"]')


def require_tier_faults(plan: StepValidation, what: str, of: str) -> None:
    """BadInput without a tier that takes orders, or for a topic that is not in it."""
    require_tier(plan, what, [plan.topic(place_of(of)[0])] if of else ())
    if not plan.scenario.shape.tier_faults:
        raise BadInput(f"{what} needs the faulty storage; set tier_faults = true in [shape]")


@contextmanager
def ordered(context: StepContext, what: str, ops: Collection[Op], of: str, **more: object) -> Iterator[Path]:
    """The order is in force inside. A key with the value None is left out."""
    place = place_of(of) if of else (None, None)
    says = {"what": what, "ops": ",".join(ops), "topic": place[0], "partition": place[1], **more}
    order = store_of(context) / ORDERS / f"{what}-{now_ns()}.properties"
    arriving = order.with_suffix(".arriving")  # so that no broker reads half an order
    arriving.write_text("".join(f"{key}={value}\n" for key, value in says.items() if value is not None), "ascii")
    arriving.replace(order)
    try:
        yield order
    finally:
        order.unlink(missing_ok=True)


def acts_of(context: StepContext, order: Path) -> list[StorageAct]:
    """The operations that the storage of all brokers changed by this order so far, in each broker's own sequence."""
    return [
        StorageAct(int(file.stem), int(at_ms), op, did, topic, int(partition), segment, int(base))
        for file in sorted((store_of(context) / REPORTS).glob("*.tsv"))
        for at_ms, name, op, did, topic, partition, segment, base in _lines(file)
        if name == order.name
    ]


def done_by(context: StepContext, order: Path, did: Mapping[str, str]) -> Probe:
    """Proof: the storage of some broker did one of `did`, which maps its words to those of the message."""

    def probe() -> EffectProof:
        found = [act for act in acts_of(context, order) if act.did in did]
        if not found:
            return EffectProof(False, "no broker has asked the remote tier for such an operation since then")
        counts = Counter(f"{act.op} {did[act.did]}" for act in found)
        seen = {"deeds": dict(counts), "brokers": sorted({act.broker for act in found})}
        places = sorted({f"{act.topic}/{act.partition}" for act in found})
        what = ", ".join(f"{n} times {act}" for act, n in sorted(counts.items()))
        return EffectProof(True, f"{', '.join(places[:_NAMED])}: {what}", seen)

    return probe


def _lines(file: Path) -> Iterator[list[str]]:
    """The complete lines: a broker may be writing, or may have been killed while it wrote."""
    for line in file.read_text("utf-8").splitlines(keepends=True):
        if line.endswith("\n") and len(cells := line.rstrip("\n").split("\t")) == 8:
            yield cells

"""A read-process-write application that dies during its work; another one takes over, perhaps from a zombie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.load import ProcessorDeath
from harness.faults.steps.step import EffectProof, Fault, GroupRef, Injection
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.model.clock import now_ns
from harness.model.documents.steps import ProcessorDied
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.scenario.scenario import STREAMS, Count, Moment, Processing

# The errors for a producer after another producer has taken over its transactional id (KIP-98, KIP-360).
_FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})


@dataclass(frozen=True, kw_only=True)
class ProcessorDies(Fault):
    """at: the processor dies when it has "read" the records; when it has "produced" its outputs; when it has added its
    "offsets" to the transaction, or committed them; or when it has sent the "commit" of the transaction, without
    receiving the answer. Another one with the same transactional id takes over, and so ends the open transaction.
    zombie: the first one keeps running, writes its outputs again and commits after the takeover; it must be fenced.
    An application of Kafka Streams is killed (SIGKILL) when its outputs are in the log, and its transaction must time
    out. An event `processor_died` records the offsets that it worked on.
    """

    do: ClassVar[str] = "processor_dies"
    facts: ClassVar[Declares] = (Declared(FactKind.CLIENT_DIED),)
    summary: ClassVar[str] = (
        "Makes the processor of a group die at a moment (`at`) of its work on the next `records` records; with "
        "`zombie`, it continues after another one took over."
    )
    proof: ClassVar[str] = (
        "it received that many records and did not get further than that moment (Kafka Streams: it was killed with "
        "that many records in the log and not committed); with `zombie`, the old processor was fenced"
    )
    group: GroupRef
    at: Moment
    records: Count = 50
    zombie: bool = False

    def declared(self) -> Declares:
        return (Declared(FactKind.CLIENT_DIED, client=self.group),)

    def validate(self, plan: StepValidation) -> None:
        found: list[Processing] = [p.processes for p in plan.scenario.producers if p.processes]
        if self.group not in [p.group for p in found]:
            raise BadInput(f"group: {self.group} is no group of a processor; for a reader use reader_dies")
        if self.zombie and self.at not in ("produced", "offsets"):
            raise BadInput(f'zombie: at "{self.at}" the processor has no open transaction; set at = "produced"')
        for producer in plan.scenario.producers:
            if producer.client == STREAMS and producer.processes and producer.processes.group == self.group:
                self._validate_streams(producer.processes)

    def _validate_streams(self, work: Processing) -> None:
        if self.at == "read":
            raise BadInput('at: Kafka Streams produces as soon as it has read a record; set at = "produced"')
        if self.at != "produced" and work.commits != "transaction":
            raise BadInput(f'at: at_least_once has no transaction with offsets at "{self.at}"; set at = "produced"')
        if self.zombie:
            raise BadInput("zombie: an application of Kafka Streams is killed, so it cannot be a zombie; leave it out")

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        death = context.load.crash_processor(self.group, self.at, self.records, zombie=self.zombie)
        try:
            yield Injection(resolved={"records": self.records}, probe=lambda: self._effect(death))
        finally:
            death.called_off = True
            for (topic, partition), (first, end) in sorted((death.between or {}).items()):
                context.record_event(
                    ProcessorDied(
                        topic=topic,
                        partition=partition,
                        at_ns=now_ns(),
                        group=self.group,
                        at=self.at,
                        from_offset=first,
                        before_offset=end,
                    )
                )

    def _effect(self, death: ProcessorDeath) -> EffectProof:
        if death.between is None:
            return EffectProof(False, f"the processor of {self.group} received {death.held} of {self.records} records")
        between = {f"{t}/{p}": list(span) for (t, p), span in sorted(death.between.items())}
        count = sum(end - first for first, end in death.between.values())
        if death.unlogged:
            return EffectProof(
                False, f"the processor of {self.group} died before {death.unlogged} of its outputs were in a log"
            )
        if self.zombie and death.fenced not in _FENCED:
            reported = "could commit" if death.fenced == "" else f"got {death.fenced}"
            return EffectProof(False, f"the zombie of {self.group} was not fenced: it {reported}")
        fenced = f", and its zombie was fenced ({death.fenced})" if self.zombie else ""
        because = f"the processor of {self.group} died while it worked on {count} records{fenced}"
        return EffectProof(True, because, between)

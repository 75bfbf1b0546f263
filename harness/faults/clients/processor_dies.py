"""An application that reads and writes dies at a moment of its work; another one takes over, perhaps from a zombie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from harness.faults.steps.step import EffectProof, Fault, GroupRef, Injection
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.model.errors import BadInput
from harness.model.scenario.scenario import STREAMS, Count, Moment, Processing

# What brokers and librdkafka answer to a producer whose transactional id another one has now (KIP-98, KIP-360).
_FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})


@dataclass(frozen=True, kw_only=True)
class ProcessorDies(Fault):
    """Lets the processor of a group die at a moment of its work on the next `records` that it is given.

    at: when it has "read" them, has written what it makes of them ("produced"), has given its offsets to the
    transaction, or committed them ("offsets"), or has sent the "commit" of the transaction, whose answer it does not
    hear. Another one takes its place: with the same transactional id, so that it ends what was left open. zombie: the
    first one lives on, writes all once more and commits, when the other one has taken over; it must be fenced. One of
    Kafka Streams is killed (SIGKILL) when the log has what it made, and its transaction has to time out. An event
    `processor_died` tells the offsets that it worked on.
    """

    do: ClassVar[str] = "processor_dies"
    group: GroupRef
    at: Moment
    records: Count = 50
    zombie: bool = False

    def victims(self) -> str:
        """Nobody that a process of the cluster runs for."""
        return ""

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        found: list[Processing] = [p.processes for p in plan.scenario.producers if p.processes]
        if self.group not in [p.group for p in found]:
            raise BadInput(f"group: {self.group} is no group of a processor; let a reader die by reader_dies")
        if self.zombie and self.at not in ("produced", "offsets"):
            raise BadInput(f'zombie: one that dies at "{self.at}" has no transaction open; say at = "produced"')
        for producer in plan.scenario.producers:
            if producer.client == STREAMS and producer.processes and producer.processes.group == self.group:
                self._foresee_streams(producer.processes)

    def _foresee_streams(self, work: Processing) -> None:
        if self.at == "read":
            raise BadInput('at: Kafka Streams makes a record as soon as it has read one; say at = "produced"')
        if self.at != "produced" and work.commits != "transaction":
            raise BadInput(f'at: by at_least_once offsets are in no transaction at "{self.at}"; say at = "produced"')
        if self.zombie:
            raise BadInput("zombie: an application of Kafka Streams is killed, and lives no more; leave zombie out")

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        death = stage.load.let_process_and_die(self.group, self.at, self.records, zombie=self.zombie)
        try:
            yield Injection(resolved={"records": self.records}, probe=lambda: self._effect(death))
        finally:
            death.called_off = True
            for (topic, partition), (first, end) in sorted((death.between or {}).items()):
                stage.record_event(
                    "processor_died",
                    topic=topic,
                    partition=partition,
                    group=self.group,
                    at=self.at,
                    from_offset=first,
                    before_offset=end,
                )

    def _effect(self, death: Any) -> EffectProof:
        if death.between is None:
            return EffectProof(False, f"the processor of {self.group} was given {death.held} of {self.records} records")
        between = {f"{t}/{p}": list(span) for (t, p), span in sorted(death.between.items())}
        count = sum(end - first for first, end in death.between.values())
        if death.unlogged:
            return EffectProof(
                False, f"the processor of {self.group} died before {death.unlogged} records were in a log"
            )
        if self.zombie and death.fenced not in _FENCED:
            reported = "could commit" if death.fenced == "" else f"was told {death.fenced}"
            return EffectProof(False, f"the zombie of {self.group} was not fenced: it {reported}")
        fenced = f", and its zombie was fenced ({death.fenced})" if self.zombie else ""
        return EffectProof(True, f"the processor of {self.group} died with {count} records in work{fenced}", between)

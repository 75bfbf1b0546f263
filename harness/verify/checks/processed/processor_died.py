"""Records that an application processed twice or never because it does not commit its offsets in its output's
transactions: those in progress when a step killed it, and any while brokers failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.model.documents.steps import ProcessorDied
from harness.model.excuse import Evidence
from harness.model.facts import FactKind
from harness.model.finding import Kind
from harness.verify.engine.case import Case
from harness.verify.excuse import Excuse, of_fact
from harness.verify.excuses.clauses import Clause, clauses
from harness.verify.excuses.client_deaths import of_death

# Findings that a processor may cause, by when it commits; and by that and the moment at which it was killed.
_OF_COMMITS: Final = {"after": Kind.DUPLICATED, "before": Kind.SKIPPED_READ}
_OF_DEATHS: Final = {
    ("after", "produced"): Kind.DUPLICATED,
    ("after", "commit"): Kind.DUPLICATED,
    ("before", "offsets"): Kind.SKIPPED_READ,
    ("before", "commit"): Kind.SKIPPED_READ,
}
_KINDS: Final = (Kind.DUPLICATED, Kind.SKIPPED_READ)


def _while_brokers_failed(number: int, case: Case) -> Iterator[Clause]:
    disturbed = next(_disturbances(case), None)
    if disturbed is None:
        return
    for processor in case.contract.processors.values():
        if processor.commits in _OF_COMMITS:
            why = f"{processor.processor} commits {processor.commits} it writes, and brokers failed meanwhile"
            kinds = [_OF_COMMITS[processor.commits]]
            yield from clauses(number, kinds, why, evidence=disturbed, reader=processor.processor)


def _disturbances(case: Case) -> Iterator[Evidence]:
    for step in case.steps:
        if step.is_fault:
            yield from (of_fact(fact, step) for fact in step.facts if fact.kind is not FactKind.CLIENT_DIED)


def _died(number: int, case: Case) -> Iterator[Clause]:
    for event, step in case.events(ProcessorDied):
        for processor in case.contract.processors.values():
            kind = _OF_DEATHS.get((processor.commits, event.at)) if processor.group == event.group else None
            if kind is not None:
                why = f"{processor.processor} commits {processor.commits} it writes, and died in between"
                yield from of_death(number, kind, event, step, reader=processor.processor, why=why)


EXCUSES: Final = (
    Excuse(
        name="processor_disturbed",
        permits="Brokers failed while an application committed its offsets before or after its output.",
        kinds=_KINDS,
        clauses=_while_brokers_failed,
    ),
    Excuse(
        name="processor_died",
        permits="An application that commits its offsets before or after its output died in between.",
        kinds=_KINDS,
        clauses=_died,
    ),
)

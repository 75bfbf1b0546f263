"""Records that an application was working on when a step killed it: what every excuse of its death covers."""

from __future__ import annotations

from collections.abc import Iterator

from harness.model.documents.steps import ProcessorDied, ReaderDied, Step
from harness.model.finding import Kind
from harness.verify.excuse import of_event
from harness.verify.excuses.clauses import Clause, clauses


def of_death(
    number: int, kind: Kind, event: ProcessorDied | ReaderDied, step: Step, *, reader: str, why: str
) -> Iterator[Clause]:
    """The clause for the records between the last commit and the last work of the client that died. reader: the name
    of the client in findings."""
    yield from clauses(
        number,
        [kind],
        why,
        evidence=of_event(event, step, event.at_ns),
        topic=event.topic,
        partition=event.partition,
        reader=reader,
        offsets=(event.from_offset, event.before_offset),
    )

"""Records that an application skipped because it commits before it processes. The records are in the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.model.documents.steps import ReaderDied
from harness.model.finding import Kind
from harness.verify.engine.case import Case
from harness.verify.excuse import Excuse, of_event
from harness.verify.excuses.clauses import Clause, clauses

_KINDS: Final = (Kind.SKIPPED_READ,)


def _clauses(number: int, case: Case) -> Iterator[Clause]:
    for event, step in case.events(ReaderDied):
        for reader in case.contract.readers.values():
            if reader.group == event.group and reader.at_most_once:
                why = f"skipped by the application: {reader.reader} commits before it processes, and died in between"
                yield from clauses(
                    number,
                    _KINDS,
                    why,
                    evidence=of_event(event, step, event.at_ns),
                    topic=event.topic,
                    partition=event.partition,
                    reader=reader.reader,
                    offsets=(event.from_offset, event.before_offset),
                )


EXCUSES: Final = (
    Excuse(
        name="reader_died",
        permits="An application that commits before it processes died in between.",
        kinds=_KINDS,
        clauses=_clauses,
    ),
)

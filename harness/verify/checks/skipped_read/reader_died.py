"""Records that an application skipped because it commits before it processes. The records are in the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.model.documents.steps import ReaderDied
from harness.model.finding import Kind
from harness.verify.engine.case import Case
from harness.verify.excuse import Excuse
from harness.verify.excuses.clauses import Clause
from harness.verify.excuses.client_deaths import of_death


def _clauses(number: int, case: Case) -> Iterator[Clause]:
    for event, step in case.events(ReaderDied):
        for reader in case.contract.readers.values():
            if reader.group == event.group and reader.at_most_once:
                why = f"skipped by the application: {reader.reader} commits before it processes, and died in between"
                yield from of_death(number, Kind.SKIPPED_READ, event, step, reader=reader.reader, why=why)


EXCUSES: Final = (
    Excuse(
        name="reader_died",
        permits="An application that commits before it processes died in between.",
        kinds=(Kind.SKIPPED_READ,),
        clauses=_clauses,
    ),
)

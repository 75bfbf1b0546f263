"""Files of a bundle that an Allure result takes along."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.evidence.layout import LOGS, ignored
from harness.evidence.parts import opened
from harness.evidence.verdicts import FINDINGS, VERDICT
from harness.model.errors import BadEvidence
from harness.model.verdict import Status, Verdict
from reports.junit import story
from reports.notation import kafka_notation
from reports.review.picture import svg_of
from reports.review.timeline import Marked, timeline_of
from reports.summary import durable_text
from reports.terminal import clean

ROWS_MAX: Final = 100_000  # of findings.csv
LOG_BYTES_MAX: Final = 1_000_000  # of each log: its end, where the reason of a failure mostly is
_FORMULA: Final = ("=", "+", "-", "@")  # spreadsheets run a cell that begins with one of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """A file. kind: name of a member of Allure's AttachmentType. content: makes the bytes when they are needed."""

    name: str
    kind: str
    content: Callable[[], bytes]


def attached(bundle: Path, verdict: Verdict, marks: Sequence[Marked]) -> Iterator[Attached]:
    """Summary, timeline, findings and verdict.json of a bundle; logs of its brokers if it is not PASS.

    The logs of a whole gate have hundreds of megabytes, and those of a PASS explain nothing. Parts that are missing or
    damaged in the evidence are left out: the description names them.
    """
    yield Attached(name="summary", kind="TEXT", content=lambda: _summary(bundle, verdict).encode())
    timeline = timeline_of(bundle, marks)
    if timeline is not None:
        yield Attached(name="timeline", kind="SVG", content=lambda: svg_of(timeline, clean(verdict.scenario)).encode())
    if verdict.findings and (bundle / FINDINGS).is_file():
        try:
            table, name = findings_csv(bundle / FINDINGS)
        except BadEvidence:
            pass
        else:
            yield Attached(name=name, kind="CSV", content=lambda: table)
    yield Attached(name=VERDICT, kind="JSON", content=(bundle / VERDICT).read_bytes)
    if verdict.status is not Status.PASS and (bundle / LOGS).is_dir():
        for log in sorted((bundle / LOGS).iterdir()):
            if log.is_file() and not ignored(log.name):
                yield Attached(name=clean(f"{LOGS}/{log.name}"), kind="TEXT", content=_log(log))


def _summary(bundle: Path, verdict: Verdict) -> str:
    head = f"{verdict.scenario}: {verdict.status.name}, {durable_text(verdict)}"
    notes = [f"  note: {kafka_notation(note)}" for note in verdict.notes] + [
        f"  not covered: {what}" for what in verdict.not_covered
    ]
    return "\n".join([clean(head), *story(verdict), *map(clean, [*notes, f"evidence: {bundle}"])])


def findings_csv(path: Path) -> tuple[bytes, str]:
    """findings.parquet as CSV of at most ROWS_MAX rows, and its name. BadEvidence if it is damaged."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    written = 0
    with opened(path) as part:
        total = part.metadata.num_rows
        rows.writerow(part.schema_arrow.names)
        for batch in part.iter_batches(10_000):
            for row in zip(*(batch.column(number).to_pylist() for number in range(batch.num_columns)), strict=True):
                if written == ROWS_MAX:
                    return text.getvalue().encode(), f"findings.csv (the first {ROWS_MAX:,} of {total:,} rows)"
                rows.writerow([_cell(value) for value in row])
                written += 1
    return text.getvalue().encode(), "findings.csv"


def _cell(value: object) -> object:
    """A value as text of one line that no spreadsheet runs. Numbers stay numbers."""
    if not isinstance(value, str):
        return value
    text = clean(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _log(path: Path) -> Callable[[], bytes]:
    """The end of a log without control characters. A reader of logs must not run what a log has."""

    def content() -> bytes:
        size = path.stat().st_size
        with path.open("rb") as stream:
            stream.seek(max(0, size - LOG_BYTES_MAX))
            lines = stream.read(LOG_BYTES_MAX).decode("utf-8", "replace").split("\n")
        if size > LOG_BYTES_MAX:
            lines[0] = f"(the last {LOG_BYTES_MAX:,} of {size:,} bytes of {path.name})"
        return "\n".join(clean(line.rstrip("\r")) for line in lines).encode()

    return content

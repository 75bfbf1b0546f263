"""The samples of a bundle as plain rows: a run has some ten thousand, too few for a scan by Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.evidence.parts import opened
from harness.model.sample import Sample


def samples_in(files: Sequence[Path]) -> Iterator[Sample]:
    """The rows of parts of the table `positions`, in no order. BadEvidence for a part that cannot be read."""
    for file in files:
        with opened(file) as part:
            columns = part.read(columns=list(Sample._fields)).to_pydict()
        yield from map(Sample, *(columns[name] for name in Sample._fields))

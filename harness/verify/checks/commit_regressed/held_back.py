"""Commits that a coordinator executed again later: a step had held the request, and the client sent it once more.

The coordinator of a classic group accepts offsets of its present generation, whenever they arrive, in place of those
that a member committed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.documents.steps import HeldFrame
from harness.model.schemas import Columns
from harness.verify.engine.case import Case
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, UNBOUNDED, Values, frame

_COMMIT: Final = "OffsetCommit"
_HELD: Final[Columns] = {"group": "string", "held_ns": "int64", "executed_ns": "int64"}


def with_last_execution(given: Prepared, commits: DataFrame) -> DataFrame:
    """Rows of `offset_commits` with `executed_ns`: when the last request for the commit had been executed."""
    held = [(n, *row) for n, case in enumerate(given.cases) for row in _held(case)]
    if not held:
        return commits.withColumn("executed_ns", F.col("returned_ns"))
    again = F.broadcast(frame(given.spark, _HELD, held))
    within = [
        commits[BUNDLE] == again[BUNDLE],
        commits["group"] == again["group"],
        commits["called_ns"] <= again["held_ns"],
        commits["returned_ns"] >= again["held_ns"],
    ]
    executed_ns = F.greatest(commits["returned_ns"], again["executed_ns"])
    return commits.join(again, within, "left").select(commits["*"], executed_ns.alias("executed_ns"))


def _held(case: Case) -> Iterator[Values]:
    """(group, when it was held, when its copy had been executed) of commits that no coordinator refused."""
    for event, _ in case.events(HeldFrame):
        if event.api == _COMMIT and event.group and event.held_ns is not None and not event.errors:
            yield event.group, event.held_ns, event.answered_ns or UNBOUNDED

"""Reads of leaders after healing that reads.json does not list: nothing tells where they began and ended."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from harness.model.doubt_names import DoubtName
from harness.model.schemas import Columns
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.engine.known import Known
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, PLACE, frame
from harness.verify.promise import Check

_READ: Final[Columns] = {
    "reader": "string",
    "isolation": "string",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
}


def unlisted(given: Prepared, read: DataFrame) -> list[list[str]]:
    """The readers of each bundle, with their places. Their records would count for those of the drain, and hide what it
    lacks."""
    rows = [
        (n, r.reader, r.isolation, *r.place)
        for n, case in enumerate(given.cases)
        for r in case.reads
        if r.kind == "drain"
    ]
    of_drains = read.where(given.complete).where("kind = 'drain'").select(BUNDLE, *_READ).distinct()
    found: list[list[str]] = [[] for _ in given.cases]
    for row in of_drains.join(frame(given.spark, _READ, rows), [BUNDLE, *_READ], "left_anti").orderBy(*PLACE).collect():
        found[row[BUNDLE]].append(f"{row['reader']} of {row['topic']}/{row['partition']}, {row['isolation']}")
    return found


def _doubts(known: Known) -> Addition:
    unnamed = known.of(UNLISTED)
    return Addition(
        doubts=[Doubt(DoubtName.UNLISTED_READ, f"reads.json does not list the read {name}") for name in unnamed]
    )


UNLISTED: Final[OnDriver[list[str]]] = OnDriver(name="unlisted_reads", read=unlisted, none=list)
CHECK: Final = Check(
    promise="Every read of a leader after healing is listed, with its start and its end.",
    on_driver=(UNLISTED,),
    adds=_doubts,
    order=Order(doubts=76),
    planted=("unlisted_second_drain",),
)

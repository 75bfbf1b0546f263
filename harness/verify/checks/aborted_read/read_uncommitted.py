"""Records of aborted transactions that a group received because it reads with read_uncommitted.

Figures only: nothing else is promised to such a group (KIP-98), so nothing here decides a verdict.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import functions as F

from harness.model.outcome import TxnOutcome
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, RECORD, frame, is_live

_READER: Final = {"reader": "string"}
_UNCOMMITTED: Final = "read_uncommitted"


def shown_undecided(given: Prepared) -> list[dict[str, int]]:
    """For each bundle, by "topic/partition": how many records of aborted transactions read_uncommitted groups
    received."""
    rows = [
        (n, reader.name)
        for n, case in enumerate(given.cases)
        for reader in case.scenario.readers or ()
        if reader.group and reader.isolation == _UNCOMMITTED
    ]
    found: list[dict[str, int]] = [{} for _ in given.cases]
    if not rows:
        return found
    readers = F.broadcast(frame(given.spark, _READER, rows))
    aborted = given.transactions.where(F.col("outcome") == TxnOutcome.ABORTED.value).select(BUNDLE, "txn_id")
    sent = given.ledger.join(aborted, [BUNDLE, "txn_id"]).select(*RECORD)
    live = given.observations.where(is_live() & (F.col("isolation") == _UNCOMMITTED) & F.col("intact"))
    at: list[str] = [BUNDLE, "topic", "partition"]
    shown = live.join(readers, [BUNDLE, "reader"]).join(sent, RECORD).select(*at, "offset").distinct()
    for row in shown.groupBy(*at).count().collect():
        found[row[BUNDLE]][f"{row['topic']}/{row['partition']}"] = row["count"]
    return found

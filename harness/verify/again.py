"""What an application was given twice: records that it had processed and not committed when it died.

Figures alone: at least once is what such a group is promised, so nothing here decides a verdict.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from harness.verify.prepared import Prepared
from harness.verify.tables import BUNDLE, frame

_SPANS = {
    "topic": "string",
    "partition": "int32",
    "reader": "string",
    "from_offset": "int64",
    "before_offset": "int64",
}


def given_again(given: Prepared) -> list[dict[str, int]]:
    """For each bundle, by "topic/partition", how many offsets between commit and processing a group was given twice."""
    rows = [
        (n, event["topic"], event["partition"], reader.reader, event["from_offset"], event["before_offset"])
        for n, case in enumerate(given.cases)
        for event, _ in case.events("reader_died")
        for reader in case.contract.readers.values()
        if reader.group == event["group"]
    ]
    found: list[dict[str, int]] = [{} for _ in given.cases]
    if not rows:
        return found
    spans = F.broadcast(frame(given.spark, _SPANS, rows))
    at: list[Any] = [BUNDLE, "topic", "partition", "reader"]
    seen = given.observations.where("kind = 'live'").join(spans, at)
    seen = seen.where("offset >= from_offset AND offset < before_offset")
    twice = seen.groupBy(*at, "offset").count().where("count > 1")
    for row in twice.groupBy(BUNDLE, "topic", "partition").count().collect():
        found[row[BUNDLE]][f"{row['topic']}/{row['partition']}"] = row["count"]
    return found

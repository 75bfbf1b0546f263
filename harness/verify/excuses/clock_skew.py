"""Broker clocks that steps set wrong: their effect on LogAppendTime timestamps and on retention by time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.documents.steps import ClockSet
from harness.model.schemas import Columns
from harness.verify.engine.case import Case
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, UNBOUNDED, frame

# Delay until a broker uses a changed clock, plus the difference between clocks of one machine.
_TAKES_MS: Final = 2500
_WRONG: Final[Columns] = {
    "topic": "string",
    "from_ns": "int64",
    "until_ns": "int64",
    "back_ms": "int64",
    "ahead_ms": "int64",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongClock:
    """For some broker: from when until when, and how far at most its clock was behind and ahead."""

    from_ns: int
    until_ns: int
    back_ms: int
    ahead_ms: int


def wrong_clocks(case: Case) -> Iterator[WrongClock]:
    """Every wrong clock that a step set, from its events."""
    for event, step in case.events(ClockSet):
        from_ns = min(step.started_ns or event.at_ns, event.at_ns)
        set_right_ns = step.healed_ns or case.run.ended_ns or UNBOUNDED
        gained_ms = (event.rate - 1) * (set_right_ns - from_ns) / 10**6
        off_ms = (event.jump_ms, round(event.jump_ms + gained_ms))
        yield WrongClock(
            from_ns=from_ns,
            until_ns=set_right_ns + _TAKES_MS * 10**6,
            back_ms=max(0, -min(off_ms)),
            ahead_ms=max(0, *off_ms),
        )


def ahead_ms(case: Case, at_ns: int) -> int:
    """How far a broker's clock may have been ahead until then."""
    return max((clock.ahead_ms for clock in wrong_clocks(case) if clock.from_ns <= at_ns), default=0)


def without_wrong_clocks(records: DataFrame, given: Prepared) -> DataFrame:
    """Records with `oldest_ms`, `newest_ms`, `called_ns` and `returned_ns`, without those that a wrong clock explains.

    It explains LogAppendTime timestamps (KIP-32) that were written while it was wrong and are no farther off than it
    was. It does not explain CreateTime timestamps of clients.
    """
    rows = [
        (number, name, clock.from_ns, clock.until_ns, clock.back_ms + _TAKES_MS, clock.ahead_ms + _TAKES_MS)
        for number, case in enumerate(given.cases)
        for clock in wrong_clocks(case)
        for name, topic in case.contract.topics.items()
        if topic.timestamp_type == "append"
    ]
    if not rows:
        return records
    wrong = F.broadcast(frame(given.spark, _WRONG, rows)).alias("wrong")
    left = records.alias("record")
    explains = (
        (F.col(f"wrong.{BUNDLE}") == F.col(f"record.{BUNDLE}"))
        & (F.col("wrong.topic") == F.col("record.topic"))
        & (F.col("wrong.from_ns") <= F.col("record.returned_ns"))
        & (F.col("wrong.until_ns") >= F.col("record.called_ns"))
        & (F.col("record.oldest_ms") >= F.floor(F.col("record.called_ns") / 10**6) - F.col("wrong.back_ms"))
        & (F.col("record.newest_ms") <= F.ceil(F.col("record.returned_ns") / 10**6) + F.col("wrong.ahead_ms"))
    )
    return left.join(wrong, explains, "left_anti")

"""The share of the read after healing that came from the remote tier (KIP-405): offsets below the local log starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import functions as F

from harness.model.doubt_names import DoubtName
from harness.model.verdict import Doubt
from harness.verify.engine.case import Case
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, PLACE, is_drain

# The required share of drained records; below it the run tested the brokers' own logs.
SHARE_MIN: Final = 0.5
_LOOK: Final = "healed"  # the last one before the read after healing


def tiered(case: Case) -> bool:
    """Whether the declared scenario has a topic in the remote tier."""
    return any(topic.tiered for topic in case.contract.topics.values())


def reads_of_the_tier(given: Prepared) -> dict[int, tuple[int, int]]:
    """By bundle with a tier: the number of drained records that came from the tier, and of all drained records of
    tiered topics."""
    mine = [number for number, case in enumerate(given.cases) if tiered(case)]
    if not mine:
        return {}
    looked = given.tier_replicas.where(F.col("look") == _LOOK)
    # The replica with the most local records may be the one that was read.
    kept = looked.groupBy(*PLACE).agg(F.min("local_log_start").alias("kept_from"))
    drained = given.observations.where(is_drain() & F.col(BUNDLE).isin(mine))
    read = drained.join(F.broadcast(kept), PLACE).groupBy(BUNDLE)
    far = F.count_if(F.col("offset") < F.col("kept_from"))
    return {
        row[BUNDLE]: (row["far"], row["n"]) for row in read.agg(far.alias("far"), F.count("*").alias("n")).collect()
    }


def doubts(case: Case, far: int, read: int) -> Iterator[Doubt]:
    """A doubt when hardly anything was read from the tier: `far` records of `read`."""
    if not tiered(case):
        return
    if not read:
        yield Doubt(
            DoubtName.TIER_NOT_READ,
            "it is unknown whether any record of the read after healing came from the remote tier",
        )
    elif far < SHARE_MIN * read:
        text = (
            f"{far} of {read} records of the read after healing came from the remote tier; {SHARE_MIN:.0%} are required"
        )
        yield Doubt(DoubtName.TIER_NOT_READ, text)

"""How much of what was read back came from the remote tier (KIP-405): what lay below where each log began locally."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import functions as F

from harness.model.verdict import Doubt
from harness.verify.engine.case import Case
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, PLACE

# Of the records that the drain was given; below it the run was about the brokers' own logs.
SHARE_MIN: Final = 0.5
_LOOK: Final = "healed"  # the last one before everything is read


def tiered(case: Case) -> bool:
    """Whether the scenario, as declared, has a topic in the tier."""
    return any(topic.tiered for topic in case.contract.topics.values())


def reads_of_the_tier(given: Prepared) -> dict[int, tuple[int, int]]:
    """Records that the drain was given from the tier, and of its topics at all, by bundle; of those that have one."""
    mine = [number for number, case in enumerate(given.cases) if tiered(case)]
    if not mine:
        return {}
    looked = given.tier_replicas.where(F.col("look") == _LOOK)
    # The replica that keeps most may be the one that was read.
    kept = looked.groupBy(*PLACE).agg(F.min("local_log_start").alias("kept_from"))
    drained = given.observations.where((F.col("kind") == "drain") & F.col(BUNDLE).isin(mine))
    read = drained.join(F.broadcast(kept), PLACE).groupBy(BUNDLE)
    far = F.count_if(F.col("offset") < F.col("kept_from"))
    return {
        row[BUNDLE]: (row["far"], row["n"]) for row in read.agg(far.alias("far"), F.count("*").alias("n")).collect()
    }


def doubts(case: Case, far: int, read: int) -> Iterator[Doubt]:
    """A scenario with a tier that hardly anything was read from: `far` records of `read`."""
    if not tiered(case):
        return
    if not read:
        yield Doubt("tier_not_read", "of nothing that was read back it is known whether it came from the remote tier")
    elif far < SHARE_MIN * read:
        text = f"{far} of {read} records read back came from the remote tier, and {SHARE_MIN:.0%} should"
        yield Doubt("tier_not_read", text)

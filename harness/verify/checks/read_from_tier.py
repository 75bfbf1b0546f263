"""The share of the read after healing that came from the remote tier (KIP-405): offsets below the local log starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import functions as F

from harness.model.documents.verdict_facts import ReadFromTier, VerdictFacts
from harness.model.doubt_names import DoubtName
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, PLACE, is_drain
from harness.verify.promise import Check

# The required share of drained records; below it the run tested the brokers' own logs.
SHARE_MIN: Final = 0.5
UNTIERED: Final = "tiered storage"
_LOOK: Final = "healed"  # the last one before the read after healing


def _tiered(case: Case) -> bool:
    """Whether the declared scenario has a topic in the remote tier."""
    return any(topic.tiered for topic in case.contract.topics.values())


def reads_of_the_tier(given: Prepared) -> list[ReadFromTier]:
    """How many drained records of each bundle came from the tier, and how many were of tiered topics."""
    found = [ReadFromTier(records=0, of=0) for _ in given.cases]
    mine = [number for number, case in enumerate(given.cases) if _tiered(case)]
    if not mine:
        return found
    looked = given.tier_replicas.where(F.col("look") == _LOOK)
    # The replica with the most local records may be the one that was read.
    kept = looked.groupBy(*PLACE).agg(F.min("local_log_start").alias("kept_from"))
    drained = given.observations.where(is_drain() & F.col(BUNDLE).isin(mine))
    read = drained.join(F.broadcast(kept), PLACE).groupBy(BUNDLE)
    far = F.count_if(F.col("offset") < F.col("kept_from"))
    for row in read.agg(far.alias("far"), F.count("*").alias("n")).collect():
        found[row[BUNDLE]] = ReadFromTier(records=row["far"], of=row["n"])
    return found


def _share(known: Known) -> Addition:
    if not _tiered(known.case):
        return Addition(not_covered=[UNTIERED])
    read = known.of(READ)
    return Addition(doubts=[*_too_little(read)], facts=VerdictFacts(read_from_tier=read))


def _too_little(read: ReadFromTier) -> Iterator[Doubt]:
    """A doubt when hardly anything was read from the tier."""
    if not read.of:
        yield Doubt(
            DoubtName.TIER_NOT_READ,
            "it is unknown whether any record of the read after healing came from the remote tier",
        )
    elif read.records < SHARE_MIN * read.of:
        came = f"{read.records} of {read.of} records of the read after healing came from the remote tier"
        yield Doubt(DoubtName.TIER_NOT_READ, f"{came}; {SHARE_MIN:.0%} are required")


READ: Final = OnDriver(name="read_from_tier", read=reads_of_the_tier, none=lambda: ReadFromTier(records=0, of=0))
CHECK: Final = Check(
    promise="At least half of what is read back from the topics of the remote tier comes from the tier.",
    on_driver=(READ,),
    adds=_share,
    order=Order(doubts=95, not_covered=25),
    planted=("read_back_from_the_brokers_only",),
)

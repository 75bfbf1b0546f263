"""Records of compacted topics that no cleaner may remove, from any copy: the newest value of each key."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.verify.engine.kept import kept
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD, frame, is_committed, is_drain
from harness.verify.excuses.config_history import compacted_until

_TOMBSTONE = "null"


def must_stay(given: Prepared) -> DataFrame | None:
    """Those that the drain returned, with `offset` and `at_ms`; None without a compacted topic.

    Left out are tombstones, and records below one that the ledger does not know, which may have the same key. A send of
    an unknown outcome that the drain does not return replaced nothing: it would be there itself, or what replaced it.
    """
    topics = [
        (n, name)
        for n, case in enumerate(given.cases)
        for name in case.contract.topics
        if case.complete and compacted_until(case, name) is not None
    ]
    if not topics:
        return None
    of_topics = F.broadcast(frame(given.spark, {"topic": "string"}, topics))
    few = F.col(BUNDLE).isin({n for n, _ in topics}) & F.col("topic").isin({name for _, name in topics})
    there = given.observations.where(few & is_drain()).join(of_topics, [BUNDLE, "topic"], "left_semi")
    there = there.groupBy(*RECORD, *PLACE[1:], "offset").agg(
        F.max("timestamp_ms").alias("at_ms"), F.max(is_committed()).alias("visible")
    )
    sent = given.ledger.where(few).select(*RECORD, *PLACE[1:], "key_hash", "value", F.lit(True).alias("known"))
    by_key = there.join(sent, [*RECORD, *PLACE[1:]], "left").groupBy(*PLACE, "key_hash")
    newest = kept(
        by_key.agg(
            F.max_by(F.struct("offset", "at_ms", "visible", "value"), "offset").alias("newest"),
            F.max(F.when(F.col("known").isNull(), F.col("offset"))).alias("unknown_to"),
        )
    )
    unknown = newest.where("unknown_to IS NOT NULL").select(*PLACE, "unknown_to")
    newest = newest.select(*PLACE, "key_hash", "newest.*")
    stays = newest.where(F.col("key_hash").isNotNull() & F.col("visible") & ~F.col("value").eqNullSafe(_TOMBSTONE))
    stays = stays.join(F.broadcast(unknown), PLACE, "left").where("unknown_to IS NULL OR offset > unknown_to")
    return stays.select(*PLACE, "offset", "at_ms")

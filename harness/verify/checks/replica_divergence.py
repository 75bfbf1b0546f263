"""replica_divergence: a replica's copy below the high watermark differs, as its readers receive it."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.engine.compare import Compared
from harness.verify.engine.prepared import at_place
from harness.verify.engine.rows import found
from harness.verify.engine.tables import is_committed
from harness.verify.promise import Check, Introduced


def replica_divergence(compared: Compared) -> DataFrame:
    """Each replica, read by follower fetching (KIP-392), compared with the leader's copy read with the same isolation.

    Records below the log start are left out, because the start may have moved between the two reads.
    """
    kind = Kind.REPLICA_DIVERGENCE
    missing = at_place(compared.unseen.where("kind = 'replica'"), compared.given.places)
    missing = missing.where(F.coalesce(F.col("offset") >= F.col("log_start"), F.lit(True)))
    other = compared.other.where("kind = 'replica'")
    extra = at_place(compared.unshown.where("kind = 'replica'"), compared.given.places)
    position = F.when(is_committed(), F.col("committed")).otherwise(F.col("uncommitted"))
    extra = extra.where((position > F.col("offset")) & (F.col("offset") >= F.col("log_start")))
    reason = F.when(is_committed(), F.lit("extra_committed")).otherwise(F.lit("extra"))
    return (
        found(missing, kind, "missing").unionByName(found(other, kind, "other")).unionByName(found(extra, kind, reason))
    )


CHECK: Final = Check(
    promise="Every in-sync replica returns what the leader returns.",
    kinds={
        Kind.REPLICA_DIVERGENCE: Introduced(
            promise="below the high watermark every replica in sync has the same log", rank=110
        )
    },
    seen={
        (Kind.REPLICA_DIVERGENCE, "missing"): (
            "the leader has this record below the high watermark, and the replica lacks it"
        ),
        (Kind.REPLICA_DIVERGENCE, "extra"): "the replica has this record, and the leader lacks it",
        (Kind.REPLICA_DIVERGENCE, "other"): "the replica has another record at this offset than the leader",
    },
    queries={"replica_divergence": replica_divergence},
)

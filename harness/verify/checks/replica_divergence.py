"""replica_divergence: a replica's copy below the high watermark differs, as its readers receive it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.engine.compare import Compared
from harness.verify.engine.prepared import at_place
from harness.verify.engine.rows import found
from harness.verify.engine.tables import is_committed


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

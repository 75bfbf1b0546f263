"""replica_divergence: a replica's copy below the high watermark differs, as its readers receive it."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.engine.compare import Compared
from harness.verify.engine.prepared import at_place
from harness.verify.engine.rows import Reason, found
from harness.verify.engine.tables import is_committed
from harness.verify.promise import Check, Introduced


class Differs(Reason):
    """How a replica's copy differs from the leader's."""

    MISSING = "missing", "It lacks a record that the leader has."
    EXTRA = "extra", "It has a record that the leader lacks."
    EXTRA_COMMITTED = "extra_committed", "The same, returned by read_committed."
    OTHER = "other", "It has another record at the offset."


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
    reason = F.when(is_committed(), F.lit(Differs.EXTRA_COMMITTED)).otherwise(F.lit(Differs.EXTRA))
    return (
        found(missing, kind, Differs.MISSING)
        .unionByName(found(other, kind, Differs.OTHER))
        .unionByName(found(extra, kind, reason))
    )


CHECK: Final = Check(
    promise="Every in-sync replica returns what the leader returns.",
    kinds={
        Kind.REPLICA_DIVERGENCE: Introduced(
            promise="below the high watermark every replica in sync has the same log", rank=110
        )
    },
    seen={
        (Kind.REPLICA_DIVERGENCE, Differs.MISSING): (
            "the leader has this record below the high watermark, and the replica lacks it"
        ),
        (Kind.REPLICA_DIVERGENCE, Differs.EXTRA): "the replica has this record, and the leader lacks it",
        (Kind.REPLICA_DIVERGENCE, Differs.OTHER): "the replica has another record at this offset than the leader",
    },
    of_committed={Differs.EXTRA_COMMITTED: Differs.EXTRA},
    queries={"replica_divergence": replica_divergence},
    planted=(
        "replica_lacks_a_record",
        "replica_hides_a_record_from_read_committed",
        "replica_has_another_record",
        "replica_has_one_more",
        "near_replica_that_keeps_more",
        "near_replica_read_from_the_leader",
        "replica_divergence_of_a_visible_value",
        "replica_divergence_of_a_value_on_one_follower",
        "near_replica_that_compacted_a_key",
        "near_replica_that_has_not_compacted_a_key",
    ),
)

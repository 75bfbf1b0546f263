"""The batches of each leader epoch in each log on a disk: few rows, for checks that compare epochs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.engine.case import Place
from harness.verify.engine.known import Known
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, PLACE


class DiskEpoch(NamedTuple):
    """The batches of one leader epoch in one log. first, last: the lowest and the highest offset of them. newest_ms:
    the latest timestamp of a batch with data, whose first offset is `newest`; None without such a batch."""

    place: Place
    broker: int
    epoch: int
    first: int
    last: int
    newest_ms: int | None = None
    newest: int | None = None


def disk_epochs(given: Prepared) -> list[list[DiskEpoch]]:
    """The epochs of every log of which the disk was read. Those of the remote tier are left out."""
    found: list[list[DiskEpoch]] = [[] for _ in given.cases]
    batches = given.batches.where("broker >= 0 AND segment IS NOT NULL AND leader_epoch >= 0")
    dated = F.max(F.when(F.col("control").isNull(), F.struct("max_timestamp_ms", "base_offset")))
    each = batches.groupBy(*PLACE, "broker", "leader_epoch").agg(
        F.min("base_offset").alias("first"), F.max("last_offset").alias("last"), dated.alias("newest")
    )
    for row in each.collect():
        place = (row["topic"], row["topic_id"], row["partition"])
        newest = (None, None) if row["newest"] is None else tuple(row["newest"])
        of = [row[name] for name in ("broker", "leader_epoch", "first", "last")]
        found[row[BUNDLE]].append(DiskEpoch(place, *of, *newest))
    return found


def where_disks_agree(known: Known) -> Sequence[DiskEpoch]:
    """Without the partitions of which the disks of in-sync replicas differ: that is a finding, and it may be the cause
    of every other one about these disks."""
    differ = {
        (run.topic, run.topic_id, run.partition)
        for run in known.reported
        if run.kind == Kind.REPLICA_DIVERGENCE and run.excused_by is None
    }
    return [row for row in known.of(DISK_EPOCHS) if row.place not in differ]


DISK_EPOCHS: Final[OnDriver[list[DiskEpoch]]] = OnDriver(name="disk_epochs", read=disk_epochs, none=list)

"""skipped_read: a reader passed over a record that was there."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.checks.shared import members
from harness.verify.engine.compare import Compared
from harness.verify.engine.prepared import at_place
from harness.verify.engine.rows import found
from harness.verify.engine.tables import PLACE
from harness.verify.excuses.not_yet_compacted import OF_THE_DRAIN


def skipped_read(compared: Compared) -> DataFrame:
    """Within one session of a reader, or all sessions of a group: offsets that the drain of the same isolation shows.

    Also what the read_committed drain shows and the read_uncommitted one went past, unless the log starts above it now.
    What a member of a share group went past says nothing: another member may have been given it, or it was acquired,
    accepted or archived before (KIP-932). Whether all of them together left something out is judged by `shared`.
    """
    unseen = compared.unseen.where("kind = 'live'").join(members(compared.given), [*PLACE, "reader"], "left_anti")
    live = found(unseen, Kind.SKIPPED_READ).distinct()
    drains = at_place(compared.drains.where("drain_stream IS NULL"), compared.given.places)
    passed = drains.where("uncommitted > offset AND offset >= log_start")
    return live.unionByName(found(passed, Kind.SKIPPED_READ, reader=F.lit(OF_THE_DRAIN)))

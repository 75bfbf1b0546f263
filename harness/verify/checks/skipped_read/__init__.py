"""skipped_read: a reader passed over a record that was in the log."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.checks.share_groups import members
from harness.verify.checks.skipped_read import offset_resets, reader_died
from harness.verify.checks.skipped_read.by_ledger import by_ledger
from harness.verify.engine.compare import Compared
from harness.verify.engine.prepared import at_place
from harness.verify.engine.rows import Only, PassedOver, found
from harness.verify.engine.tables import OTHER_DRAIN, PLACE
from harness.verify.excuses.compaction.not_yet_compacted import OF_THE_DRAIN
from harness.verify.promise import Check, Introduced


def skipped_read(compared: Compared) -> DataFrame:
    """Records that the drain of the same isolation returns, and that a reader passed over within one session, or a
    group or a reader without one within all its sessions, from the start of the log on; or that another read of the
    leader after healing passed over.

    Also records that the read_committed drain returns and the read_uncommitted drain passed, above the log start. A gap
    in what one member of a share group received is not a finding: another member may have received the record, or it
    was acquired, accepted or archived before (KIP-932). `shared` judges the members of a share group together.
    """
    unseen = compared.unseen.where(F.col("kind").isin("live", OTHER_DRAIN)).join(
        members(compared.given), [*PLACE, "reader"], "left_anti"
    )
    live = found(unseen, Kind.SKIPPED_READ).distinct()
    drains = at_place(compared.drains.where("drain_stream IS NULL"), compared.given.places)
    passed = drains.where("uncommitted > offset AND offset >= log_start")
    return live.unionByName(found(passed, Kind.SKIPPED_READ, reader=F.lit(OF_THE_DRAIN)))


CHECK: Final = Check(
    promise="A reader receives every record between two records that it received.",
    kinds={
        Kind.SKIPPED_READ: Introduced(
            promise="a reader receives every record between two records that it received", rank=100
        )
    },
    seen={
        (Kind.SKIPPED_READ, Only.ONE): "the reader went past the record without receiving it, and it is in the log",
        (Kind.SKIPPED_READ, PassedOver.ONE): (
            "the reader went past the record without receiving it, and nothing had deleted it by then; it is no longer "
            "in the log, or the read after healing did not get there"
        ),
    },
    queries={"skipped_read": skipped_read, "passed_over": by_ledger},
    excuses=(*offset_resets.EXCUSES, *reader_died.EXCUSES),
    planted=(
        "skipped_read_by_an_assigned_reader",
        "skipped_read_by_a_group",
        "skipped_read_by_a_group_between_two_sessions",
        "skipped_read_of_an_added_partition",
        "near_skipped_read_of_an_added_partition",
        "skipped_read_of_an_aborted_record",
        "skipped_read_by_the_uncommitted_drain",
        "skipped_read_by_one_of_two_drains",
        "skipped_read_by_an_assigned_reader_between_two_sessions",
        "skipped_read_before_the_first_record",
        "near_skipped_read_before_the_first_record",
        "near_skipped_read_at_the_end",
        "near_skipped_read_between_two_sessions",
        "near_skipped_read_of_what_is_aborted",
        "near_skipped_read_given_twice",
        "skipped_read_below_the_log_start",
        "near_skipped_read_deleted_before",
        "near_skipped_read_out_of_range",
        "near_skipped_read_of_a_wrong_offset",
        "skipped_read_of_a_key_before_its_next_record",
        "near_skipped_read_of_a_key_after_its_next_record",
    ),
)

"""Pure functions from tables to the records that break a promise. Excuses decide what the contract permits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame

from harness.verify.checks.aborted_read import aborted_read
from harness.verify.checks.acked_twice import acked_twice
from harness.verify.checks.commit_regressed import commit_regressed
from harness.verify.checks.conflicting import conflicting
from harness.verify.checks.corrupt import corrupt, ill_timed_records, time_back, wrong_codec, wrong_timestamp_type
from harness.verify.checks.disks import disks
from harness.verify.checks.duplicated import duplicated
from harness.verify.checks.epoch_lookup import epoch_lookup
from harness.verify.checks.log_start import log_start
from harness.verify.checks.lost import beyond_every_log, lost
from harness.verify.checks.misrouted import misrouted
from harness.verify.checks.offset_lookup import offset_lookup
from harness.verify.checks.phantom import phantom
from harness.verify.checks.processed import processed
from harness.verify.checks.read_from import read_from
from harness.verify.checks.reordered import reordered
from harness.verify.checks.replica_divergence import replica_divergence
from harness.verify.checks.share_groups import share_groups
from harness.verify.checks.skipped_read import skipped_read
from harness.verify.checks.torn_transaction import torn_transaction
from harness.verify.checks.vanished import vanished
from harness.verify.checks.wrong_ack_offset import wrong_ack_offset
from harness.verify.engine.inputs import Inputs

Check = Callable[[Inputs], DataFrame]

CHECKS: Final[dict[str, Check]] = {
    "lost": lambda of: lost(of.drill),
    "beyond_every_log": lambda of: beyond_every_log(of.drill),
    "duplicated": lambda of: duplicated(of.drill),
    "misrouted": lambda of: misrouted(of.drill),
    "phantom": lambda of: phantom(of.drill),
    "aborted_read": lambda of: aborted_read(of.drill),
    "wrong_ack_offset": lambda of: wrong_ack_offset(of.drill),
    "acked_twice": lambda of: acked_twice(of.drill),
    "torn_transaction": lambda of: torn_transaction(of.drill),
    "reordered": lambda of: reordered(of.given, of.drained),
    "corrupt": lambda of: corrupt(of.given),
    "timestamps": lambda of: ill_timed_records(of.drill),
    "timestamp_types": lambda of: wrong_timestamp_type(of.given),
    "log_times": lambda of: time_back(of.given),
    "codecs": lambda of: wrong_codec(of.given),
    "vanished": lambda of: vanished(of.compared),
    "conflicting": lambda of: conflicting(of.compared),
    "skipped_read": lambda of: skipped_read(of.compared),
    "replica_divergence": lambda of: replica_divergence(of.compared),
    "disks": lambda of: disks(of.given),
    "log_start": lambda of: log_start(of.given, of.tiers),
    "offset_lookup": lambda of: offset_lookup(of.given),
    "read_from": lambda of: read_from(of.given),
    "epoch_lookup": lambda of: epoch_lookup(of.given),
    "commit_regressed": lambda of: commit_regressed(of.drill),
    "processed": lambda of: processed(of.given),
    "share_groups": lambda of: share_groups(of.given),
}

"""Members of groups that began below everything that their group had committed, as if there were no commit.

A member that begins a new session on a partition begins at the group's committed offset: auto.offset.reset is only for
a group without one, or with one that is out of the log. What it skips by beginning too high is a record that no session
received (skipped_read). Here is the other direction, in which the group receives again what it had committed.

The order of a session and of commits follows from the last record of the session before it, by the time when the member
received it: the member asked for the committed offset later. Then the last commit that was acknowledged before counts,
and every later or unanswered one may.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.model.contract.internal_topics import OFFSETS, state_partition
from harness.model.documents.steps import GroupAway, GroupDeleted
from harness.model.finding import Kind
from harness.model.outcome import Outcome
from harness.model.scenario.scenario import SHARE
from harness.verify.checks.commit_regressed.held_back import with_last_execution
from harness.verify.checks.commit_regressed.offset_loss import skipped_by_reset
from harness.verify.checks.commit_regressed.reasons import Reported
from harness.verify.engine.case import COMMITTED, Case
from harness.verify.engine.elections import leader_changes
from harness.verify.engine.kept import kept, narrowed
from harness.verify.engine.prepared import Prepared, at_place
from harness.verify.engine.rows import found
from harness.verify.engine.tables import BUNDLE, PLACE, Values, frame
from harness.verify.excuses.unclean_elections import internal_elections

_SESSION: Final = [*PLACE, "group", "reader", "session"]
_MEMBERS: Final = {"group": "string", "reader": "string"}
_REPLACED: Final = {"topic": "string", "partition": "int32"}


def began_below_commits(given: Prepared, read: DataFrame) -> DataFrame:
    """The first offset of each such session, with the lowest commit at which it might have begun."""
    members = frame(given.spark, _MEMBERS, [(n, *row) for n, case in enumerate(given.cases) for row in _members(case)])
    live = read.where(f"kind = 'live' AND isolation = '{COMMITTED}'").join(F.broadcast(members), [BUNDLE, "reader"])
    sessions = live.groupBy(*_SESSION).agg(F.min("low").alias("began"), F.max("high").alias("ended"))
    earlier = Window.partitionBy(*PLACE, "group", "reader").orderBy("session")
    again = kept(sessions.withColumn("nth", F.row_number().over(earlier)))
    again = kept(
        again.join(again.where("nth > 1").select(*PLACE, "reader").distinct(), [*PLACE, "reader"], "left_semi")
    )
    last = narrowed(given.observations, again, "reader", "session").where("given_ns IS NOT NULL")
    given_ns = last.groupBy(*PLACE, "reader", "session").agg(F.max("given_ns").alias("given_ns"))
    timed = again.join(given_ns, [*PLACE, "reader", "session"], "left")
    before = earlier.rowsBetween(Window.unboundedPreceding, -1)
    timed = kept(timed.withColumn("after_ns", F.max("given_ns").over(before)).where("after_ns IS NOT NULL"))
    return _below(given, timed)


def _below(given: Prepared, sessions: DataFrame) -> DataFrame:
    """Of sessions that began after `after_ns`, those below every commit at which they might have begun."""
    commits = narrowed(given.offset_commits, sessions, "group", "topic_id", "partition")
    tried = (
        with_last_execution(given, commits)
        .where(F.col("outcome") != Outcome.REFUSED.value)
        .select(
            *PLACE,
            "group",
            "offset",
            "called_ns",
            "returned_ns",
            "executed_ns",
            ((F.col("outcome") == Outcome.ACKED.value) & F.col("txn_id").isNull()).alias("sure"),
        )
    )
    both = sessions.join(tried, [*PLACE, "group"])
    before = F.col("sure") & (F.col("returned_ns") <= F.col("after_ns"))
    last = both.groupBy(*_SESSION).agg(
        F.max(F.when(before, F.struct("called_ns", "offset", "returned_ns"))).alias("last")
    )
    open_at = both.join(last.where("last IS NOT NULL"), _SESSION).where(
        ~F.col("sure") | (F.col("executed_ns") >= F.col("last.called_ns"))
    )
    lowest = open_at.groupBy(*_SESSION, "began", "last").agg(F.min("offset").alias("least"))
    below = at_place(lowest.where("began < least"), given.places).where("least >= log_start AND least <= log_end")
    replaced = [(n, *place) for n, case in enumerate(given.cases) for place in _replaced(case)]
    below = below.join(
        F.broadcast(frame(given.spark, _REPLACED, replaced)), [BUNDLE, "topic", "partition"], "left_anti"
    )
    return found(
        below,
        Kind.COMMIT_REGRESSED,
        Reported.BEGAN_BELOW,
        offset="began",
        other="least",
        done_ns=F.col("last.returned_ns"),
    )


def _members(case: Case) -> Iterator[Values]:
    """(group, reader) of all members that continue where their groups had committed. Groups that may have lost their
    commits are left out."""
    if not case.run.groups_resume or not case.complete:
        return
    changed = {event.group for event, _ in case.events(GroupAway)} | {
        event.group for event, _ in case.events(GroupDeleted)
    }
    changed |= {row.group for _, row, _ in skipped_by_reset(case)}
    elected = {change.partition for change in internal_elections(case, OFFSETS)}
    offsets = case.contract.offsets
    for reader in case.scenario.readers or ():
        group = reader.group
        if not group or group in changed or group in case.contract.shares or reader.protocol == SHARE:
            continue
        if not elected or (offsets is not None and state_partition(group, offsets.partitions) not in elected):
            yield group, reader.name


def _replaced(case: Case) -> set[tuple[str, int]]:
    """Places of which the end of the log may have been replaced, so that a commit may have been out of the log."""
    return {(change.topic, change.partition) for change in leader_changes(case) if change.unclean}

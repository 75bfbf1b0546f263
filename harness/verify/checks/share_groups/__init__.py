"""Share groups (KIP-932): each record is delivered until it is accepted or rejected, and then not again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.contract.contract import SENTINEL
from harness.model.contract.kafka_defaults import LOCK_MS_DEFAULT
from harness.model.doubt_names import DoubtName
from harness.model.facts import FactKind, Stop
from harness.model.finding import Finding, Kind
from harness.model.outcome import Outcome, TxnOutcome
from harness.model.schemas import Columns
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.checks.share_groups import archived, began
from harness.verify.checks.share_groups.progress import wrong_starts
from harness.verify.checks.share_groups.reasons import GIVEN, SHARE, Shared
from harness.verify.checks.share_groups.repeated import repeated
from harness.verify.engine.case import Case, Place
from harness.verify.engine.kept import kept
from harness.verify.engine.known import Known
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import UNSHARED, found, union
from harness.verify.engine.steps import only
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD, Values, frame, is_drain
from harness.verify.promise import Check
from harness.verify.sentences import promise

_STANDS: Final[Columns] = {
    "group": "string",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "isolation": "string",
    "limit": "int64",
    "lock_ms": "int64",
    "late": "bool",  # it need not begin at the log start
    "unseen": "int64",
    "done": "bool",  # the coordinator reported that the group has finished with all of it
    "start": "int64",  # the group has finished with everything below this
    "asked_ns": "int64",
}
# A dead broker answers no further fetch: at most one fetch of it delivered records to no member. Before a crash it may
# have answered late.
_DEATHS: Final = (
    (FactKind.STOPPED, Stop.KILLED),
    (FactKind.STOPPED, Stop.CLEANLY),
    (FactKind.CLIENT_DIED, None),
)
_STUCK_S: Final = 20.0  # more than a record may be held: the next member gets it at once
_REQUEST_S: Final = 4.0  # request.timeout.ms of the workload's clients, after which a client fetches again


def share_groups(given: Prepared) -> DataFrame | None:
    """Records that the drain of a group's isolation returns and that were written when the coordinator was asked for
    the group's progress, compared with the deliveries to the members.

    The group has finished with a record that no member ever accepted or rejected: skipped_read, with the number of
    deliveries, because it may have been archived at the limit. Deliveries with lost responses count too: if those
    that faults may have caused suffice, this is no finding but a doubt. So it is if no answer shows where a group began
    that need not begin at the log start. A record of which two accepts or rejects were
    acknowledged: commit_regressed, because the group delivered it again after the first. So are the repetitions of
    `repeated`. Any other repeated delivery is at-least-once, and no finding.
    """
    whole = began.from_the_first(given)
    rows = [row for n, case in enumerate(given.cases) for row in _progress(n, case, whole)]
    if not rows:
        return None
    stands = F.broadcast(frame(given.spark, _STANDS, rows))
    wanted = _wanted(given, stands)
    answered = given.deliveries.where(given.complete)
    mine = answered.groupBy(*GIVEN).agg(
        # The group's own count is no proof: a broker that miscounts archives too early.
        F.count("*").alias("times"),
        F.max("count").alias("highest"),
        F.max("given_ns").alias("last_ns"),
        F.count_if(F.col("answer").isin("accept", "reject")).alias("over"),
        F.count_if(F.col("answer").isin("accept", "reject") & (F.col("outcome") == Outcome.ACKED.value)).alias(
            "reported"
        ),
    )
    kept_state = F.count_if(F.col("outcome") == Outcome.ACKED.value) > 0
    since = answered.groupBy(*SHARE).agg(F.min("given_ns").alias("began_ns"), kept_state.alias("placed"))
    each = kept(wanted.join(mine, GIVEN, "left").join(F.broadcast(since), SHARE, "left"))
    times = F.coalesce("times", F.lit(0))
    # A delivery may have stayed in a member's buffer until its lock expired, as long as the group was active.
    expired = F.floor(F.coalesce(F.col("last_ns") - F.col("began_ns"), F.lit(0)) / (F.col("lock_ms") * 10**6))
    unaccepted = each.where((F.col("done") | (F.col("start") > F.col("offset"))) & (F.coalesce("over", F.lit(0)) == 0))
    archived = times >= F.col("limit")
    uncertain = ~archived & (times + F.col("unseen") + expired >= F.col("limit"))
    reason = F.when(F.col("times").isNull(), F.lit(Shared.NEVER_GIVEN)).otherwise(F.lit(Shared.UNACCEPTED))
    nowhere = F.col("late") & ~F.coalesce("placed", F.lit(False))
    kind = F.when(uncertain | nowhere, F.lit(UNSHARED)).otherwise(F.lit(Kind.SKIPPED_READ.value))
    again = each.where("reported > 1")
    return union(
        [
            found(unaccepted, kind, reason, reader="group", other=times),
            found(again, Kind.COMMIT_REGRESSED, Shared.ANSWERED_AGAIN, reader="group", other="reported"),
            repeated(given, each),
        ]
    )


def members(given: Prepared) -> DataFrame:
    """By place: the readers that received records there as members of a share group that `shared` judges."""
    rows = [
        (n, s.group, topic) for n, c in enumerate(given.cases) for s in c.contract.shares.values() for topic in s.topics
    ]
    groups = F.broadcast(frame(given.spark, {"group": "string", "topic": "string"}, rows))
    return given.deliveries.join(groups, [BUNDLE, "group", "topic"], "left_semi").select(*PLACE, "reader").distinct()


def _wanted(given: Prepared, stands: DataFrame) -> DataFrame:
    """One row for each record and group. Records that may have been written or become visible only after the
    coordinator was asked are left out: those above every record that was acknowledged or delivered before."""
    acked = given.ledger.where((F.col("outcome") == Outcome.ACKED.value) & F.col("offset").isNotNull())
    acked = acked.join(stands.select(*PLACE, "asked_ns").distinct(), PLACE).where("returned_ns <= asked_ns")
    written = acked.groupBy(*PLACE).agg(F.max("offset").alias("written"))
    shared_out = given.deliveries.join(stands.select(*SHARE, "asked_ns"), SHARE).where("given_ns <= asked_ns")
    reached = shared_out.groupBy(*SHARE).agg(F.max("offset").alias("reached"))
    shown = given.observations.where(is_drain()).join(stands, [*PLACE, "isolation"])
    load = given.streams.where(~F.col("producer").eqNullSafe(SENTINEL)).select(BUNDLE, "stream")
    shown = shown.join(F.broadcast(load), [BUNDLE, "stream"], "left_semi")
    shown = shown.join(F.broadcast(written), PLACE, "left").join(F.broadcast(reached), SHARE, "left")
    shown = shown.where("offset <= greatest(written, reached)")
    undecided = given.ledger.where(F.col("txn").eqNullSafe(TxnOutcome.UNKNOWN.value)).select(*RECORD)
    shown = shown.join(undecided, RECORD, "left_anti")
    return shown.select(*GIVEN, "stream", "seq", "limit", "lock_ms", "late", "unseen", "done", "start").distinct()


def _progress(number: int, case: Case, whole: Collection[tuple[int, str, Place]]) -> Iterator[Values]:
    """The progress of each share group, for every partition of its topics; nothing for a run that did not finish.
    whole: `began.from_the_first`."""
    last = case.last_snapshot
    if last is None or not case.complete:
        return
    stands = {(r.group, r.topic, r.partition): r for r in case.cluster.share_groups or ()}
    for share in case.contract.shares.values():
        for row in last.partitions:
            at = stands.get((share.group, row.topic, row.partition))
            if row.topic in share.topics and at is not None:
                yield (
                    number,
                    share.group,
                    *row.place,
                    share.isolation,
                    share.limit,
                    share.lock_ms,
                    share.reset == began.LATEST and (number, share.group, row.place) not in whole,
                    _lost_deliveries(case),
                    at.lag == 0,
                    at.start or 0,
                    at.asked_ns,
                )


def _lost_deliveries(case: Case) -> int:
    """The highest number of deliveries of a record with possibly lost responses, each with a lock of its own."""
    times = 0
    for step in case.steps:
        if step.is_fault and step.started_ns is not None and step.facts:
            # An action without healing is over when its step ends.
            until_ns = step.healed_ns or step.ended_ns or case.run.ended_ns or step.started_ns
            again = 0 if only(step, *_DEATHS) else (until_ns - step.started_ns) / 1e9 // _REQUEST_S
            times += 1 + int(again)
    return times


def _unfinished(known: Known) -> Addition:
    return Addition(
        findings=[*_stuck(known.case), *wrong_starts(known.case)],
        doubts=[*_unaccepted(known), *(Doubt(DoubtName.SHARE_UNDRAINED, text) for text in _undrained(known.case))],
    )


def _stuck(case: Case) -> Iterator[Finding]:
    """Partitions of which a share group with members at work finished nothing, for longer than a record may be held by
    one of them."""
    locks_ms = {share.group: share.lock_ms for share in case.contract.shares.values()}
    for row in case.cluster.share_groups or () if case.complete and case.nodes_were_up else ():
        stuck_s = 0.0 if row.unchanged_ns is None else (row.at_ns - row.unchanged_ns) / 1e9
        if row.lag and stuck_s >= locks_ms.get(row.group, LOCK_MS_DEFAULT) / 1000 + _STUCK_S:
            yield Finding(
                kind=Kind.GROUP_UNSETTLED,
                topic=row.topic,
                partition=row.partition,
                offset_first=row.start,
                count=row.lag,
                detail=(
                    f"for {stuck_s:.0f} s after the load share group {row.group} finished none of {row.lag} offsets "
                    f"from {row.start} on, although it has members"
                ),
                contract=promise(Kind.GROUP_UNSETTLED, row.topic, None, case.contract),
            )


def _unaccepted(known: Known) -> Iterator[Doubt]:
    left: Counter[tuple[str, str]] = Counter()
    for run in known.runs:
        if run.kind == UNSHARED:
            left[run.reader or "", f"{run.topic}/{run.partition}"] += run.fate_records
    late = {share.group for share in known.case.contract.shares.values() if share.reset == began.LATEST}
    for (group, place), records in left.items():
        text = f"share group {group} accepted none of {records} records of {place}"
        why = "it may have archived them: a delivery whose response was lost counts towards the limit, too"
        before = ", or have begun after them: share.auto.offset.reset=latest" if group in late else ""
        yield Doubt(DoubtName.UNSHARED, f"{text}; {why}{before}")


def _undrained(case: Case) -> Iterator[str]:
    """Partitions that a share group had not finished when it ended, as sentences; nothing was due there yet."""
    stands = {(r.group, r.topic, r.partition): r for r in case.cluster.share_groups or ()}
    last = case.last_snapshot
    for share in case.contract.shares.values():
        for row in last.partitions if last else []:
            at = stands.get((share.group, row.topic, row.partition))
            place = f"{row.topic}/{row.partition}"
            if row.topic not in share.topics or (at is not None and at.lag == 0):
                continue
            if at is None or at.lag is None:
                yield f"no coordinator reported how far share group {share.group} had come on {place}"
            else:
                left = f"{at.lag} offsets were left from {at.start} on"
                yield f"share group {share.group} had not finished {place}: {left}"


CHECK: Final = Check(
    promise="A share group delivers each record until it is accepted, rejected or archived, and then not again.",
    breaks="a share group delivers each record until it is accepted, rejected or archived at its limit (KIP-932)",
    seen={
        (Kind.SKIPPED_READ, Shared.NEVER_GIVEN): (
            "the share group has finished with the record, and none of its members received it"
        ),
        (Kind.SKIPPED_READ, Shared.UNACCEPTED): lambda run: (
            f"the share group has finished with the record, and no member accepted or rejected it; it was delivered "
            f"up to {run.other_last} times"
        ),
        (Kind.COMMIT_REGRESSED, Shared.ANSWERED_AGAIN): (
            "the share group delivered the record again after an accept or reject of it had been acknowledged"
        ),
        (Kind.COMMIT_REGRESSED, Shared.OVER_LIMIT): lambda run: (
            f"the share group delivered the record up to {run.other_last} times, which is more than its limit"
        ),
        (Kind.COMMIT_REGRESSED, Shared.UNCOUNTED): lambda run: (
            f"the share group delivered the record as one of a lower delivery count after a member had released its "
            f"delivery {run.other_last}"
        ),
        (Kind.COMMIT_REGRESSED, Shared.WITHIN_LOCK): (
            "the share group delivered the record again while a member that was at work held it, with no fault at "
            "that time"
        ),
    },
    shares=(Kind.GROUP_UNSETTLED, Kind.WRONG_COORDINATOR_STATE),
    queries={"share_groups": share_groups},
    adds=_unfinished,
    order=Order(findings=14, doubts=25),
    excuses=(*archived.EXCUSES, *began.EXCUSES),
    planted=(
        "never_delivered",
        "near_skipped_read_delivered_to_another_member",
        "held_by_a_dead_member_and_not_delivered_again",
        "released_below_the_limit_and_not_delivered_again",
        "near_skipped_read_released_up_to_the_limit",
        "near_skipped_read_delivered_again_after_a_death",
        "accepted_and_delivered_again",
        "near_commit_regressed_accepted_too_late",
        "delivered_above_the_limit",
        "near_commit_regressed_delivered_up_to_the_limit",
        "released_and_not_counted",
        "near_commit_regressed_released_and_counted",
        "near_commit_regressed_released_without_an_answer",
        "delivered_to_another_member_within_the_lock",
        "near_commit_regressed_delivered_again_when_the_lock_had_ended",
        "share_group_done_with_more_than_there_is",
        "share_group_went_back",
        "share_group_not_finished",
        "share_group_stuck",
        "near_share_group_stuck_for_a_moment",
        "near_skipped_read_from_before_the_group_began",
        "never_delivered_after_the_group_began",
        "first_records_of_an_added_partition_never_delivered",
        "near_skipped_read_of_a_partition_that_was_added_before_the_group_began",
    ),
)

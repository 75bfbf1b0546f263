"""Share groups (KIP-932): each record is given until somebody accepts or rejects it, and what is accepted stays so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.contract.contract import SENTINEL
from harness.model.finding import Kind
from harness.model.outcome import Outcome, TxnOutcome
from harness.model.schemas import Columns
from harness.verify.engine.case import Case, place_of
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import UNSHARED, found, union
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD, frame

_SHARE: Final = [BUNDLE, "group", *PLACE[1:]]
_GIVEN: Final = [*_SHARE, "offset"]
_STANDS: Final[Columns] = {
    "group": "string",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "isolation": "string",
    "limit": "int64",
    "lock_ms": "int64",
    "unseen": "int64",
    "done": "bool",  # the coordinator said that it is done with all of it
    "start": "int64",  # and with all below this, whatever else is left
    "asked_ns": "int64",
}
# Who dies answers nothing more: a fetch that it was to answer gave at most one lot to nobody.
_DEATHS: Final = frozenset({"kill", "terminate", "reader_dies", "rolling_restart", "kill_deleting"})
_REQUEST_S: Final = 4.0  # request.timeout.ms of the workload's clients, after which one asks anew


def shared(given: Prepared) -> DataFrame:
    """Records that the drain of a group's isolation shows, as far as they were written when its coordinator was asked
    what is left, against what members were given.

    The group is done with one that no member ever said to accept or reject: skipped_read, given or not. How often it
    was given stands beside it, for it may have been archived at the limit. Deliveries that nobody saw count, too: where
    those of the faults suffice, this is no finding, and leaves the run in doubt. One of which two answers were
    acknowledged that accept or reject it: commit_regressed, for who has it given again has forgotten the first.
    Anything else that is given again is at least once, and no finding.
    """
    rows = [row for n, case in enumerate(given.cases) for row in _of(n, case)]
    stands = F.broadcast(frame(given.spark, _STANDS, rows))
    wanted = _wanted(given, stands)
    answered = given.deliveries.where(given.complete)
    mine = answered.groupBy(*_GIVEN).agg(
        # What the group counted itself is no proof: a broker that miscounts gives up too early.
        F.count("*").alias("times"),
        F.max("given_ns").alias("last_ns"),
        F.count_if(F.col("answer").isin("accept", "reject")).alias("over"),
        F.count_if(F.col("answer").isin("accept", "reject") & (F.col("outcome") == Outcome.ACKED.value)).alias(
            "reported"
        ),
    )
    began = answered.groupBy(*_SHARE).agg(F.min("given_ns").alias("began_ns"))
    each = wanted.join(mine, _GIVEN, "left").join(F.broadcast(began), _SHARE, "left").localCheckpoint()
    times = F.coalesce("times", F.lit(0))
    # It may have waited in a member's buffer until its lock ran out, for as long as the group was at work.
    expired = F.floor(F.coalesce(F.col("last_ns") - F.col("began_ns"), F.lit(0)) / (F.col("lock_ms") * 10**6))
    open_ = each.where((F.col("done") | (F.col("start") > F.col("offset"))) & (F.coalesce("over", F.lit(0)) == 0))
    archived = times >= F.col("limit")
    dark = ~archived & (times + F.col("unseen") + expired >= F.col("limit"))
    reason = F.when(F.col("times").isNull(), F.lit("never given")).otherwise(F.lit("unaccepted"))
    kind = F.when(dark, F.lit(UNSHARED)).otherwise(F.lit(Kind.SKIPPED_READ.value))
    again = each.where("reported > 1")
    return union(
        [
            found(open_, kind, reason, reader="group", other=times),
            found(again, Kind.COMMIT_REGRESSED, "answered again", reader="group", other="reported"),
        ]
    )


def members(given: Prepared) -> DataFrame:
    """By place, who was given records there as a member of a share group that `shared` judges."""
    rows = [
        (n, s.group, topic) for n, c in enumerate(given.cases) for s in c.contract.shares.values() for topic in s.topics
    ]
    groups = F.broadcast(frame(given.spark, {"group": "string", "topic": "string"}, rows))
    return given.deliveries.join(groups, [BUNDLE, "group", "topic"], "left_semi").select(*PLACE, "reader").distinct()


def _wanted(given: Prepared, stands: DataFrame) -> DataFrame:
    """One row a record and group. Left out is what may have come to be there, or to be shown, only afterwards: above
    all that was acknowledged, and all that a member was given, before the coordinator was asked."""
    acked = given.ledger.where((F.col("outcome") == Outcome.ACKED.value) & F.col("offset").isNotNull())
    acked = acked.join(stands.select(*PLACE, "asked_ns").distinct(), PLACE).where("returned_ns <= asked_ns")
    written = acked.groupBy(*PLACE).agg(F.max("offset").alias("written"))
    shared_out = given.deliveries.join(stands.select(*_SHARE, "asked_ns"), _SHARE).where("given_ns <= asked_ns")
    reached = shared_out.groupBy(*_SHARE).agg(F.max("offset").alias("reached"))
    shown = given.observations.where("kind = 'drain'").join(stands, [*PLACE, "isolation"])
    load = given.streams.where(~F.col("producer").eqNullSafe(SENTINEL)).select(BUNDLE, "stream")
    shown = shown.join(F.broadcast(load), [BUNDLE, "stream"], "left_semi")
    shown = shown.join(F.broadcast(written), PLACE, "left").join(F.broadcast(reached), _SHARE, "left")
    shown = shown.where("offset <= greatest(written, reached)")
    undecided = given.ledger.where(F.col("txn").eqNullSafe(TxnOutcome.UNKNOWN.value)).select(*RECORD)
    shown = shown.join(undecided, RECORD, "left_anti")
    return shown.select(*_GIVEN, "stream", "seq", "limit", "lock_ms", "unseen", "done", "start").distinct()


def _of(number: int, case: Case) -> Iterator[tuple[Any, ...]]:
    """Where each share group stands, of every partition of its topics; nothing of a run that died half way."""
    last = case.last_snapshot
    if last is None or not case.complete:
        return
    stands = {(r["group"], r["topic"], r["partition"]): r for r in case.cluster.get("share_groups") or []}
    for share in case.contract.shares.values():
        for row in last["partitions"]:
            at = stands.get((share.group, row["topic"], row["partition"]))
            if row["topic"] in share.topics and at is not None:
                yield (
                    number,
                    share.group,
                    *place_of(row),
                    share.isolation,
                    share.limit,
                    share.lock_ms,
                    _unseen(case),
                    at["lag"] == 0,
                    at["start"] or 0,
                    at["asked_ns"],
                )


def _unseen(case: Case) -> int:
    """How often a record may have been given to nobody, at most: locked by a fetch whose answer was lost."""
    times = 0
    for step in case.steps:
        if step["is_fault"] and step["started_ns"] is not None:
            # An action that disturbs is over when it is through: nothing of it is healed.
            until_ns = step["healed_ns"] or step["ended_ns"] or case.run.get("ended_ns") or step["started_ns"]
            again = 0 if step["do"] in _DEATHS else (until_ns - step["started_ns"]) / 1e9 // _REQUEST_S
            times += 1 + int(again)
    return times


def undrained(case: Case) -> Iterator[str]:
    """Of which partitions a share group was not done when it ended, so that nothing was owed yet; a sentence each."""
    stands = {(r["group"], r["topic"], r["partition"]): r for r in case.cluster.get("share_groups") or []}
    last = case.last_snapshot
    for share in case.contract.shares.values():
        for row in last["partitions"] if last else []:
            at = stands.get((share.group, row["topic"], row["partition"]))
            place = f"{row['topic']}/{row['partition']}"
            if row["topic"] not in share.topics or (at is not None and at["lag"] == 0):
                continue
            if at is None or at["lag"] is None:
                yield f"no coordinator told how far share group {share.group} was with {place}"
            else:
                yield f"share group {share.group} was not done with {place}: {at['lag']} offsets from {at['start']} on"

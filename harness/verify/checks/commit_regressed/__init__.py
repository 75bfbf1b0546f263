"""commit_regressed: a group's offset is below its last acknowledged commit, or was never committed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.documents.cluster import Snapshot
from harness.model.documents.steps import GroupDeleted
from harness.model.documents.verdict_facts import VerdictFacts
from harness.model.doubt_names import DoubtName
from harness.model.finding import Kind
from harness.model.outcome import Outcome, TxnOutcome
from harness.model.schemas import Columns
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.checks.commit_regressed import offset_loss
from harness.verify.checks.commit_regressed.held_back import with_last_execution
from harness.verify.checks.commit_regressed.reasons import Reported
from harness.verify.checks.commit_regressed.redelivered import missed, redelivered
from harness.verify.checks.commit_regressed.session_begins import began_below_commits
from harness.verify.engine.bucket_rows import Drill
from harness.verify.engine.case import Case
from harness.verify.engine.kept import is_empty, kept
from harness.verify.engine.known import Known
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.prepared import Prepared, at_place
from harness.verify.engine.rows import found
from harness.verify.engine.runs import RecordRange
from harness.verify.engine.tables import BUNDLE, RECORD, Values, frame
from harness.verify.promise import Check, Introduced

# An unanswered commit may be executed late, by a broker that had not read the request yet.
_LATE_NS: Final = 60 * 10**9
_AT: Final = [BUNDLE, "group", "topic", "partition"]
_QUESTION: Final[Columns] = {
    "asked": "int64",  # number of the question
    "group": "string",
    "topic": "string",
    "partition": "int32",
    "reported": "int64?",  # null = the group has no offset there
    "asked_ns": "int64",
    "answered_ns": "int64",
}
# Offsets of the first snapshot were committed before the run. They may expire at any time while a group is idle.
_FIRST: Final = -(2**62)


def commit_regressed(drill: Drill) -> DataFrame | None:
    """Every offset that a coordinator reported, compared with the commits that were acknowledged before it was asked.

    A reported offset is legal if it is that of an acknowledged commit which no later commit followed (a broker may
    execute two overlapping commits in either order), of any commit that was tried after it until the answer, of an
    unanswered commit from shortly before it, or of one that was executed once more after it (see `held_back.py`). A
    commit inside a transaction counts from the end of the transaction, and only if that committed. If the outcome of
    the transaction is unknown, its records decide; offsets with another outcome than the records are a torn
    transaction.
    """
    given = drill.given
    questions = [row for n, case in enumerate(given.cases) for row in _questions(n, case)]
    if not questions and is_empty(given.offset_commits):
        return None
    commits = kept(_commits(drill))
    asked = frame(given.spark, _QUESTION, questions)
    asked = asked.unionByName(_without_offset(given, commits))
    tried = asked.join(commits, _AT).where("called_ns <= answered_ns")
    key = [*_AT, "asked"]
    acked = (F.col("fate") == Outcome.ACKED.value) & (F.col("done_ns") <= F.col("asked_ns"))
    last = tried.groupBy(*key).agg(
        F.max(F.when(acked, F.struct("order_ns", "offset", "by_records", "done_ns"))).alias("last"),
        F.max(F.when(acked, F.least("called_ns", "order_ns"))).alias("begun_ns"),
    )
    since = F.coalesce("begun_ns", F.lit(_FIRST))
    late = F.when(F.col("fate") == Outcome.UNKNOWN.value, F.col("order_ns") + _LATE_NS)
    late = late.otherwise(F.greatest("done_ns", "executed_ns"))
    same = tried.join(last, key).where(F.col("offset").eqNullSafe(F.col("reported")))
    legal = same.where((late >= since) & (F.col("fate") != Outcome.REFUSED.value)).select(*key).distinct()
    known = same.where(F.col("fate") != Outcome.REFUSED.value)
    known = known.groupBy(*key).agg(F.max("order_ns").alias("known_ns"))
    after = F.col("order_ns") > F.coalesce("known_ns", F.lit(_FIRST - 1))
    replaced = tried.join(known, key, "left").where(acked & after)
    replaced = replaced.groupBy(*key).agg(F.min("done_ns").alias("replaced_ns"))
    undone = same.where(F.col("by_records") & (F.col("fate") == Outcome.REFUSED.value))
    undone = undone.groupBy(*key).agg(F.lit(True).alias("undone"))
    rows = asked.join(last, key, "left").join(legal, key, "left_anti")
    rows = rows.join(undone, key, "left").join(known, key, "left").join(replaced, key, "left")
    rows = rows.where("reported IS NOT NULL OR last IS NOT NULL").join(_topic_ids(given), [BUNDLE, "topic"], "left")
    reason = (
        F.when(F.col("last.by_records") | F.col("undone"), F.lit(Reported.OFFSETS))
        .when(F.col("reported").isNull(), F.lit(Reported.GONE))
        .when(F.col("last").isNotNull() & F.col("last.offset").isNull(), F.lit(Reported.DELETED))
        .when(F.col("known_ns").isNotNull() & (F.col("reported") < F.col("last.offset")), F.lit(Reported.BEHIND))
        .otherwise(F.lit(Reported.NOBODY))
    )
    rows = rows.groupBy(*_AT, "topic_id", "reported", "last", reason.alias("reason")).agg(
        F.min("answered_ns").alias("reported_ns"), F.min("replaced_ns").alias("replaced_ns")
    )
    torn = F.col("reason") == Reported.OFFSETS
    return found(
        rows,
        F.when(torn, F.lit(Kind.TORN_TRANSACTION.value)).otherwise(F.lit(Kind.COMMIT_REGRESSED.value)),
        F.col("reason"),
        offset="reported",
        reader="group",
        other=F.col("last.offset"),
        done_ns=F.col("last.done_ns"),
    )


def _commits(drill: Drill) -> DataFrame:
    """Commits with their outcome (`fate`), their place in time (`order_ns`), and when they were done.

    `by_records`: the end of the transaction was never answered, and its records decide the outcome.
    """
    given = drill.given
    ends = given.transactions.select(BUNDLE, "txn_id", F.col("outcome").alias("ended"), "ended_ns")
    tried = with_last_execution(given, given.offset_commits.where(given.complete))
    rows = tried.join(ends, [BUNDLE, "txn_id"], "left")
    rows = rows.join(_decided_by_records(drill), [BUNDLE, "txn_id"], "left")
    fate = (
        F.when(F.col("txn_id").isNull() | (F.col("ended") == TxnOutcome.COMMITTED.value), F.col("outcome"))
        .when((F.col("ended") == TxnOutcome.ABORTED.value) | ~F.col("visible"), F.lit(Outcome.REFUSED.value))
        .when(F.col("visible"), F.col("outcome"))
        .otherwise(F.lit(Outcome.UNKNOWN.value))
    )
    rows = rows.select(
        *_AT,
        "offset",
        "called_ns",
        fate.alias("fate"),
        F.coalesce("ended_ns", "called_ns").alias("order_ns"),
        F.coalesce("ended_ns", "returned_ns").alias("done_ns"),
        "executed_ns",
        F.col("visible").isNotNull().alias("by_records"),
    )
    before = [
        (n, g.group, g.topic, g.partition, g.offset)
        for n, case in enumerate(given.cases)
        for s in case.cluster.snapshots
        if s.phase == "start"
        for g in s.groups
    ]
    columns = {"group": "string", "topic": "string", "partition": "int32", "offset": "int64"}
    there = frame(given.spark, columns, before)
    for column in ("called_ns", "order_ns", "done_ns", "executed_ns"):
        there = there.withColumn(column, F.lit(_FIRST).cast("bigint"))
    there = there.withColumn("by_records", F.lit(False))
    rows = rows.unionByName(there.withColumn("fate", F.lit(Outcome.UNKNOWN.value)))
    return rows.unionByName(_deleted(given, rows)) if _deletions(given) else rows


def _deletions(given: Prepared) -> list[Values]:
    """(case, group, outcome, when requested, when done) of groups that declared steps deleted."""
    return [
        (n, event.group, event.outcome, event.asked_ns, event.at_ns)
        for n, case in enumerate(given.cases)
        for event, step in case.events(GroupDeleted)
        if step.name in case.contract.group_deletions
    ]


def _deleted(given: Prepared, commits: DataFrame) -> DataFrame:
    """Deletions of groups, as commits of no offset at each place where the group ever committed one."""
    columns = {"group": "string", "fate": "string", "called_ns": "int64", "done_ns": "int64"}
    deletions = F.broadcast(frame(given.spark, columns, _deletions(given)))
    rows = commits.select(*_AT).distinct().join(deletions, [BUNDLE, "group"])
    rows = rows.withColumns(
        {"offset": F.lit(None).cast("bigint"), "order_ns": F.col("called_ns"), "executed_ns": F.col("done_ns")}
    )
    return rows.withColumn("by_records", F.lit(False)).select(*commits.columns)


def _decided_by_records(drill: Drill) -> DataFrame:
    """Transactions of unknown outcome of which read_committed returns records, or passed acknowledged ones."""
    rows = drill.sent.where(F.col("txn") == TxnOutcome.UNKNOWN.value)
    rows = at_place(rows.join(drill.shown.select(*RECORD, "rc"), RECORD, "left"), drill.given.places)
    shown = F.coalesce("rc", F.lit(False))
    passed = (F.col("outcome") == Outcome.ACKED.value) & (F.col("committed") > F.col("offset"))
    by_txn = rows.groupBy(BUNDLE, "txn_id").agg(
        F.max(shown).alias("visible"), F.count_if(passed & (F.col("offset") >= F.col("log_start"))).alias("passed_n")
    )
    return by_txn.where("visible OR passed_n > 0").select(BUNDLE, "txn_id", "visible")


def _questions(number: int, case: Case) -> Iterator[Values]:
    if not case.complete:
        return
    snapshots = case.cluster.snapshots
    for at, snapshot in enumerate(snapshots):
        undecided = _undecided(snapshot)
        for row in snapshot.groups if snapshot.phase != "start" else []:
            asked_ns = row.at_ns or snapshot.at_ns
            if row.group not in undecided:
                yield number, at, row.group, row.topic, row.partition, row.offset, asked_ns, asked_ns
    for at, answer in enumerate(case.cluster.group_answers or (), len(snapshots)):
        place = (answer.group, answer.topic, answer.partition)
        yield number, at, *place, answer.offset, answer.asked_ns, answer.at_ns


def _undecided(snapshot: Snapshot) -> set[str]:
    """Groups that were not asked for stable offsets, because a transaction hung: their offsets may be older."""
    return {row.group for row in snapshot.groups if row.stable is False}


def _never_decided(case: Case) -> set[str]:
    """Groups for which no snapshot after the start has a stable offset."""
    later = [s for s in case.cluster.snapshots if s.phase != "start"]
    reported = {row.group for s in later for row in s.groups}
    return {group for group in reported if all(group in _undecided(s) for s in later)}


def _asks_for_groups(case: Case) -> bool:
    """Whether the run asked for group offsets. This harness always does; for others, an empty list in every snapshot
    means no."""
    return case.manifest.by_harness or any(s.groups for s in case.cluster.snapshots)


def _asked_for(case: Case, snapshot: Snapshot) -> Sequence[str | None]:
    """Groups that a snapshot asked for: all (None); in bundles sealed by others, those that it names."""
    if case.manifest.by_harness:
        return [None]
    return sorted({row.group for row in snapshot.groups})


def _without_offset(given: Prepared, commits: DataFrame) -> DataFrame:
    """Places with commits for which a snapshot reports no offset, for groups that it asked for. Kafka leaves out
    places without an offset, so a missing row is an answer."""
    asking: list[tuple[int, int, int, str | None]] = []
    reported: list[tuple[int, int, str, str | None, int | None]] = []
    for n, case in enumerate(given.cases):
        for at, s in enumerate(case.cluster.snapshots):
            if s.phase in ("healed", "drained"):
                asking += [(n, at, s.at_ns, group) for group in _asked_for(case, s)]
                reported += [(n, at, row.group, row.topic, row.partition) for row in s.groups]
                reported += [(n, at, group, None, None) for group in sorted(_undecided(s))]
    group_of = {"asked": "int64", "asked_ns": "int64", "group": "string?"}
    place_of = {"asked": "int64", "group": "string", "topic": "string?", "partition": "int32?"}
    questions = F.broadcast(frame(given.spark, group_of, asking)).alias("questions")
    wanted = commits.where(F.col("fate") != Outcome.REFUSED.value).select(*_AT).distinct().alias("wanted")
    of_group = F.col("questions.group").isNull() | (F.col("questions.group") == F.col("wanted.group"))
    same_bundle = F.col(f"questions.{BUNDLE}") == F.col(f"wanted.{BUNDLE}")
    silent = wanted.join(questions, same_bundle & of_group).select("wanted.*", "asked", "asked_ns").alias("silent")
    answers = F.broadcast(frame(given.spark, place_of, reported)).alias("answers")
    same = [F.col(f"silent.{c}") == F.col(f"answers.{c}") for c in (BUNDLE, "asked", "group")]
    here = [F.col(f"silent.{c}") == F.coalesce(f"answers.{c}", f"silent.{c}") for c in ("topic", "partition")]
    silent = silent.join(answers, [*same, *here], "left_anti")
    return silent.withColumns({"reported": F.lit(None).cast("bigint"), "answered_ns": F.col("asked_ns")})


def _topic_ids(given: Prepared) -> DataFrame:
    """Topic ids by name, because coordinators know topics only by name."""
    ids = given.offset_commits.groupBy(BUNDLE, "topic").agg(F.max("topic_id").alias("topic_id"))
    return F.broadcast(ids)


def _last_commit(run: RecordRange) -> str:
    last = run.other_last
    return "no commit was acknowledged" if last is None else f"its last acknowledged commit was {last}"


def _groups(known: Known) -> Addition:
    facts = VerdictFacts(
        redelivered=known.of(REDELIVERED), missed=known.of(MISSED), stopped=offset_loss.stopped(known.case)
    )
    return Addition(doubts=[*_not_reported(known)], facts=facts)


def _not_reported(known: Known) -> Iterator[Doubt]:
    """Doubts about groups with offsets that no coordinator reported after healing."""
    case, committed = known.case, known.counts.commits
    if case.last_snapshot is None:
        return
    if committed and not _asks_for_groups(case):
        yield Doubt(
            DoubtName.NO_GROUP_OFFSETS,
            "groups committed offsets, and the coordinators were not asked for them after healing",
        )
    for group in sorted(_never_decided(case) & committed.keys()):
        yield Doubt(
            DoubtName.NO_GROUP_OFFSETS, f"no coordinator reported stable offsets of group {group} after healing"
        )


REDELIVERED: Final[OnDriver[dict[str, int]]] = OnDriver(name="redelivered", read=redelivered, none=dict)
MISSED: Final[OnDriver[dict[str, int]]] = OnDriver(name="missed", read=missed, none=dict)
CHECK: Final = Check(
    promise="The offset of a group is that of its last acknowledged commit.",
    kinds={Kind.COMMIT_REGRESSED: Introduced(promise="an acknowledged commit stays until a later commit replaces it")},
    seen={
        (Kind.COMMIT_REGRESSED, Reported.BEHIND): lambda run: f"the group's offset is too low: {_last_commit(run)}",
        (Kind.COMMIT_REGRESSED, Reported.NOBODY): lambda run: f"no commit had this offset; {_last_commit(run)}",
        (Kind.COMMIT_REGRESSED, Reported.DELETED): lambda run: (
            f"the group was deleted with its offsets, and has offset {run.offset_first} again"
        ),
        (Kind.COMMIT_REGRESSED, Reported.GONE): lambda run: f"the group has no offset; {_last_commit(run)}",
        (Kind.COMMIT_REGRESSED, Reported.BEGAN_BELOW): lambda run: (
            f"a member began there, and its group had committed {run.other_first} or a higher offset before"
        ),
        (Kind.TORN_TRANSACTION, Reported.OFFSETS): (
            "the records and the offsets of one transaction had different outcomes, so the group's offset is wrong"
        ),
    },
    queries={"commit_regressed": commit_regressed, "began_below_commits": began_below_commits},
    nothing_without={"began_below_commits": "offset_commits"},
    on_driver=(REDELIVERED, MISSED),
    adds=_groups,
    order=Order(doubts=45),
    excuses=offset_loss.EXCUSES,
    planted=(
        "commit_regressed_by_one",
        "commit_regressed_to_an_earlier_commit",
        "commit_regressed_to_nothing",
        "commit_regressed_ahead_of_every_commit",
        "commit_regressed_inside_a_transaction",
        "commit_never_made",
        "near_commit_regressed_unknown_commit_higher",
        "near_commit_regressed_unknown_commit_ignored",
        "near_commit_regressed_rewound_by_a_commit",
        "commit_regressed_of_a_deleted_group",
        "near_commit_regressed_of_a_deleted_group",
        "commit_regressed_with_an_unrelated_unclean_election",
        "near_commit_regressed_by_an_unclean_election",
        "member_began_again_below_its_commits",
        "near_commit_regressed_began_again_at_a_commit",
    ),
)

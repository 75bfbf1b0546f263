"""offset_lookup: a leader that was asked for the first record of a time or later names another record, or none.

Compared with what the read after healing returned. A leader may name a control record, which no reader receives and
which has a timestamp, too; by the leader's own answer it is not older than requested. Where retention or DeleteRecords
may have removed records, a leader must still find those at or above the log start. It searches only the first segment
with a time that is not older; if that time is of a record below the log start, it finds nothing there, and answers that
there is none. So it may find none for times up to the latest one below the log start.

On a compacted topic a leader must name a record at or before the first one that must stay for ever. It finds none for
times up to `EMPTIED`, which is a note.

A leader is also asked for the start of the log, and for the first of the records with the latest time. For that one it
looks at its own disk only, so that nothing is expected of it on topics in the remote tier.

Of the end of the log: see `log_end.py`.

Where nothing shortens a log and none of it is in a remote tier, each offset is that of a record or lies in a batch on a
disk, as that of a marker does.

With a record of a time the leader names the leader epoch of its batch, by which consumers detect truncation (KIP-320).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.model.doubt_names import DoubtName
from harness.model.finding import Kind
from harness.model.schemas import EARLIEST, MAX_TIMESTAMP
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.checks.offset_lookup.log_end import wrong_ends
from harness.verify.engine.case import UNCOMMITTED, Place
from harness.verify.engine.kept import kept
from harness.verify.engine.known import Known
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import LOOKUP_HIDDEN, Reason, found, union
from harness.verify.engine.tables import BUNDLE, PLACE, UNBOUNDED, is_drain
from harness.verify.excuses.compaction.must_stay import must_stay
from harness.verify.excuses.retention import topics_that_keep_all
from harness.verify.excuses.shortened import shortened_places
from harness.verify.excuses.tier_objects_deleted import answerable
from harness.verify.promise import Check, Introduced, span

_ASKED = [*PLACE, "time_ms"]
# The time until which a leader of any release finds no record of a compacted topic, although there are some: the latest
# time that compaction has left without its records. It keeps the time of an emptied batch in the batch's header. For a
# segment without a batch, LogSegment.largestTimestamp returns when its file was modified. The leader searches the
# first segment whose latest time is not older than requested, and no other one.
EMPTIED: Final = "emptied_ms"
Failed = dict[Place, tuple[int, str]]  # how many requests failed, and an error


class Named(Reason):
    """The defect of a leader's answer about a time."""

    LATE = "late", "An earlier record is of the requested time or later."
    NONE = "none", "The leader names none, and its log has one."
    EARLY = "early", "It is older than the requested time."
    TIME = "time", "It has another timestamp than the leader names."
    EPOCH = "epoch", "It has another leader epoch than the leader names."
    HIDDEN = "hidden", "The leader names none, because it looks into a segment that compaction has emptied."
    START = "start", "The leader names a later start of the log."
    LATEST = "latest", "It is the first of the latest time, and the leader names another."
    NO_LATEST = "no_latest", "It is the first of the latest time, and the leader names none."
    NOTHING = "nothing", "The leader names it, and the log has nothing there."


def offset_lookup(given: Prepared) -> DataFrame:
    """The record that the leader should have named or, where the named one is older than requested, that record."""
    lookups = _asked(given)
    there = given.observations.where(is_drain() & (F.col("isolation") == UNCOMMITTED))
    there = there.select(*PLACE, "offset", F.col("timestamp_ms").alias("at_ms"), "leader_epoch")
    named = there.withColumnsRenamed({"offset": "named", "at_ms": "has_ms", "leader_epoch": "has_epoch"})
    named = named.join(F.broadcast(lookups.select(*PLACE, "named").distinct()), [*PLACE, "named"], "left_semi")
    judged = lookups.join(_first_since(lookups, there, must_stay(given)), _ASKED, "left")
    judged = judged.join(named, [*PLACE, "named"], "left")
    judged = judged.join(F.broadcast(_of_nothing(judged, given)), [*PLACE, "named"], "left")
    rows = judged.withColumn("reason", _reason()).where("reason IS NOT NULL")
    # Where the leader should have named another record, that one; otherwise the one that it named.
    by_rank = F.when(F.col("reason").isin(Named.LATEST, Named.NO_LATEST), F.col("latest.offset"))
    by_rank = by_rank.when(F.col("reason").isin(Named.NONE, Named.LATE, Named.START), F.col("first.offset"))
    rows = rows.withColumn("offset", F.coalesce(by_rank, F.col("named")))
    other = F.when(F.col("reason").isin(Named.LATE, Named.START, Named.LATEST), F.col("named"))
    other = other.when(F.col("reason") == Named.EARLY, F.col("time_ms"))
    other = other.when(F.col("reason") == Named.EPOCH, F.col("named_epoch"))
    other = F.coalesce(other, F.col("named_ms"))
    rows = _once(rows.withColumn("other", other))
    kind = F.when(F.col("reason") == Named.HIDDEN, F.lit(LOOKUP_HIDDEN)).otherwise(F.lit(Kind.OFFSET_LOOKUP.value))
    return found(rows, kind, F.col("reason"), reader=F.lit("leader"))


def _reason() -> Column:
    """The defect of an answer, from the columns that `offset_lookup` joins."""
    named, latest = F.col("named"), F.col("latest")
    has_another_time = F.col("has_ms") != F.col("named_ms")
    of_start = F.when(named > F.col("first.offset"), Named.START)
    before = (F.col("named_ms") == latest["at_ms"]) & (named > latest["offset"])
    of_latest = (
        F.when(named.isNull() & F.col("twice") & (latest["at_ms"] > F.greatest("past_ms", EMPTIED)), Named.NO_LATEST)
        .when(F.col("finds") & ((F.col("named_ms") < latest["at_ms"]) | before), Named.LATEST)
        .when(has_another_time, Named.TIME)
        .when(F.col("nothing"), Named.NOTHING)
    )
    finds_none = named.isNull() & F.col("first").isNotNull() & (F.col("time_ms") > F.col("past_ms"))
    of_time = (
        F.when(finds_none & (F.col("time_ms") <= F.col(EMPTIED)), Named.HIDDEN)
        .when(finds_none & F.col("twice"), Named.NONE)
        .when((named > F.col("first.offset")) & F.col("finds"), Named.LATE)
        .when(F.coalesce("has_ms", "named_ms") < F.col("time_ms"), Named.EARLY)
        .when(has_another_time, Named.TIME)
        .when((F.col("has_epoch") >= 0) & (F.col("has_epoch") != F.col("named_epoch")), Named.EPOCH)
        .when(F.col("nothing"), Named.NOTHING)
    )
    asked_for = F.col("time_ms")
    reason = F.when(asked_for == EARLIEST, of_start).when(asked_for == MAX_TIMESTAMP, of_latest)
    return reason.when(asked_for >= 0, of_time)


def _of_nothing(judged: DataFrame, given: Prepared) -> DataFrame:
    """Named offsets at which no record was read, and that no batch on a disk covers, where one was read."""
    unread = judged.where("whole AND has_ms IS NULL AND named IS NOT NULL").select(*PLACE, "named").distinct()
    batches = given.batches.select(*PLACE, "base_offset", "last_offset")
    beside = F.broadcast(unread).join(batches, PLACE)
    covered = F.col("named").between(F.col("base_offset"), F.col("last_offset"))
    beside = beside.groupBy(*PLACE, "named").agg((~F.max(covered)).alias("nothing"))
    return beside.where("nothing")


def _asked(given: Prepared) -> DataFrame:
    """Answers with `from`: records at or above it are there; `whole`: all that it may name is on disks; `finds`:
    whether a leader names none that is later than the first of them; `past_ms`: for a later time than this one it must
    name one; EMPTIED; `compacted`; and `twice`: whether two questions had an answer without a record, if that is
    necessary (see `_with_past`)."""
    lookups = given.lookups.where("error IS NULL")
    answer = {"offset": "named", "timestamp_ms": "named_ms", "leader_epoch": "named_epoch"}
    lookups = lookups.select(*_ASKED, *answer).withColumnsRenamed(answer)
    asked = lookups.join(topics_that_keep_all(given), [BUNDLE, "topic"])
    # The latest record is looked for on the leader's disk only.
    finds = (F.col("time_ms") != MAX_TIMESTAMP) | ~F.col("tiered")
    past_ms = F.when(finds, F.lit(-UNBOUNDED)).otherwise(F.lit(UNBOUNDED))
    asked = asked.withColumns({"from": F.lit(0).cast("bigint"), "finds": finds, "past_ms": past_ms})
    asked = asked.withColumns({EMPTIED: F.lit(-UNBOUNDED), "compacted": F.lit(False), "twice": F.lit(True)})
    without = F.sum(F.col("named").isNull().cast("int")).over(Window.partitionBy(*_ASKED))
    # A leader that named none before has got a marker since, which may be later than the disks were read.
    asked = asked.withColumn("whole", ~F.col("tiered") & (without == 0)).drop("tiered")
    shortened = shortened_places(given)
    if shortened is None:
        return asked
    short = lookups.join(F.broadcast(kept(_with_past(shortened, given))), PLACE)
    twice = ~F.col("compacted") | (without > 1)
    return asked.unionByName(short.withColumns({"twice": twice, "whole": F.lit(False)}))


def _with_past(shortened: DataFrame, given: Prepared) -> DataFrame:
    """Places with `past_ms`, the latest time below `from` in a segment that is still there, on any disk, and EMPTIED.
    `past_ms` is beyond all times if the leader's disk was not read.

    Disks are read after the questions. A cleaner may meanwhile remove what it had emptied before, so that a leader is
    asked twice, before and after the disks are read.
    """
    places = shortened.where("finds_any").select(*PLACE, "from", "leader", "empty_ms")
    batches = given.batches.join(places, PLACE)
    of_leader = F.col("broker") == F.col("leader")
    below = F.max(F.when(F.col("base_offset") < F.col("from"), F.col("max_timestamp_ms")))
    emptied = F.max(F.when(of_leader & (F.col("count") == 0), F.col("max_timestamp_ms")))
    by_place = batches.groupBy(*PLACE).agg(
        below.alias("below_ms"),
        emptied.alias("emptied_ms"),
        # A broker does not serve what is in a segment below the log start.
        F.max(of_leader & F.col("segment").isNotNull()).alias("was_read"),
    )
    places = shortened.join(by_place, PLACE, "left")
    past_ms = F.when(F.col("was_read"), F.coalesce("below_ms", F.lit(-UNBOUNDED))).otherwise(F.lit(UNBOUNDED))
    empty_ms = F.coalesce(F.greatest("emptied_ms", "empty_ms"), F.lit(-UNBOUNDED))
    return places.select(*PLACE, "from", "finds", "compacted", past_ms.alias("past_ms"), empty_ms.alias(EMPTIED))


def _first_since(lookups: DataFrame, there: DataFrame, staying: DataFrame | None) -> DataFrame:
    """The first record of each requested time or later, and the first of the `latest` time of these. `staying`: those
    of compacted topics that count."""
    if staying is None:
        return _firsts(lookups, there)
    firsts = [_firsts(lookups.where("NOT compacted"), there), _firsts(lookups.where("compacted"), staying)]
    return union(firsts)


def _firsts(lookups: DataFrame, there: DataFrame) -> DataFrame:
    """A record counts once, for the latest of the times that it answers; otherwise each record would be a row for each
    of 26 times."""
    asked = lookups.groupBy(*PLACE, "from").agg(F.sort_array(F.collect_set("time_ms")).alias("times"))
    answers = F.size(F.filter("times", lambda time_ms: time_ms <= F.col("at_ms")))
    # Many records have one timestamp; which times it answers is then computed once for all of them.
    by_time = there.groupBy(*PLACE, "at_ms").agg(F.min("offset").alias("offset"))
    # Of records with one timestamp, some of which are below the log start, none is expected.
    by_time = by_time.join(F.broadcast(asked), PLACE).where(F.col("offset") >= F.col("from"))
    by_rank = by_time.groupBy(*PLACE, answers.alias("answers"))
    latest = F.struct((-F.col("at_ms")).alias("older"), "offset", "at_ms")
    firsts = by_rank.agg(F.min(F.struct("offset", "at_ms")).alias("first"), F.min(latest).alias("latest"))
    ranked = asked.select(*PLACE, F.posexplode("times").alias("before", "time_ms"))
    found_by = ranked.join(firsts, PLACE).where("answers > before").groupBy(*_ASKED)
    return found_by.agg(F.min("first").alias("first"), F.min("latest").alias("latest"))


def _once(rows: DataFrame) -> DataFrame:
    """One row for each answer: several times may have the same answer."""
    return rows.groupBy(*PLACE, "offset", "reason").agg(F.min("other").alias("other"))


def unanswered(given: Prepared) -> list[Failed]:
    """By place, how many requests for offsets by time or epoch failed, and an error. `epoch_lookup` needs no list of
    its own: requests of both sorts fail together."""
    found: list[Failed] = [{} for _ in given.cases]
    questions = union([table.select(*PLACE, "error") for table in (answerable(given.lookups, given), given.epoch_ends)])
    refused = questions.where("error IS NOT NULL").groupBy(*PLACE)
    for row in refused.agg(F.count("*").alias("n"), F.max("error").alias("error")).collect():
        found[row[BUNDLE]][row["topic"], row["topic_id"], row["partition"]] = row["n"], row["error"]
    return found


def _ends_and_silence(known: Known) -> Addition:
    return Addition(
        findings=[*wrong_ends(known.case)],
        doubts=[
            Doubt(
                DoubtName.LOOKUP_UNANSWERED,
                f"{n} requests for offsets of {topic}/{partition} by time or epoch failed: {error}",
            )
            for (topic, _, partition), (n, error) in sorted(known.of(UNANSWERED).items())
        ],
    )


UNANSWERED: Final[OnDriver[Failed]] = OnDriver(name="lookups", read=unanswered, none=dict)
CHECK: Final = Check(
    promise="A leader finds the first record of a time or later, the start and end of the log, and the latest record.",
    kinds={
        Kind.OFFSET_LOOKUP: Introduced(
            promise=(
                "a leader finds the first record of a time or later, on disk or in the remote tier (KIP-79, KIP-405)"
            )
        )
    },
    seen={
        (Kind.OFFSET_LOOKUP, Named.LATE): lambda run: (
            f"the record is the first one of the requested time or later, and the leader answered {span(run, 'offset')}"
        ),
        (Kind.OFFSET_LOOKUP, Named.NONE): (
            "the record is the first one of the requested time or later, and the leader answered that there is none"
        ),
        (Kind.OFFSET_LOOKUP, Named.EARLY): lambda run: (
            f"the leader answered with the record, and it is older than the requested time, {span(run, 'timestamp')} ms"
        ),
        (Kind.OFFSET_LOOKUP, Named.TIME): lambda run: (
            f"the leader answered with the record and with another timestamp than it has, {span(run, 'timestamp')} ms"
        ),
        (Kind.OFFSET_LOOKUP, Named.EPOCH): lambda run: (
            f"the leader answered with the record and with another leader epoch than it has, {span(run, 'epoch')}"
        ),
        (Kind.OFFSET_LOOKUP, Named.START): lambda run: (
            f"the record is in the log, and the leader answered that the log starts after it, at {span(run, 'offset')}"
        ),
        (Kind.OFFSET_LOOKUP, Named.LATEST): lambda run: (
            f"the record is the first one with the latest timestamp, and the leader answered {span(run, 'offset')}"
        ),
        (Kind.OFFSET_LOOKUP, Named.NO_LATEST): (
            "the record is the first one with the latest timestamp, and the leader answered that there is none"
        ),
        (Kind.OFFSET_LOOKUP, Named.NOTHING): (
            "the leader answered with this offset, at which its log has neither a record nor a marker"
        ),
    },
    no_findings=frozenset({Named.HIDDEN}),
    queries={"offset_lookup": offset_lookup},
    nothing_without={"offset_lookup": "lookups"},
    on_driver=(UNANSWERED,),
    adds=_ends_and_silence,
    order=Order(findings=55, doubts=75),
    planted=(
        "offset_lookup_late",
        "offset_lookup_finds_none",
        "offset_lookup_early",
        "offset_lookup_with_another_time",
        "offset_lookup_with_another_epoch",
        "near_offset_lookup_without_an_epoch",
        "offset_lookup_of_an_older_marker",
        "near_offset_lookup_of_a_marker",
        "offset_lookup_late_above_retention",
        "offset_lookup_finds_none_above_retention",
        "offset_lookup_of_a_later_start",
        "offset_lookup_of_an_older_latest",
        "offset_lookup_of_another_than_the_latest",
        "offset_lookup_finds_no_latest",
        "offset_lookup_of_an_earlier_end",
        "offset_lookup_of_a_later_stable_offset",
        "near_offset_lookup_of_an_end_before_a_marker",
        "offset_lookup_of_no_record",
        "offset_lookup_of_no_record_as_the_latest",
        "near_offset_lookup_of_a_latest_marker",
        "offset_lookup_beside_a_segment",
        "near_offset_lookup_below_retention",
        "near_offset_lookup_after_a_later_time_below_retention",
        "offset_lookup_passes_what_compaction_keeps",
        "near_offset_lookup_passes_what_compaction_may_remove",
        "offset_lookup_finds_nothing_of_a_compacted_topic",
        "near_offset_lookup_in_an_emptied_segment",
        "offset_lookup_past_an_emptied_segment",
        "lookups_without_answer",
    ),
)

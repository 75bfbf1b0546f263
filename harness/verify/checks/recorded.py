"""Evidence that a run had recorded and that its bundle lacks.

A check without its evidence finds nothing, so a part that is lost would make a PASS of any run. `recorded` of run.json
names what the run wrote. The bundles of a harness that does not say it may lack parts: then the verdict names what was
not looked at. Live readers of this harness always have the time of a record that they receive for the first time and
the offset before it, and its producers the offsets of acknowledged records, unless they use acks=0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.doubt_names import DoubtName
from harness.model.recorded import (
    ACK_OFFSETS,
    CLUSTER_KEYS,
    GIVEN,
    HISTORY,
    POSITIONS,
    PREVIOUS,
    RUN_KEYS,
    of_cluster,
    of_run,
    positions_of,
)
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.numbered import LANE, named
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import union
from harness.verify.engine.tables import BUNDLE, PLACE
from harness.verify.promise import Check

# Tables of which other figures do not say whether they have rows.
_TABLES: Final = (
    "transactions",
    "offset_commits",
    "processed",
    "deliveries",
    "failed_sends",
    "failed_calls",
    "admin_ops",
    "admin_views",
    "lookups",
    "epoch_ends",
    "probes",
    "tier_metadata",
    "tier_objects",
    "tier_replicas",
)
_COLUMNS: Final = (GIVEN, PREVIOUS, ACK_OFFSETS)  # a run without live readers, or with acks=0, has no values in them
_ACKED_MIN: Final = 20  # an acknowledgement of a copy has no offset, so few of them prove nothing
_SHOWN: Final = 3  # places, in a sentence
_LOST: Final = "the run recorded {}, and the bundle lacks it; restore it, or run the scenario again"


@dataclass(slots=True)
class There:
    """Parts of one bundle. tables: those with rows. filled: columns with values. absent: readers and producers without
    the values that they must have, by column, each with the place or the number of its records."""

    tables: set[str] = field(default_factory=set)
    filled: set[str] = field(default_factory=set)
    absent: dict[str, list[tuple[str, str]]] = field(default_factory=dict)


def there(given: Prepared, shown: DataFrame) -> list[There]:
    """The parts of each bundle. Of the columns the rows that lack a value which they must have."""
    found = [There() for _ in given.cases]
    tables = [getattr(given, name).select(BUNDLE).distinct().withColumn("table", F.lit(name)) for name in _TABLES]
    for row in union(tables).collect():
        found[row[BUNDLE]].tables.add(row["table"])
    _live(given, shown, found)
    _acked(given, found)
    return found


def _live(given: Prepared, shown: DataFrame, found: list[There]) -> None:
    by_session = (
        shown.where("kind = 'live'")
        .groupBy(BUNDLE, "reader", LANE, "session")
        .agg(*[F.sum(name).alias(name) for name in ("timed", "ordered", "n")])
    )
    by_place = by_session.groupBy(BUNDLE, "reader", LANE).agg(
        F.sum("timed").alias("timed"),
        F.sum("ordered").alias("ordered"),
        F.max(F.col("n") - F.col("ordered") > 1).alias("unordered"),
    )
    named_places = named(by_place, LANE, PLACE[1:], given.numbered_places, given.observations)
    for row in named_places.collect():
        of, who = found[row[BUNDLE]], (row["reader"], f"{row['topic']}/{row['partition']}")
        of.filled |= ({GIVEN} if row["timed"] else set()) | ({PREVIOUS} if row["ordered"] else set())
        for column, lacks in ((GIVEN, not row["timed"]), (PREVIOUS, row["unordered"])):
            if lacks:
                of.absent.setdefault(column, []).append(who)


def _acked(given: Prepared, found: list[There]) -> None:
    by_stream = given.groups.groupBy(BUNDLE, "stream").agg(
        F.sum(F.when(F.col("is_acked"), F.col("n")).otherwise(0)).alias("acked"),
        F.sum(F.when(F.col("is_reported"), F.col("n")).otherwise(0)).alias("offsets"),
    )
    known = given.streams.where("producer IS NOT NULL AND acks != '0'").select(BUNDLE, "stream", "producer")
    by_producer = (
        by_stream.join(F.broadcast(known), [BUNDLE, "stream"])
        .groupBy(BUNDLE, "producer")
        .agg(F.sum("acked").alias("acked"), F.sum("offsets").alias("offsets"))
    )
    for row in by_producer.collect():
        of = found[row[BUNDLE]]
        if row["offsets"]:
            of.filled.add(ACK_OFFSETS)
        elif row["acked"] >= _ACKED_MIN:
            of.absent.setdefault(ACK_OFFSETS, []).append((row["producer"], f"{row['acked']} records"))


THERE: Final[OnDriver[There]] = OnDriver(name="there", read=there, none=There)


def _parts(known: Known) -> Addition:
    case, found = known.case, known.of(THERE)
    if not case.complete or THERE.name in known.failed:
        return Addition()
    have, recorded = _whole_parts(known, found), case.run.recorded or ()
    lost = [part for part in recorded if part not in have and part not in _COLUMNS]
    doubts = [Doubt(DoubtName.EVIDENCE_MISSING, _LOST.format(part)) for part in lost]
    doubts += [Doubt(DoubtName.EVIDENCE_MISSING, text) for text in _of_columns(case, found)]
    return Addition(doubts=doubts, not_covered=[*_not_there(case, have | {*recorded})])


def _whole_parts(known: Known, found: There) -> set[str]:
    """The names of the parts that the bundle has."""
    case = known.case
    of_brokers = case.once(_sampled)
    have = found.tables | found.filled
    have |= {of_run(key) for key in RUN_KEYS if getattr(case.run, key) is not None}
    have |= {of_cluster(key) for key in CLUSTER_KEYS if getattr(case.cluster, key)}
    have |= {positions_of(broker) for broker in of_brokers} | ({POSITIONS} if of_brokers else set())
    have |= {HISTORY} if case.history is not None else set()
    have |= {"ledger"} if known.counts.sent else set()
    have |= {"observations"} if known.counts.read else set()
    return have | ({"batches"} if known.counts.disks else set())


def _sampled(case: Case) -> set[int]:
    return {sample.broker for sample in case.samples()}


def _of_columns(case: Case, found: There) -> Iterator[str]:
    """Rows without a value that every run of this harness writes, in a bundle that has others or says that it had."""
    readers = {reader.name for reader in case.scenario.readers or ()}
    for column, rows in found.absent.items():
        if not _claims(case, column):
            continue
        mine = [row for row in rows if column == ACK_OFFSETS or row[0] in readers]
        if mine:
            shown = ", ".join(f"{who} of {what}" for who, what in sorted(mine)[:_SHOWN])
            yield f"{column} is empty in rows that every run writes it in ({shown}); restore it, or run it again"


def _claims(case: Case, column: str) -> bool:
    """Whether the run wrote a column. Earlier versions of this harness do not say so, and did."""
    if case.run.recorded is not None:
        return column in case.run.recorded
    return case.of_harness and bool(case.manifest.files)


def _not_there(case: Case, known: set[str]) -> Iterator[str]:
    """Texts about parts that are missing, or that the run did not say it had recorded."""
    for part, (needed, text) in _UNSEEN.items():
        if part not in known and needed(case):
            yield text


def _has_groups(case: Case) -> bool:
    return bool(case.contract.readers)


def _has_transactions(case: Case) -> bool:
    return any(producer.transactional for producer in case.contract.producers.values())


def _reads_files(case: Case) -> bool:
    """Not on clusters of which the harness reads no files: the verdict says so already."""
    return case.run.capabilities is None or "disk.read" in case.run.capabilities


def _reads(case: Case) -> bool:
    return bool(case.scenario.readers)


def _acknowledges(case: Case) -> bool:
    return any(producer.acks != "0" for producer in case.contract.producers.values())


def _always(_: Case) -> bool:
    return True


_UNSEEN: Final[dict[str, tuple[Callable[[Case], bool], str]]] = {
    POSITIONS: (_always, "offsets of replicas while the load ran: no broker was asked for them"),
    GIVEN: (_reads, "records that live readers skipped or received too early: it is not recorded when they came"),
    PREVIOUS: (_reads, "the order of records within a poll of a live reader: it is not recorded"),
    ACK_OFFSETS: (_acknowledges, "offsets in acknowledgements: none was recorded"),
    of_run("exits"): (_reads_files, "ends of nodes: it is not recorded which of them ended by themselves"),
    of_run("groups_at_rest"): (_has_groups, "consumer groups after healing: no coordinator was asked for their state"),
    of_run("groups_resume"): (
        _has_groups,
        "records between two sessions of a consumer group: members may begin at other offsets than the committed ones",
    ),
    of_run("transactions_ended"): (
        _has_transactions,
        "transactions that a coordinator does not end: no coordinator was asked for them",
    ),
    of_cluster("brokers"): (_always, "the metadata that each broker serves: no broker was asked for it"),
    of_cluster("coordinators"): (_reads_files, "the state of coordinators at the end: it was not compared with a log"),
}
CHECK: Final = Check(
    promise="The bundle has every part of the evidence that the run recorded.",
    on_driver=(THERE,),
    adds=_parts,
    order=Order(doubts=96, not_covered=26),
    planted=(
        "doubt_positions_taken_away",
        "doubt_positions_of_one_broker_taken_away",
        "doubt_receipt_times_taken_away",
        "doubt_receipt_times_of_one_partition_taken_away",
        "doubt_order_of_records_taken_away",
        "doubt_acknowledged_offsets_taken_away",
        "doubt_exits_taken_away",
        "doubt_groups_at_rest_taken_away",
        "doubt_wait_for_readers_taken_away",
        "doubt_groups_resume_taken_away",
        "doubt_transactions_ended_taken_away",
        "doubt_metadata_of_brokers_taken_away",
        "doubt_coordinators_taken_away",
        "doubt_history_taken_away",
        "near_doubt_parts_never_recorded",
        "near_doubt_parts_of_another_harness",
    ),
)

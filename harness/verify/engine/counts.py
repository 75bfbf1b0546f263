"""Figures of a run, by place and reader. The rows are few, so they fit on the driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.contract.contract import SENTINEL
from harness.model.documents.verdict_facts import Totals
from harness.model.outcome import Outcome, TxnOutcome
from harness.verify.availability import Waits, waits
from harness.verify.engine.case import Place
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, PLACE
from harness.verify.engine.windows import WINDOWS, within

if TYPE_CHECKING:
    from harness.verify.engine.inputs import Inputs  # it needs the check of the remote tier, which needs this module


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """How many records of one place were sent, by what became of them; before, during and after: those acknowledged
    then. offset_after: the lowest offset of the latter. promised_to: the highest one that is promised, of all producers
    of the scenario. of_deleted_topic: those that would be promised if their topic
    had not been deleted."""

    attempted: int
    acked: int
    promised: int
    of_deleted_topic: int
    refused: int
    unknown: int
    before: int
    during: int
    after: int
    offset_after: int | None
    promised_to: int | None

    def within(self, window: str) -> int:
        """Those acknowledged in this window."""
        return {"before": self.before, "during": self.during, "after": self.after}[window]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A stream that its reservation and its ledger do not agree about. producer: None without a reservation."""

    stream: int
    producer: str | None
    rows: int
    sent_seq: int


@dataclass(slots=True)
class Counts:
    """Figures of one bundle. Those that only one check needs are with the check (`on_driver`).

    sent: figures by place; read: rows by (kind, isolation, reader); seen: the highest offset that a live reader
    received, by reader and place; ends: transactions by producer, by outcome and those committed `after` the faults;
    commits: acknowledged ones by group, all and `after` the faults; streams: one row for each inconsistent stream;
    reserved: the strongest acks, and the idempotence, with which streams of a producer were reserved; clients: the
    clients that wrote them, by producer; disks: brokers with batches that were read; waits: waiting times.
    """

    sent: dict[Place, Sent] = field(default_factory=dict)
    read: dict[tuple[str, str, str], int] = field(default_factory=dict)
    seen: dict[tuple[str, Place], int] = field(default_factory=dict)
    ends: dict[str, dict[str, int]] = field(default_factory=dict)
    commits: dict[str, dict[str, int]] = field(default_factory=dict)
    streams: list[Stream] = field(default_factory=list)
    reserved: dict[str, tuple[str | None, bool | None]] = field(default_factory=dict)
    clients: dict[str, frozenset[str]] = field(default_factory=dict)
    disks: frozenset[int] = frozenset()
    waits: Waits = field(default_factory=Waits)

    @property
    def totals(self) -> Totals:
        """The figures of `sent` over all places."""
        sent = self.sent.values()
        return Totals(
            attempted=sum(of.attempted for of in sent),
            acked=sum(of.acked for of in sent),
            promised=sum(of.promised for of in sent),
            refused=sum(of.refused for of in sent),
            unknown=sum(of.unknown for of in sent),
        )


def counts(inputs: Inputs) -> list[Counts]:
    """The figures of each bundle."""
    given = inputs.given
    out = [Counts() for _ in given.cases]
    for row in _sent(given).collect():
        figures = {k: v for k, v in row.asDict().items() if k not in PLACE}
        out[row[BUNDLE]].sent[row["topic"], row["topic_id"], row["partition"]] = Sent(**figures)
    for number, waited in enumerate(waits(given, inputs.ack_times)):
        out[number].waits = waited
    _count_reads(inputs.read, out)
    _count_ends(given, out)
    _count_commits(given, out)
    for row in given.streams.where("producer IS NULL OR rows != sent_seq").collect():
        stream = Stream(stream=row["stream"], producer=row["producer"], rows=row["rows"], sent_seq=row["sent_seq"])
        out[row[BUNDLE]].streams.append(stream)
    reserved = given.streams.where("producer IS NOT NULL").groupBy(BUNDLE, "producer")
    of_producer = reserved.agg(
        F.max("acks").alias("acks"),
        F.max("idempotent").alias("idempotent"),
        F.collect_set("client").alias("clients"),
    )
    for row in of_producer.collect():
        out[row[BUNDLE]].reserved[row["producer"]] = (row["acks"], row["idempotent"])
        out[row[BUNDLE]].clients[row["producer"]] = frozenset(row["clients"])
    for row in given.batches.groupBy(BUNDLE).agg(F.collect_set("broker").alias("read")).collect():
        out[row[BUNDLE]].disks = frozenset(row["read"])
    return out


def _count_reads(read: DataFrame, out: list[Counts]) -> None:
    by_place = read.groupBy(*PLACE, "kind", "isolation", "reader").agg(
        F.sum("all_n").alias("count"), F.max("high").alias("highest")
    )
    for row in by_place.collect():
        counts_of = out[row[BUNDLE]]
        who = row["kind"], row["isolation"], row["reader"]
        counts_of.read[who] = counts_of.read.get(who, 0) + row["count"]
        if row["kind"] == "live":
            place = row["topic"], row["topic_id"], row["partition"]
            counts_of.seen[row["reader"], place] = row["highest"]


def _count_ends(given: Prepared, out: list[Counts]) -> None:
    """A transaction ended after the faults if its end was acknowledged then."""
    rows = given.transactions.join(given.windows, BUNDLE, "left")
    after = within("after", "ended_ns", "ended_ns") & (F.col("outcome") == TxnOutcome.COMMITTED.value)
    for row in rows.groupBy(BUNDLE, "producer", "outcome").agg(F.count("*"), F.count_if(after)).collect():
        bundle, producer, outcome, count, count_after = row
        figures = out[bundle].ends.setdefault(producer, dict.fromkeys(["after", *TxnOutcome], 0))
        figures["after"] += count_after
        figures[outcome] = figures.get(outcome, 0) + count


def _count_commits(given: Prepared, out: list[Counts]) -> None:
    committed = [BUNDLE, "group", "outcome", "returned_ns"]
    # share groups acknowledge record by record
    answers = given.deliveries.where("outcome IS NOT NULL").select(*committed)
    rows = given.offset_commits.select(*committed).unionByName(answers).join(given.windows, BUNDLE, "left")
    after = within("after", "returned_ns", "returned_ns")
    for row in rows.groupBy(BUNDLE, "group", "outcome").agg(F.count("*"), F.count_if(after)).collect():
        bundle, group, outcome, count, count_after = row
        figures = out[bundle].commits.setdefault(group, {"acked": 0, "after": 0})
        if outcome == Outcome.ACKED.value:
            figures["acked"] += count
            figures["after"] += count_after


def _sent(given: Prepared) -> DataFrame:
    figures = ("attempted", "acked", "promised", "of_deleted_topic", "refused", "unknown", *WINDOWS)
    sentinels = F.broadcast(given.streams.where(F.col("producer") == SENTINEL).select(BUNDLE, "stream"))
    sent = given.sent.join(sentinels.withColumn("is_sentinel", F.lit(True)), [BUNDLE, "stream"], "left")
    return sent.groupBy(*PLACE).agg(
        *[F.sum(figure).alias(figure) for figure in figures],
        F.min("offset_after").alias("offset_after"),
        F.max(F.when(F.col("is_sentinel").isNull(), F.col("promised_to"))).alias("promised_to"),
    )

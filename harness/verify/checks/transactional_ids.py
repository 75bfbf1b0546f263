"""wrong_coordinator_state: what a coordinator has of a transactional id at the end contradicts what its client knows.

The log of a coordinator and its answer may agree and still be wrong together. A client knows more:

- A producer with an acknowledged commit that wrote records has a state, as long as transactional.id.expiration.ms has
  not passed.
- If the last transaction of a producer wrote records, and its end was acknowledged, the state is not the other end.
- The producer id is the one in the batches that the producer wrote last, and the producer epoch is not lower than
  theirs (KIP-98). Coordinators keep the id of a producer until its epochs are used up (KIP-360, KIP-890).

Not judged: Kafka Streams applications, and producers with an id in their settings, because the id is not their name;
the last transaction of clients that may have recorded less than they did, and of processors; runs in which records of
the coordinators' log may be lost, clocks changed, or an operator aborted a transaction; and for the producer id all
topics whose batches may have been deleted or lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from harness.model.clock import NS_PER_MS
from harness.model.contract.internal_topics import TRANSACTIONS
from harness.model.documents.coordinators import CoordinatorLook, CoordinatorState, StateValue
from harness.model.documents.scenario import PlannedProducer
from harness.model.facts import FactKind, Stop
from harness.model.finding import Finding, Kind
from harness.model.outcome import LIBRDKAFKA, Outcome, TxnOutcome
from harness.model.scenario.scenario import STREAMS, TRANSACTIONAL_ID
from harness.verify.addition import Addition, Order
from harness.verify.checks.transaction_refused import id_expiration_ms
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.steps import facts_in
from harness.verify.engine.tables import BUNDLE
from harness.verify.excuses.unclean_elections import may_have_forgotten
from harness.verify.promise import Check
from harness.verify.sentences import promise

_EPOCHS: Final = 30_000  # behind so many epochs a coordinator may give the producer another id
_OTHER: Final = {TxnOutcome.COMMITTED.value: "CompleteAbort", TxnOutcome.ABORTED.value: "CompleteCommit"}
_HARM: Final = (FactKind.DATA_LOST, FactKind.DISK_DAMAGED, FactKind.FLUSHES_FORGOTTEN)
_DELETED: Final = (FactKind.TOPIC_DELETED, FactKind.RECORDS_DELETED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The transactions of a producer. wrote: how many commits with acknowledged records were acknowledged. first_ns:
    when the first one began. outcome, acked, began_ns: of the last one, with its acknowledged records; earlier_ns: when
    the others had ended."""

    wrote: int
    first_ns: int | None
    outcome: str | None
    acked: int
    began_ns: int
    earlier_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The batches of transactions of one producer id in a partition: their highest offset and epoch."""

    topic: str
    partition: int
    producer_id: int
    offset: int
    epoch: int


@dataclass(slots=True)
class Clients:
    """The transactional clients of one bundle. ended: by producer."""

    ended: dict[str, Ended] = field(default_factory=dict)
    written: list[Written] = field(default_factory=list)


def clients(given: Prepared) -> list[Clients]:
    """The clients of each bundle."""
    found = [Clients() for _ in given.cases]
    producers = F.broadcast(given.streams.where("producer IS NOT NULL").select(BUNDLE, "stream", "producer"))
    sent = given.ledger.where("txn_id IS NOT NULL").select(BUNDLE, "stream", "txn_id", "outcome", "called_ns")
    records = (
        sent.join(producers, [BUNDLE, "stream"])
        .groupBy(BUNDLE, "producer", "txn_id")
        .agg(F.count_if(F.col("outcome") == Outcome.ACKED.value).alias("acked"), F.max("called_ns").alias("sent_ns"))
    )
    ends = given.transactions.select(BUNDLE, "producer", "txn_id", "outcome", "called_ns", "ended_ns")
    rows = ends.join(records, [BUNDLE, "producer", "txn_id"], "full")
    rows = rows.withColumn("began_ns", F.coalesce("called_ns", "sent_ns")).withColumn(
        "acked", F.coalesce("acked", F.lit(0))
    )
    earlier = Window.partitionBy(BUNDLE, "producer").orderBy("began_ns").rowsBetween(Window.unboundedPreceding, -1)
    rows = rows.withColumn("earlier_ns", F.max("ended_ns").over(earlier))
    wrote = (F.col("outcome") == TxnOutcome.COMMITTED.value) & (F.col("acked") > 0)
    last = F.struct("began_ns", "outcome", "acked", "earlier_ns")
    of_producer = rows.groupBy(BUNDLE, "producer").agg(
        F.count_if(wrote).alias("wrote"), F.min("began_ns").alias("first_ns"), F.max(last).alias("last")
    )
    for row in of_producer.collect():
        of_last = row["last"].asDict()
        found[row[BUNDLE]].ended[row["producer"]] = Ended(wrote=row["wrote"], first_ns=row["first_ns"], **of_last)
    batches = given.batches.where("transactional AND control IS NULL AND broker >= 0 AND producer_id >= 0")
    of_id = batches.groupBy(BUNDLE, "topic", "partition", "producer_id").agg(
        F.max("base_offset").alias("offset"), F.max("producer_epoch").alias("epoch")
    )
    for row in of_id.collect():
        found[row[BUNDLE]].written.append(Written(**{name: row[name] for name in Written.__slots__}))
    return found


def _ids(known: Known) -> Addition:
    return Addition(findings=[*wrong_ids(known, known.of(CLIENTS))])


def wrong_ids(known: Known, mine: Clients) -> Iterator[Finding]:
    """One finding for each difference of a transactional id."""
    case, look = known.case, known.case.cluster.coordinators
    if not case.complete or look is None or _may_have_lost(case):
        return
    states = {state.name: state for state in look.states if state.kind == "transaction"}
    for producer in _judged(case):
        ended, state = mine.ended.get(producer.name), states.get(producer.name)
        if ended is None or not ended.wrote:
            continue
        if _is_forgotten(case, look, state, ended):
            text = f"has no state at the end, and {ended.wrote} commits of its producer with records were acknowledged"
            yield _finding(case, producer, text)
        if state is None or not state.steady or state.logged is None:
            continue
        if texts := [*_wrong_end(known, producer, state.logged, ended), *_wrong_id(known, producer, state, mine)]:
            yield _finding(case, producer, "; ".join(texts))


def _may_have_lost(case: Case) -> bool:
    """Whether a coordinator may rightly know less than a client, or something else than a client did."""
    power = any(fact.how is Stop.POWER for fact in facts_in(case.steps, FactKind.STOPPED))
    others = facts_in(case.steps, FactKind.CLOCK_CHANGED, FactKind.TRANSACTION_ABORTED)
    return power or any(others) or may_have_forgotten(case, TRANSACTIONS)


def _judged(case: Case) -> list[PlannedProducer]:
    producers = [p for p in case.scenario.producers or () if p.transactions is not None and p.client != STREAMS]
    return [p for p in producers if TRANSACTIONAL_ID not in (p.config or {})]


def _is_forgotten(case: Case, look: CoordinatorLook, state: CoordinatorState | None, ended: Ended) -> bool:
    if ended.first_ns is None or look.at_ns - ended.first_ns >= id_expiration_ms(case) * NS_PER_MS:
        return False
    if state is None:
        return not look.unknown
    return state.steady and state.logged is None and state.answered is None


def _wrong_end(known: Known, producer: PlannedProducer, logged: StateValue, ended: Ended) -> Iterator[str]:
    """The last transaction, if nothing else of the producer was open when it began, or began later."""
    clients = known.counts.clients.get(producer.name, ())
    recorded = bool(clients) and all(client.startswith(LIBRDKAFKA) for client in clients)
    alone = ended.earlier_ns is None or ended.earlier_ns <= ended.began_ns
    if not recorded or producer.processes is not None or not alone or not ended.acked:
        return
    if ended.outcome is not None and logged.get("state") == _OTHER.get(ended.outcome):
        yield f"is in state {logged['state']} at the end, and its producer's last transaction was {ended.outcome}"


def _wrong_id(known: Known, producer: PlannedProducer, state: CoordinatorState, mine: Clients) -> Iterator[str]:
    logged = state.logged or {}
    own, epoch = logged.get("producer_id"), logged.get("producer_epoch")
    written = [one for one in mine.written if one.topic in producer.topics]
    if not isinstance(own, int) or not isinstance(epoch, int) or not written:
        return
    highest = max((one.epoch for one in written if one.producer_id == own), default=epoch)
    if epoch < highest:
        yield f"has producer epoch {epoch} of producer id {own} at the end, and batches on disks have {highest}"
    last = _last_ids(known, producer, written)
    if last and own not in last:
        yield f"has producer id {own} at the end, and the last batches on disks have {sorted(last)}"


def _last_ids(known: Known, producer: PlannedProducer, written: Sequence[Written]) -> set[int]:
    """The producer ids of which one must be that of the producer: those that wrote last in its partitions, or all of
    them where other producers wrote, too. Empty where batches may be missing, or an id may have been replaced."""
    case = known.case
    brokers = set(range(1, ((case.scenario.shape.brokers if case.scenario.shape else None) or 0) + 1))
    deleted = {fact.topic for fact in facts_in(case.steps, *_DELETED)}
    kept = all(_keeps(case, topic) and topic not in deleted and None not in deleted for topic in producer.topics)
    harmed = any(facts_in(case.steps, *_HARM))
    if not brokers or not brokers <= known.counts.disks or not kept or harmed:
        return set()
    if any(one.epoch >= _EPOCHS for one in written):
        return set()
    others = [p for p in case.scenario.producers or () if p.transactions is not None and p.name != producer.name]
    if any(set(p.topics) & set(producer.topics) for p in others):
        return {one.producer_id for one in written}
    last: dict[tuple[str, int], Written] = {}
    for one in sorted(written, key=lambda one: one.offset):
        last[one.topic, one.partition] = one
    return {one.producer_id for one in last.values()}


def _keeps(case: Case, topic: str) -> bool:
    """Whether the disks have all batches of a topic."""
    contract = case.contract.topics.get(topic)
    if contract is None or any(change.topic == topic for change in case.contract.changes or ()):
        return False
    deletes = contract.compacted or contract.delete_records or contract.tiered or contract.retention_bytes >= 0
    ran_ms = ((case.run.ended_ns or 0) - (case.run.started_ns or 0)) // NS_PER_MS
    expires = 0 <= contract.retention_ms <= ran_ms
    return not (deletes or expires or contract.unclean_election or contract.last_replica)


def _finding(case: Case, producer: PlannedProducer, text: str) -> Finding:
    kind = Kind.WRONG_COORDINATOR_STATE
    detail = f"the transactional id {producer.name} {text}"
    return Finding(kind=kind, detail=detail, contract=promise(kind, None, None, case.contract))


CLIENTS: Final[OnDriver[Clients]] = OnDriver(name="transactional_clients", read=clients, none=Clients)
CHECK: Final = Check(
    promise="A coordinator knows each transactional id with the end of its last transaction, and its newest epoch.",
    shares=(Kind.WRONG_COORDINATOR_STATE,),
    on_driver=(CLIENTS,),
    adds=_ids,
    order=Order(findings=13),
    planted=(
        "coordinator_forgot_a_transactional_id",
        "coordinator_without_a_transactional_id",
        "coordinator_transaction_with_the_other_end",
        "coordinator_transaction_with_another_producer_id",
        "coordinator_transaction_with_an_epoch_below_its_batches",
        "near_wrong_coordinator_state_after_a_last_transaction_without_an_answer",
        "near_wrong_coordinator_state_with_a_later_epoch",
        "near_wrong_coordinator_state_forgotten_after_expiration",
    ),
)

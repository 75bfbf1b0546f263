"""Excuses: what the declared contract permits. Predicates over records, each tied to an event in the evidence.

A finding outside every predicate condemns. A negative control changes nothing here: an event that the declared contract
does not permit excuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypedDict

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.model.documents.steps import OnlyDiskLost, ProcessorDied, ReaderDied
from harness.model.facts import FactKind
from harness.model.finding import Kind
from harness.verify.engine.case import Case
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, frame
from harness.verify.excuses.clauses import Clause, clauses, with_holding
from harness.verify.excuses.compaction import compacted_away
from harness.verify.excuses.last_in_sync_replica import leads_empty, lost_tails
from harness.verify.excuses.late_acks import late_acks
from harness.verify.excuses.late_transaction_ends import KINDS as OF_LATE_ENDS
from harness.verify.excuses.late_transaction_ends import late_ends
from harness.verify.excuses.leader_elections import (
    NewLeader,
    PermittedElection,
    acks_one,
    new_leaders,
    permitted_elections,
)
from harness.verify.excuses.lost_markers import hidden_by_operator, operator_aborts
from harness.verify.excuses.offset_loss import offsets_excused
from harness.verify.excuses.offset_resets import reset_clauses
from harness.verify.excuses.power_loss import outages
from harness.verify.excuses.producer_expiry import written_after_expiry
from harness.verify.excuses.retries import late_retries, retry_clauses
from harness.verify.excuses.share_archived import archived
from harness.verify.excuses.tier_metadata_lost import orphaned_clauses
from harness.verify.excuses.tier_objects_deleted import deleted_clauses

# An unclean election replaces the end of a log, and with it what readers received from there (KIP-966).
_OF_ELECTION: Final = (Kind.LOST, Kind.VANISHED, Kind.CONFLICTING, Kind.TORN_TRANSACTION)
# The last in-sync replica replaces the end of every log with its own.
_OF_LAST_REPLICA: Final = _OF_ELECTION
# acks=1 is acknowledged before any follower has the record, and an in-sync follower may lead without it. A record that
# a reader received was below the high watermark, so VANISHED is not permitted.
_OF_ACKS: Final = (Kind.LOST,)
# Records that no in-sync replica had on disk are lost when all of them lose power, also if a reader received them.
_OF_POWER: Final = _OF_ELECTION
# The acknowledged copy may be lost, and an earlier copy of the same send, which was truncated elsewhere, may stay.
_OF_MOVED: Final = (Kind.WRONG_ACK_OFFSET,)
# Findings that a processor may cause, by when it commits; and by that and the moment at which it was killed.
_OF_COMMITS: Final = {"after": Kind.DUPLICATED, "before": Kind.SKIPPED_READ}
_OF_DEATHS: Final = {
    ("after", "produced"): Kind.DUPLICATED,
    ("after", "commit"): Kind.DUPLICATED,
    ("before", "offsets"): Kind.SKIPPED_READ,
    ("before", "commit"): Kind.SKIPPED_READ,
}


class _PlaceArgs(TypedDict):
    topic: str
    topic_id: str | None
    partition: int


def excused(rows: DataFrame, given: Prepared, more: Sequence[Clause] = ()) -> DataFrame:
    """Rows with `excused_by`: the sentence of the first predicate that holds for the record. more: rows of `EXCUSES`
    that checks declare."""
    named = written_after_expiry(compacted_away(late_retries(_by_clauses(rows, given, more), given), given), given)
    late = [row for n, case in enumerate(given.cases) for row in _late(n, case)]
    return late_acks(archived(offsets_excused(named, given), given), given, late)


def _by_clauses(rows: DataFrame, given: Prepared, more: Sequence[Clause]) -> DataFrame:
    plain = [row for n, case in enumerate(given.cases) for row in excuses_of(n, case)]
    plain += [*reset_clauses(given), *orphaned_clauses(given), *deleted_clauses(given), *more]
    if not plain:
        return rows.withColumn("excused_by", F.lit(None).cast("string"))
    joined = with_holding(rows, given.spark, plain)
    why = F.when(F.size("holding") > 0, F.array_min(F.transform("holding", lambda clause: clause["why"])))
    by_clauses = joined.withColumn("excused_by", why).drop("holding")
    return _within_exact_numbers(_hidden_by_operator(by_clauses, given), given)


def _hidden_by_operator(rows: DataFrame, given: Prepared) -> DataFrame:
    aborted = [
        (n, one) for n, case in enumerate(given.cases) for one in operator_aborts(case, permitted_elections(case))
    ]
    return hidden_by_operator(rows, given, aborted) if aborted else rows


def _within_exact_numbers(rows: DataFrame, given: Prepared) -> DataFrame:
    """Where the exact number of losses is known, no more than that number is excused; the surplus condemns."""
    numbers = [
        (n, Kind.LOST.value, exact.topic, exact.partition, exact.count)
        for n, case in enumerate(given.cases)
        for exact in case.contract.exact_losses
    ]
    if not numbers:
        return rows
    columns = {"kind": "string", "topic": "string", "partition": "int32", "exact": "int64"}
    exact = F.broadcast(frame(given.spark, columns, numbers))
    place = [BUNDLE, "kind", "topic", "partition"]
    order = Window.partitionBy(*place, F.col("excused_by").isNull()).orderBy("offset", "stream", "seq")
    counted = rows.join(exact, place, "left").withColumn("nth", F.row_number().over(order))
    surplus = F.coalesce(F.col("nth") > F.col("exact"), F.lit(False))
    kept = F.when(~surplus, F.col("excused_by"))
    return counted.withColumn("excused_by", kept).drop("nth", "exact")


def excuses_of(number: int, case: Case) -> Iterator[Clause]:
    """Rows of `EXCUSES` for one case."""
    yield from _of_elections(number, case)
    yield from _of_power(number, case)
    yield from _of_last_replicas(number, case)
    yield from _of_readers(number, case)
    yield from _of_only_disks(number, case)
    yield from _of_processors(number, case)
    yield from retry_clauses(number, case)
    for late in late_ends(case):
        during = (late.since_ns, late.until_ns)
        yield from clauses(number, OF_LATE_ENDS, late.why, producer=late.producer, acked_ns=during)
    for name, producer in case.contract.producers.items():
        if producer.acks == "0":
            why = f"acks=0 (producer {name}) promises nothing"
            yield from clauses(number, [Kind.LOST], why, producer=name)
    yield from _of_leader_changes(number, case)


def _of_elections(number: int, case: Case) -> Iterator[Clause]:
    for election in permitted_elections(case):
        yield from _of_election(number, election, (0, election.sure_ns))


def _of_election(number: int, election: PermittedElection, acked_ns: tuple[int, int]) -> Iterator[Clause]:
    topic, partition, log_end = election.topic, election.partition, election.log_end
    why = (
        f"unclean election of {topic}/{partition} in epoch {election.epoch}, which the contract permits: "
        f"the election may lose what was acknowledged before it at offset {log_end} and above"
    )
    place: _PlaceArgs = {"topic": topic, "topic_id": election.topic_id, "partition": partition}
    yield from clauses(number, _OF_ELECTION, why, **place, offsets=(log_end, None), acked_ns=acked_ns)
    yield from clauses(number, _OF_MOVED, why, **place, acked_ns=acked_ns)


def _late(number: int, case: Case) -> Iterator[Clause]:
    """Rows of `EXCUSES` for acknowledgements after an election, which may be those of a deposed leader.

    Where the exact number of losses is known, every loss must be certain.
    """
    exact = {(one.topic, one.partition) for one in case.contract.exact_losses}
    for election in permitted_elections(case):
        if election.late_ns > election.sure_ns and (election.topic, election.partition) not in exact:
            yield from _of_election(number, election, (election.sure_ns + 1, election.late_ns))
    for new in new_leaders(case):
        if new.late_ns > new.sure_ns and (new.topic, new.partition) not in exact:
            yield from _of_new_leader(number, case, new, (new.sure_ns + 1, new.late_ns))


def lost_marker(case: Case, topic: str, partition: int, began: int) -> str | None:
    """Why a transaction that began at an offset never ends: a permitted unclean election truncated its end marker
    and kept its beginning (KAFKA-20716). None if no election explains it."""
    for election in permitted_elections(case):
        if (election.topic, election.partition) == (topic, partition) and began < election.log_end:
            return (
                f"unclean election of {topic}/{partition} in epoch {election.epoch}, which the contract permits: its "
                f"log ended at {election.log_end}, before the transaction's end marker; end it with "
                f"kafka-transactions.sh abort --topic {topic} --partition {partition} --start-offset {began} (KIP-664)"
            )
    return None


def _of_last_replicas(number: int, case: Case) -> Iterator[Clause]:
    for lost in lost_tails(case):
        why = (
            f"broker {lost.broker}, the last in-sync replica of {lost.topic}/{lost.partition}, returned with a log "
            f"that ends at {lost.log_end}, and leads by design without ELR (KIP-966): it may lose what was "
            f"acknowledged before at offset {lost.log_end} and above"
        )
        yield from clauses(
            number,
            _OF_LAST_REPLICA,
            why,
            topic=lost.topic,
            partition=lost.partition,
            offsets=(lost.log_end, None),
            acked_ns=(0, lost.until_ns),
        )
        acked_ns = (0, lost.until_ns)
        yield from clauses(number, _OF_MOVED, why, topic=lost.topic, partition=lost.partition, acked_ns=acked_ns)


def _of_readers(number: int, case: Case) -> Iterator[Clause]:
    """Records that an application skipped because it commits before it processes. The records are in the log."""
    for event, _ in case.events(ReaderDied):
        for reader in case.contract.readers.values():
            if reader.group == event.group and reader.at_most_once:
                why = f"skipped by the application: {reader.reader} commits before it processes, and died in between"
                yield from clauses(
                    number,
                    [Kind.SKIPPED_READ],
                    why,
                    topic=event.topic,
                    partition=event.partition,
                    reader=reader.reader,
                    offsets=(event.from_offset, event.before_offset),
                )


def _of_only_disks(number: int, case: Case) -> Iterator[Clause]:
    """A partition is lost with the only disk that has it, or with the disk of the last in-sync replica: where one
    in-sync replica was enough, it leads again when it returns, and the others truncate their logs to its empty one."""
    for event, _ in case.events(OnlyDiskLost):
        contract = case.contract.topics.get(event.topic)
        if contract is None:
            continue
        place, disk = f"{event.topic}/{event.partition}", f"the disk of broker {event.broker}, which was lost"
        if contract.replicas == 1:
            why = f"replication factor 1: the only copy of {place} was on {disk}"
        elif contract.min_insync_replicas == 1 and leads_empty(case, event):
            why = f"min.insync.replicas=1: the only in-sync copy of {place} was on {disk}; it leads by design (KIP-966)"
        else:
            continue
        yield from clauses(
            number,
            _OF_ELECTION,
            why,
            topic=event.topic,
            partition=event.partition,
            acked_ns=(0, event.at_ns),
        )


def _of_processors(number: int, case: Case) -> Iterator[Clause]:
    """Records that an application processed twice or never because it does not commit its offsets in its output's
    transactions: those in progress when a step killed it, and any while brokers failed."""
    disturbed = any(
        step.is_fault and any(fact.kind is not FactKind.CLIENT_DIED for fact in step.facts) for step in case.steps
    )
    for processor in case.contract.processors.values() if disturbed else ():
        if processor.commits in _OF_COMMITS:
            why = f"{processor.processor} commits {processor.commits} it writes, and brokers failed meanwhile"
            yield from clauses(number, [_OF_COMMITS[processor.commits]], why, reader=processor.processor)
    for event, _ in case.events(ProcessorDied):
        for processor in case.contract.processors.values():
            kind = _OF_DEATHS.get((processor.commits, event.at)) if processor.group == event.group else None
            if kind is not None:
                yield from clauses(
                    number,
                    [kind],
                    f"{processor.processor} commits {processor.commits} it writes, and died in between",
                    topic=event.topic,
                    partition=event.partition,
                    reader=processor.processor,
                    offsets=(event.from_offset, event.before_offset),
                )


def _of_power(number: int, case: Case) -> Iterator[Clause]:
    for out in outages(case):
        why = (
            f"power loss of brokers {', '.join(map(str, out.brokers))}, all in-sync replicas of "
            f"{out.topic}/{out.partition}; its contract permits records in memory only (flush.messages, flush.ms): "
            f"the power loss may lose what was acknowledged before it at offset {out.from_offset} and above"
        )
        yield from clauses(
            number,
            _OF_POWER,
            why,
            topic=out.topic,
            partition=out.partition,
            offsets=(out.from_offset, None),
            acked_ns=(out.since_ns, out.until_ns),
        )
        acked_ns = (out.since_ns, out.until_ns)
        yield from clauses(number, _OF_MOVED, why, topic=out.topic, partition=out.partition, acked_ns=acked_ns)


def _of_leader_changes(number: int, case: Case) -> Iterator[Clause]:
    for new in new_leaders(case):
        yield from _of_new_leader(number, case, new, (0, new.sure_ns))


def _of_new_leader(number: int, case: Case, new: NewLeader, acked_ns: tuple[int, int]) -> Iterator[Clause]:
    for name in acks_one(case):
        if new.epoch is None:
            why = f"acks=1 (producer {name}): the leader changed, and the start offset of the next one is unknown"
        else:
            why = f"acks=1 (producer {name}): the leader of epoch {new.epoch} started at offset {new.start} without it"
        yield from clauses(
            number,
            _OF_ACKS,
            why,
            topic=new.topic,
            topic_id=new.topic_id,
            partition=new.partition,
            producer=name,
            offsets=(new.start, None),
            acked_ns=acked_ns,
        )

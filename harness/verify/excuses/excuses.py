"""What the declared contract permits: predicates over records, each tied to an event that the evidence shows.

A finding outside every predicate condemns. Nothing here looks at how the run was weakened: an event that the declared
contract does not permit excuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.engine.case import Case
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, frame
from harness.verify.excuses.clauses import ANY_TIME, EXCUSES, clauses, holds
from harness.verify.excuses.compaction import compacted_away
from harness.verify.excuses.config_history import unclean_permitted
from harness.verify.excuses.last_replica_standing import leads_empty, lost_tails
from harness.verify.excuses.late_transaction_ends import KINDS as OF_LATE_ENDS
from harness.verify.excuses.late_transaction_ends import late_ends
from harness.verify.excuses.lost_markers import by_hand, hidden_by_hand
from harness.verify.excuses.offset_loss import offsets_excused
from harness.verify.excuses.offset_resets import reset_clauses
from harness.verify.excuses.power_loss import outages
from harness.verify.excuses.producer_expiry import written_after_expiry
from harness.verify.excuses.retries import come_late, retry_clauses
from harness.verify.excuses.share_archived import archived
from harness.verify.excuses.tier_metadata_lost import orphaned_clauses
from harness.verify.excuses.tier_objects_deleted import deleted_clauses

# An unclean election replaces the end of a log: what stood there, and who saw it there, goes with it (KIP-966).
_OF_ELECTION: Final = (Kind.LOST, Kind.VANISHED, Kind.CONFLICTING, Kind.TORN_TRANSACTION)
# The last replica in sync replaces the end of everybody's log with its own.
_OF_LAST_REPLICA: Final = _OF_ELECTION
# acks=1 answers before any follower has the record; a follower that was in sync may lead without it. What a reader was
# given lay below the high watermark, so that never goes: VANISHED is not permitted by it.
_OF_ACKS: Final = (Kind.LOST,)
# What no replica in sync had on its disk when all of them lost power goes, and who saw it has seen it in vain.
_OF_POWER: Final = _OF_ELECTION
_OF_APPLICATIONS: Final = frozenset({"processor_dies", "reader_dies"})
# Of a processor by when it commits; and by that and the moment at which it died.
_OF_COMMITS: Final = {"after": Kind.DUPLICATED, "before": Kind.SKIPPED_READ}
_OF_DEATHS: Final = {
    ("after", "produced"): Kind.DUPLICATED,
    ("after", "commit"): Kind.DUPLICATED,
    ("before", "offsets"): Kind.SKIPPED_READ,
    ("before", "commit"): Kind.SKIPPED_READ,
}


def excused(rows: DataFrame, given: Prepared) -> DataFrame:
    """Rows with `excused_by`: the sentence of the first predicate that holds for the record."""
    named = written_after_expiry(compacted_away(come_late(_by_clauses(rows, given), given), given), given)
    return archived(offsets_excused(named, given), given)


def _by_clauses(rows: DataFrame, given: Prepared) -> DataFrame:
    plain = [row for n, case in enumerate(given.cases) for row in excuses_of(n, case)]
    plain += reset_clauses(given) + orphaned_clauses(given) + deleted_clauses(given)
    if not plain:
        return rows.withColumn("excused_by", F.lit(None).cast("string"))
    table = frame(given.spark, EXCUSES, plain)
    of_kind = table.groupBy(BUNDLE, "kind").agg(
        F.collect_list(F.struct(*[c for c in table.columns if c not in (BUNDLE, "kind")])).alias("clauses")
    )
    joined = rows.join(F.broadcast(of_kind), [BUNDLE, "kind"], "left")
    holding = F.filter("clauses", holds)
    why = F.when(F.size(holding) > 0, F.array_min(F.transform(holding, lambda c: c["why"])))
    by_clauses = joined.withColumn("excused_by", why).drop("clauses")
    return _within_exact_numbers(_hidden_by_hand(by_clauses, given), given)


def _hidden_by_hand(rows: DataFrame, given: Prepared) -> DataFrame:
    aborted = [(n, one) for n, case in enumerate(given.cases) for one in by_hand(case, _permitted_elections(case))]
    return hidden_by_hand(rows, given, aborted) if aborted else rows


def _within_exact_numbers(rows: DataFrame, given: Prepared) -> DataFrame:
    """Where physics gives the exact number of losses, no more than that are excused; the surplus condemns."""
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


def excuses_of(number: int, case: Case) -> Iterator[tuple[Any, ...]]:
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
        if producer.acks == "1":
            yield from _of_leader_changes(number, case, name)


def _of_elections(number: int, case: Case) -> Iterator[tuple[Any, ...]]:
    for topic, partition, log_end, until_ns, epoch in _permitted_elections(case):
        why = (
            f"unclean election of {topic}/{partition} in epoch {epoch}, which the contract permits: "
            f"what was acked before it at offset {log_end} and above"
        )
        yield from clauses(
            number, _OF_ELECTION, why, topic=topic, partition=partition, offsets=(log_end, None), acked_ns=(0, until_ns)
        )
        yield from _displaced(number, why, topic, partition, (0, until_ns))


def _permitted_elections(case: Case) -> Iterator[tuple[str, int, int, int, int]]:
    """(topic, partition, surviving log end, before when, epoch) of unclean elections that the contract permits."""
    for topic, partition, log_end, until_ns, epoch, at_ns in _unclean(case):
        if topic in case.contract.topics and log_end is not None and unclean_permitted(case, topic, at_ns):
            yield topic, partition, log_end, until_ns, epoch


def lost_marker(case: Case, topic: str, partition: int, began: int) -> str | None:
    """Why nobody ends a transaction that began at an offset: a permitted unclean election cut its marker off with the
    end of the log, and left the beginning (KAFKA-20716). None where no election explains it."""
    for at_topic, at_partition, log_end, _, epoch in _permitted_elections(case):
        if (at_topic, at_partition) == (topic, partition) and began < log_end:
            return (
                f"unclean election of {topic}/{partition} in epoch {epoch}, which the contract permits: its log ended "
                f"at {log_end}, and what ended the transaction went with the rest; mend it by kafka-transactions.sh "
                f"abort --topic {topic} --partition {partition} --start-offset {began} (KIP-664)"
            )
    return None


def _of_last_replicas(number: int, case: Case) -> Iterator[tuple[Any, ...]]:
    for lost in lost_tails(case):
        why = (
            f"broker {lost.broker}, the last replica in sync of {lost.topic}/{lost.partition}, came back with a log "
            f"that ends at {lost.log_end}, and leads by design where ELR is off (KIP-966): what was acked before at "
            f"{lost.log_end} and above"
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
        yield from _displaced(number, why, lost.topic, lost.partition, (0, lost.until_ns))


def _displaced(
    number: int, why: str, topic: str, partition: int, acked_ns: tuple[int, int]
) -> Iterator[tuple[Any, ...]]:
    """The copy that was acknowledged may go, and an earlier one of the same send stay, which was cut off elsewhere."""
    yield from clauses(number, [Kind.WRONG_ACK_OFFSET], why, topic=topic, partition=partition, acked_ns=acked_ns)


def _of_readers(number: int, case: Case) -> Iterator[tuple[Any, ...]]:
    """What an application skipped that commits before it processes. The records are there: nobody lost them."""
    for event, _ in case.events("reader_died"):
        for reader in case.contract.readers.values():
            if reader.group == event["group"] and reader.at_most_once:
                why = (
                    f"skipped by the application: {reader.reader} commits before it has processed, and died in between"
                )
                yield from clauses(
                    number,
                    [Kind.SKIPPED_READ],
                    why,
                    topic=event["topic"],
                    partition=event["partition"],
                    reader=reader.reader,
                    offsets=(event["from_offset"], event["before_offset"]),
                )


def _of_only_disks(number: int, case: Case) -> Iterator[tuple[Any, ...]]:
    """All of a partition goes with the only disk that it is on, or with that of the last replica in sync: where one was
    enough, that one leads when it is back, and the others cut their logs to its empty one."""
    for event, _ in case.events("only_disk_lost"):
        contract = case.contract.topics.get(event["topic"])
        if contract is None:
            continue
        place, alone = f"{event['topic']}/{event['partition']}", f"on the disk of broker {event['broker']} alone"
        if contract.replicas == 1:
            why = f"replication factor 1: {place} was {alone}, which was lost"
        elif contract.min_insync_replicas == 1 and leads_empty(case, event):
            why = (
                f"min.insync.replicas=1: {place} was in sync {alone}, which was lost, and it leads by design (KIP-966)"
            )
        else:
            continue
        yield from clauses(
            number,
            _OF_ELECTION,
            why,
            topic=event["topic"],
            partition=event["partition"],
            acked_ns=(0, event["at_ns"]),
        )


def _of_processors(number: int, case: Case) -> Iterator[tuple[Any, ...]]:
    """What an application did twice, or never, that does not commit its offsets in the transaction of what it makes:
    what it worked on when a step let it die, and where brokers failed, whatever it was then."""
    disturbed = any(step["is_fault"] and step["do"] not in _OF_APPLICATIONS for step in case.steps)
    for processor in case.contract.processors.values() if disturbed else ():
        if processor.commits in _OF_COMMITS:
            why = f"{processor.processor} commits {processor.commits} it writes, and brokers failed meanwhile"
            yield from clauses(number, [_OF_COMMITS[processor.commits]], why, reader=processor.processor)
    for event, _ in case.events("processor_died"):
        for processor in case.contract.processors.values():
            kind = _OF_DEATHS.get((processor.commits, event["at"])) if processor.group == event["group"] else None
            if kind is not None:
                yield from clauses(
                    number,
                    [kind],
                    f"{processor.processor} commits {processor.commits} it writes, and died in between",
                    topic=event["topic"],
                    partition=event["partition"],
                    reader=processor.processor,
                    offsets=(event["from_offset"], event["before_offset"]),
                )


def _of_power(number: int, case: Case) -> Iterator[tuple[Any, ...]]:
    for out in outages(case):
        why = (
            f"power loss of brokers {', '.join(map(str, out.brokers))}, all that were in sync of {out.topic}/"
            f"{out.partition}, which the contract lets hold records in memory alone (flush.messages, flush.ms): "
            f"what was acked before it at offset {out.from_offset} and above"
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
        yield from _displaced(number, why, out.topic, out.partition, (out.since_ns, out.until_ns))


def _unclean(case: Case) -> Iterator[tuple[str, int, int | None, int, int, int]]:
    """(topic, partition, surviving log end, before when, epoch, when seen) of every election seen to be unclean."""
    choreographed = set()
    for event, step in case.events("unclean_election"):
        place = (event["topic"], event["partition"])
        choreographed.add(place)
        end = event.get("log_end")
        end = _epoch_start(case, *place, event["leader_epoch"]) if end is None else end
        # The step begins while the partition has no leader: nothing is acked between then and the election.
        until_ns = min(event["at_ns"], step["started_ns"] or event["at_ns"])
        yield *place, end, until_ns, event["leader_epoch"], event["at_ns"]
    for event, _ in case.events("leader_change"):
        place = (event["topic"], event["partition"])
        # Told from the ISR alone, so an election out of the ELR (KIP-966) looks unclean too; where a step made the
        # unclean election, that one is measured and this adds nothing.
        if event.get("clean") is False and event["new_leader"] >= 0 and place not in choreographed:
            start = _epoch_start(case, *place, event["leader_epoch"])
            yield *place, start, event["at_ns"], event["leader_epoch"], event["at_ns"]


def _of_leader_changes(number: int, case: Case, producer: str) -> Iterator[tuple[Any, ...]]:
    changes = _leader_changes(case)
    for (topic, partition), epochs in _lineages(case).items():
        seen = changes.get((topic, partition), [])
        ended_ns = case.run.get("ended_ns") or ANY_TIME - 1
        for epoch, start in epochs[1:]:
            until_ns = min((at_ns for later, at_ns in seen if later >= epoch), default=ended_ns)
            why = f"acks=1 (producer {producer}): the leader of epoch {epoch} began at offset {start} without it"
            yield from clauses(
                number,
                _OF_ACKS,
                why,
                topic=topic,
                partition=partition,
                producer=producer,
                offsets=(max(start, 1), None),
                acked_ns=(0, until_ns),
            )
    for topic, partition in without_lineage(case):
        until_ns = max(at_ns for _, at_ns in changes[topic, partition])
        why = f"acks=1 (producer {producer}): the leader changed, and nobody told at which offset the next one began"
        yield from clauses(
            number,
            _OF_ACKS,
            why,
            topic=topic,
            partition=partition,
            producer=producer,
            offsets=(1, None),
            acked_ns=(0, until_ns),
        )


def without_lineage(case: Case) -> list[tuple[str, int]]:
    """Partitions whose leader changed and of whose leader epochs nothing is told, where an acks=1 producer wrote.

    What such a producer may have lost there ends nowhere, so it is excused, and leaves the run in doubt.
    """
    if not any(producer.acks == "1" for producer in case.contract.producers.values()):
        return []
    reported = {place for place, epochs in _lineages(case).items() if epochs}
    return sorted(_leader_changes(case).keys() - reported)


def _leader_changes(case: Case) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """(leader epoch, when it was seen) of every change of leader, by place."""
    out: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for event, _ in case.events("leader_change"):
        out.setdefault((event["topic"], event["partition"]), []).append((event["leader_epoch"], event["at_ns"]))
    return out


def _epoch_start(case: Case, topic: str, partition: int, epoch: int) -> int | None:
    epochs = _lineages(case).get((topic, partition), [])
    return next((start for e, start in epochs if e >= epoch), None)


def _lineages(case: Case) -> Mapping[tuple[str, int], Sequence[tuple[int, int]]]:
    """Leader epochs with their first offset, by place, as the last leader has them; else as any replica has them."""
    last = case.last_snapshot
    leaders = {(p["topic"], p["partition"]): p["leader"] for p in (last["partitions"] if last else [])}
    out: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for lineage in case.cluster["lineages"]:
        place = (lineage["topic"], lineage["partition"])
        if place not in out or leaders.get(place) == lineage["broker"]:
            out[place] = sorted((epoch, start) for epoch, start in lineage["epochs"])
    return out

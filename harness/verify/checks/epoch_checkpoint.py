"""epoch_lookup: the leader epoch checkpoint of a replica does not fit the batches of its log.

A replica writes down where each leader epoch of its log begins (KIP-101). From that it answers where an epoch ended,
and it says with it what it has when it follows: a wrong entry makes a follower truncate too little or too much.

Each epoch of a batch is in the checkpoint, begins there at or below its first batch, and above the last batch of every
earlier epoch. What is below the first entry was deleted, and is judged only in topics whose log start stays. A
cleaner removes records and leaves the entries. Brokers with disks or files that were harmed are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from harness.model.documents.cluster import Lineage
from harness.model.finding import Finding, Kind
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.disk_epochs import DiskEpoch, where_disks_agree
from harness.verify.engine.known import Known
from harness.verify.engine.timelines import harm
from harness.verify.excuses.retention import may_delete
from harness.verify.promise import Check
from harness.verify.sentences import promise

_Replica = tuple[str, int, int]  # topic, partition, broker: a lineage does not name the id of the topic


def _checkpoints(known: Known) -> Addition:
    return Addition(findings=[*wrong_checkpoints(known.case, where_disks_agree(known))])


def wrong_checkpoints(case: Case, rows: Iterable[DiskEpoch]) -> Iterator[Finding]:
    """One finding for each replica, about the first epoch that is wrong."""
    by_replica: dict[_Replica, list[DiskEpoch]] = {}
    for row in rows:
        topic, _, partition = row.place
        by_replica.setdefault((topic, partition, row.broker), []).append(row)
    times = Counter((one.topic, one.partition, one.broker) for one in case.cluster.lineages)
    for lineage in case.cluster.lineages:
        replica = (lineage.topic, lineage.partition, lineage.broker)
        of_replica = sorted(by_replica.get(replica, ()), key=lambda row: row.epoch)
        # Two topics of one name, or two directories, cannot be told apart.
        alone = times[replica] == 1 and len({row.place for row in of_replica}) == 1
        if not alone or lineage.error is not None or harm(case, lineage.broker):
            continue
        if found := _wrong(lineage, of_replica, _log_start(case, lineage)):
            yield _finding(case, lineage, *found)


def _log_start(case: Case, lineage: Lineage) -> int | None:
    """The start of the log at the end; None if it may have moved since the broker reported it."""
    contract = case.contract.topics.get(lineage.topic)
    if contract is None or not case.complete or contract.delete_records or contract.tiered or contract.tier_off:
        return None
    if may_delete(case, lineage.topic):
        return None
    here = [p for p in case.last_partitions if (p.topic, p.partition) == (lineage.topic, lineage.partition)]
    starts = [log.log_start for p in here for log in p.logs if log.broker == lineage.broker]
    return starts[0] if len(starts) == 1 else None


def _wrong(lineage: Lineage, rows: Sequence[DiskEpoch], log_start: int | None) -> tuple[DiskEpoch, str] | None:
    """The first epoch of the log that is wrong, and how; None if none is."""
    begins = sorted(lineage.epochs)
    if not begins and log_start is None:
        return None
    start = min(begin for _, begin in begins) if log_start is None else log_start
    known = dict(begins)
    after = {epoch: following for (epoch, _), following in pairwise(begins)}
    for row in rows:
        if row.last < start:
            continue
        if row.epoch not in known:
            return row, f"does not have leader epoch {row.epoch}"
        if known[row.epoch] > max(row.first, start):
            return row, f"begins leader epoch {row.epoch} at offset {known[row.epoch]}, after its first batch"
        following, end = after.get(row.epoch, (row.epoch, row.last + 1))
        if row.last >= end:
            return row, f"begins leader epoch {following} at offset {end}, and epoch {row.epoch} goes on to {row.last}"
    return None


def _finding(case: Case, lineage: Lineage, row: DiskEpoch, how: str) -> Finding:
    topic, topic_id, partition = row.place
    batches = f"its batches of epoch {row.epoch} have offsets from {row.first} to {row.last}"
    return Finding(
        kind=Kind.EPOCH_LOOKUP,
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        offset_first=row.first,
        offset_last=row.first,
        reader=f"broker {lineage.broker}",
        detail=f"the leader epoch checkpoint of broker {lineage.broker} {how}; {batches}",
        contract=promise(Kind.EPOCH_LOOKUP, topic, None, case.contract),
    )


CHECK: Final = Check(
    promise="The leader epoch checkpoint of each replica fits its log.",
    shares=(Kind.EPOCH_LOOKUP,),
    breaks="a replica knows where each leader epoch of its log begins (KIP-101)",
    adds=_checkpoints,
    order=Order(findings=21),
    planted=(
        "epoch_lookup_checkpoint_without_an_epoch",
        "epoch_lookup_checkpoint_begins_late",
        "epoch_lookup_checkpoint_begins_early",
        "near_epoch_lookup_checkpoint_with_one_epoch_more",
        "near_epoch_lookup_checkpoint_from_the_log_start",
    ),
)

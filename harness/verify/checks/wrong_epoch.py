"""wrong_epoch: a log has batches of a leader epoch that no leader had, or a leader wrote long after its epoch.

A leader stamps each batch with the leader epoch that the controllers gave it (KIP-101). So every epoch of a log is in
the history of the partition. A broker that learns of the next epoch appends nothing in its own one any more. The time
of a batch is that of the send, so it was appended at that time or later.

A leader that a fault separates from the controllers, or that is frozen, learns late of the next epoch, and may write
meanwhile what is truncated later, or what stays if it is elected again. So the time counts from the moment when the
next epoch had been given and every fault was over. A run in which a disk or metadata were harmed shows nothing about
epochs, because controllers or brokers may have lost what they had. Nor does a partition whose first state is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from harness.model.clock import NS_PER_MS, NS_PER_S
from harness.model.facts import MEANINGS
from harness.model.finding import Finding, Kind
from harness.model.history.changes import PartitionChange
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case, Place
from harness.verify.engine.disk_epochs import DISK_EPOCHS, DiskEpoch, where_disks_agree
from harness.verify.engine.elections import Clocks
from harness.verify.engine.known import Known
from harness.verify.engine.steps import step_at
from harness.verify.engine.tables import UNBOUNDED
from harness.verify.engine.timelines import CLOCKS_NS, harms, is_of_run
from harness.verify.excuses.clock_skew import wrong_clocks
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise

# A broker learns of a new epoch within less than a second. A starved machine may delay it.
_LEARNED_NS: Final = 10 * NS_PER_S
_ByPlace = Mapping[Place, Sequence[DiskEpoch]]


def _epochs(known: Known) -> Addition:
    return Addition(findings=[*wrong_epochs(known.case, where_disks_agree(known))])


def wrong_epochs(case: Case, rows: Iterable[DiskEpoch]) -> Iterator[Finding]:
    """One finding for each partition: the epoch that nobody had, or else the leader that went on longest."""
    history = case.history
    if history is None or not history.whole:
        return
    by_place: dict[Place, list[DiskEpoch]] = {}
    for row in rows:
        by_place.setdefault(row.place, []).append(row)
    clocks = Clocks(case, history)
    for place, of_place in sorted(by_place.items()):
        _, topic_id, partition = place
        states = history.partition(topic_id, partition)
        if not states or not states[0].created or states[0].from_snapshot:
            continue
        found = _unknown(case, states, of_place)
        # The run created the topic: where the log says another time, its other times are wrong, too.
        timed = _is_timed(case, place[0]) and is_of_run(case, states[0].time_ns)
        if found is None and timed and all(clocks.right(state) for state in states):
            found = _late(case, states, of_place)
        if found is not None:
            yield found


def _unknown(case: Case, states: Sequence[PartitionChange], rows: Sequence[DiskEpoch]) -> Finding | None:
    """The first batches of an epoch that the partition never had."""
    if case.run.exits or any(harms(fact) for step in case.steps for fact in step.facts):
        return None
    given = {state.leader_epoch for state in states}
    wrong = [row for row in rows if row.epoch not in given]
    if not wrong:
        return None
    first = min(wrong, key=lambda row: (row.epoch, row.first))
    how = f"the controllers never gave leader epoch {first.epoch} to the partition; the last one was {max(given)}"
    return _finding(case, first, first.first, [row for row in wrong if row.epoch == first.epoch], how)


def _is_timed(case: Case, topic: str) -> bool:
    """Whether the timestamps of a topic are the times of the sends, or of the appends."""
    return case.run.timestamps == "send" and topic in case.contract.topics and not any(wrong_clocks(case))


def _late(case: Case, states: Sequence[PartitionChange], rows: Sequence[DiskEpoch]) -> Finding | None:
    """The epoch whose leader went on longest. If several brokers have batches of it, two must show that: a leader that
    others follow is wrong for sure, and one disk may have a header that is."""
    found = [(late_ns, row) for row in rows if (late_ns := after_its_epoch_ns(case, states, row)) is not None]
    found.sort(key=lambda one: -one[0])
    shown = [[one for one in found if one[1].epoch == epoch][:2][-1] for epoch in {row.epoch for _, row in found}]
    longest_ns, row = max(shown, default=(0, rows[0]), key=lambda one: one[0])
    if row.newest is None or longest_ns <= _LEARNED_NS + CLOCKS_NS:
        return None
    same = [other for _, other in found if (other.epoch, other.newest) == (row.epoch, row.newest)]
    how = (
        f"the batch was sent {longest_ns / NS_PER_S:.0f} s after the controllers had given the partition the next "
        "leader epoch, and no fault was active since then"
    )
    return _finding(case, row, row.newest, same, how)


def after_its_epoch_ns(case: Case, states: Sequence[PartitionChange], row: DiskEpoch) -> int | None:
    """How long after the next leader epoch, and after all faults until then, the newest batch of an epoch was sent,
    below 0 if it was before; None without a next epoch."""
    given_ns = next((state.time_ns for state in states if state.leader_epoch > row.epoch), None)
    if given_ns is None or row.newest_ms is None:
        return None
    sent_ns = row.newest_ms * NS_PER_MS
    over_ns = max([given_ns, *(to_ns for from_ns, to_ns in _disturbances(case) if from_ns <= sent_ns)])
    return sent_ns - over_ns


def _disturbances(case: Case) -> Iterator[tuple[int, int]]:
    """From when until when a fault was active, or something was done to nodes."""
    for step in case.steps:
        if step.started_ns is not None and (step.is_fault or any("nodes" in MEANINGS[f.kind].keys for f in step.facts)):
            yield step.started_ns, step.healed_ns or step.ended_ns or UNBOUNDED
    for gone in case.run.exits or ():
        yield gone.at_ns, UNBOUNDED


def _finding(case: Case, row: DiskEpoch, offset: int, same: Sequence[DiskEpoch], how: str) -> Finding:
    topic, topic_id, partition = row.place
    at_ns = None if row.newest_ms is None else row.newest_ms * NS_PER_MS
    brokers = sorted({one.broker for one in same})
    named = f"broker{'s' if len(brokers) > 1 else ''} {', '.join(map(str, brokers))}"
    return Finding(
        kind=Kind.WRONG_EPOCH,
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        offset_first=offset,
        offset_last=offset,
        first_ns=at_ns,
        last_ns=at_ns,
        step=step_at(case.steps, at_ns),
        reader=named,
        detail=f"the batch at offset {offset} has leader epoch {row.epoch} on the disk of {named}: {how}",
        contract=promise(Kind.WRONG_EPOCH, topic, None, case.contract),
    )


CHECK: Final = Check(
    promise="Leaders write in the leader epoch that the controllers gave them, and only until they learn of the next.",
    kinds={
        Kind.WRONG_EPOCH: Introduced(
            promise="each batch has the epoch of the leader that appended it, which is fenced by the next (KIP-101)"
        )
    },
    on_driver=(DISK_EPOCHS,),
    adds=_epochs,
    order=Order(findings=19),
    planted=(
        "wrong_epoch_that_nobody_had",
        "wrong_epoch_of_a_deposed_leader",
        "near_wrong_epoch_shortly_after_the_next",
    ),
)

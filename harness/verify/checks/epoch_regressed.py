"""epoch_regressed: the controllers gave an epoch to two leaders, or an epoch went back.

The epochs fence what is old: followers truncate by the leader epoch, leaders change the ISR by the partition epoch
(KIP-497), brokers are fenced by their broker epoch (KIP-631), and controllers by that of the quorum (KIP-595). So each
new leader of a partition gets a higher leader epoch, each change of a partition a higher partition epoch, each
registration of a broker a higher broker epoch, and each epoch of the quorum has one leader.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from harness.model.finding import Finding, Kind
from harness.model.history.changes import (
    BrokerChange,
    BrokerEvent,
    Change,
    ControllerChange,
    ControllerEvent,
    PartitionChange,
)
from harness.model.history.history import History
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.steps import step_at
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise


class _Wrong(NamedTuple):
    """A change with an epoch that it may not have. of: what has the epoch, as `broker 2`."""

    row: Change
    of: str
    how: str


def _epochs(known: Known) -> Addition:
    return Addition(findings=[*regressed_epochs(known.case)])


def regressed_epochs(case: Case) -> Iterator[Finding]:
    """One finding for each partition, each broker, and the quorum, about the first change that is wrong."""
    history = case.history
    if history is None or not history.whole:
        return
    by_owner: dict[str, list[_Wrong]] = {}
    for wrong in (*_of_partitions(history), *_of_brokers(history), *_of_the_quorum(history)):
        by_owner.setdefault(wrong.of, []).append(wrong)
    yield from (_finding(case, wrongs) for wrongs in by_owner.values())


def _of_partitions(history: History) -> Iterator[_Wrong]:
    last: dict[tuple[str, int], PartitionChange] = {}
    for row in history.of(PartitionChange):
        place = row.topic_id, row.partition
        before = last.get(place)
        last[place] = row
        if before is not None and not row.from_snapshot and (how := _wrong_state(before, row)):
            yield _Wrong(row, f"{row.topic}/{row.partition}", how)


def _wrong_state(before: PartitionChange, row: PartitionChange) -> str:
    if row.leader_epoch < before.leader_epoch:
        return f"its leader epoch went back from {before.leader_epoch} to {row.leader_epoch}"
    if row.leader != before.leader and row.leader_epoch == before.leader_epoch:
        return f"leader epoch {row.leader_epoch} has the leaders {before.leader} and {row.leader}"
    if row.partition_epoch <= before.partition_epoch:
        return f"partition epoch {row.partition_epoch} followed {before.partition_epoch}"
    return ""


def _of_brokers(history: History) -> Iterator[_Wrong]:
    """A process that registers again keeps its epoch."""
    last: dict[int, BrokerChange] = {}
    for row in history.of(BrokerChange):
        before = last.get(row.broker)
        last[row.broker] = row
        if before is None or row.from_snapshot or row.event is not BrokerEvent.REGISTERED:
            continue
        epoch, of_another = row.broker_epoch, row.incarnation != before.incarnation
        if epoch < before.broker_epoch or (epoch == before.broker_epoch and of_another):
            yield _Wrong(row, f"broker {row.broker}", f"broker epoch {epoch} followed {before.broker_epoch}")


def _of_the_quorum(history: History) -> Iterator[_Wrong]:
    before: ControllerChange | None = None
    for row in history.of(ControllerChange):
        if row.event is not ControllerEvent.LEADS or row.from_snapshot:
            continue
        if before is not None and row.controller_epoch < before.controller_epoch:
            how = f"controller {row.controller} leads in epoch {row.controller_epoch}, after {before.controller_epoch}"
            yield _Wrong(row, "the quorum", how)
        elif before is not None and row.controller_epoch == before.controller_epoch:
            both = f"{before.controller} and {row.controller}"
            yield _Wrong(row, "the quorum", f"epoch {row.controller_epoch} has the leaders {both}")
        before = row


def _finding(case: Case, wrongs: Sequence[_Wrong]) -> Finding:
    first, row = wrongs[0], wrongs[0].row
    more = f"; {len(wrongs) - 1} more of its changes are wrong" if len(wrongs) > 1 else ""
    topic, topic_id, partition = (
        (row.topic, row.topic_id, row.partition) if isinstance(row, PartitionChange) else (None, None, None)
    )
    return Finding(
        kind=Kind.EPOCH_REGRESSED,
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        first_ns=row.time_ns,
        last_ns=wrongs[-1].row.time_ns,
        step=step_at(case.steps, row.time_ns),
        reader=None if topic else first.of,
        detail=f"{first.of}: {first.how} at offset {row.offset} of the metadata log{more}",
        contract=promise(Kind.EPOCH_REGRESSED, topic, None, case.contract),
    )


CHECK: Final = Check(
    promise="Each leader of a partition, and of the quorum, has an epoch of its own, and no epoch goes back.",
    kinds={
        Kind.EPOCH_REGRESSED: Introduced(
            promise="each leader has an epoch of its own, above all earlier ones (KIP-101, KIP-497, KIP-595, KIP-631)"
        )
    },
    adds=_epochs,
    order=Order(findings=19),
    planted=(
        "epoch_regressed_of_a_leader",
        "epoch_regressed_with_two_leaders",
        "epoch_regressed_of_a_partition",
        "epoch_regressed_of_the_quorum",
        "near_epoch_regressed_by_a_change_in_one_epoch",
    ),
)

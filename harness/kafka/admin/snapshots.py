"""Snapshots of a cluster: the state that all brokers and coordinators report at one moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from harness.kafka.admin import cluster, groups, offsets, topics
from harness.kafka.admin.wire import Wire, versions_call
from harness.model.clock import now_ns
from harness.model.documents.cluster import GroupOffset, PartitionState, Phase, ReplicaLog, Snapshot
from harness.model.errors import HarnessTimeout
from harness.model.place import Place

PATIENT_S: Final = 5.0  # the time for each broker's answer in evidence that is collected only once
_COORDINATOR_S: Final = 20.0


def brokers_up(wire: Wire, timeout_s: float) -> list[int]:
    """Brokers that answer now."""
    return sorted(wire.ask_all(versions_call(), timeout_s))


def snapshot(wire: Wire, phase: Phase, names: Sequence[str], group_ids: Sequence[str]) -> Snapshot:
    """The state of these topics and groups that the brokers report now, with 5 s for each answer."""
    at_ns = now_ns()
    up = brokers_up(wire, PATIENT_S)
    states = topics.newest(topics.seen_by_broker(wire, names, timeout_s=PATIENT_S).values())
    marks = offsets.watermarks(wire, states, PATIENT_S)
    logs = offsets.replica_offsets(wire, states, PATIENT_S)
    return Snapshot(
        phase=phase,
        at_ns=at_ns,
        brokers_up=tuple(up),
        partitions=tuple(_partition(state, marks, logs) for state in states),
        groups=tuple(_offsets(wire, group_ids, states)),
        topic_configs=cluster.topic_configs(wire, names, PATIENT_S),
        broker_configs={str(b): config for b, config in cluster.broker_configs(wire, PATIENT_S).items()},
    )


def _partition(
    state: topics.PartitionState,
    marks: Mapping[Place, tuple[int, int]],
    logs: Mapping[tuple[str, int, int], tuple[int, int]],
) -> PartitionState:
    place = (state.topic, state.partition)
    high, stable = marks.get(place, (None, None))
    ranges = {broker: logs[*place, broker] for broker in state.replicas if (*place, broker) in logs}
    return PartitionState(
        topic=state.topic,
        topic_id=state.topic_id,
        partition=state.partition,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        replicas=state.replicas,
        elr=state.elr,
        logs=tuple(ReplicaLog(broker=b, log_start=start, log_end=end) for b, (start, end) in ranges.items()),
        high_watermark=high,
        last_stable_offset=stable,
    )


def _offsets(wire: Wire, group_ids: Sequence[str], states: Sequence[topics.PartitionState]) -> Iterator[GroupOffset]:
    """After a group without an answer the others get less time: their coordinators may be gone, too."""
    deadline_s = _COORDINATOR_S
    for group in group_ids:
        rows = _offsets_of(wire, group, states, deadline_s)
        yield from rows
        if any(row.stable is False and row.offset is None for row in rows):
            deadline_s = PATIENT_S


def _offsets_of(
    wire: Wire, group: str, states: Sequence[topics.PartitionState], deadline_s: float = _COORDINATOR_S
) -> list[GroupOffset]:
    """The group's offsets in the partitions of the snapshot.

    While a transaction hangs, the last completed commit. Without any answer nothing is known of the group, which must
    not end the run: the logs are still to be read.
    """
    places = [(state.topic, state.partition) for state in states]
    found: Mapping[Place, int | None] = dict.fromkeys(places)
    stable: bool | None = None
    try:
        found = groups.group_offsets(wire, group, places, stable=True, deadline_s=deadline_s)
    except HarnessTimeout:
        stable = False
        with suppress(HarnessTimeout):
            found = groups.group_offsets(wire, group, places, stable=False, deadline_s=deadline_s)
    at_ns = now_ns()
    return [
        GroupOffset(group=group, topic=topic, partition=partition, offset=offset, at_ns=at_ns, stable=stable)
        for (topic, partition), offset in sorted(found.items())
    ]

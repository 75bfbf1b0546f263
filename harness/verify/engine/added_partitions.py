"""Partitions that a step added to a topic, and where members of groups began in them by auto.offset.reset."""

from __future__ import annotations

from harness.model.documents.cluster import GroupReset
from harness.model.documents.steps import PartitionsAdded
from harness.verify.engine.case import Case


def added(case: Case) -> dict[tuple[str, int], int]:
    """(topic, partition) -> when the step began that added the partition. Before that it did not exist."""
    began: dict[tuple[str, int], int] = {}
    for event, step in case.events(PartitionsAdded):
        for partition in range(event.partition, event.partitions):
            began[event.topic, partition] = event.at_ns if step.started_ns is None else step.started_ns
    return began


def first_starts(case: Case) -> list[GroupReset]:
    """Where members began in added partitions in which their group had no offset. With auto.offset.reset=latest a group
    receives nothing that was written before, with `earliest` everything."""
    new, readers = added(case), case.contract.readers
    rows = [row for row in case.cluster.group_resets or () if (row.topic, row.partition) in new]
    return [
        row
        for row in rows
        if row.committed is None and row.began is not None
        if row.reader in readers and readers[row.reader].reset in ("earliest", "latest")
    ]

"""Snapshots of the metadata log that differ from the log: findings, and notes on settings of deleted topics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.model.finding import Kind
from harness.model.history.history import History as ClusterHistory
from harness.model.history.snapshots import SnapshotDifference
from harness.verify.checks.wrong_snapshot import leftovers, wrong_snapshots
from harness.verify.engine.case import Case
from suites.verify.judging import case_of_history
from suites.verify.metadata import Metadata
from suites.verify.samples import sampled, with_fact

SETTING = ("setting", "topic", "t", "retention.ms")


def difference(node: int = 2, end: int = 40, **values: Any) -> SnapshotDifference:
    given: dict[str, Any] = {"entity": SETTING, "in_snapshot": "1", "in_log": "2", "leftover": False}
    return SnapshotDifference(node=node, end_offset=end, **given | values)


def case(*differences: SnapshotDifference, metadata: Metadata | None = None, damaged: int | None = None) -> Case:
    built = sampled(metadata=metadata)
    if damaged is not None:
        with_fact(built, "metadata_damaged", damaged, 10, 20, what="a snapshot")
    of = (metadata or Metadata()).history()
    history = ClusterHistory(
        nodes=of.nodes, voters=of.voters, start=0, end=of.end, changes=of.changes, differences=differences
    )
    return replace(case_of_history(built), history=history)


def test_a_difference_is_a_finding_of_its_node() -> None:
    topic = difference(entity=("topic", "T"), in_snapshot=None, in_log="t", end=50)
    one, other = wrong_snapshots(case(topic, difference(), difference(node=3)))
    assert (one.kind, one.reader, one.count, one.condemns) == (Kind.WRONG_SNAPSHOT, "node 2", 2, True)
    assert (other.reader, other.count) == ("node 3", 1)
    assert one.detail == (
        "the snapshot of the metadata log up to 40 on the disk of node 2 has 1 for setting topic t retention.ms, and "
        "the log has 2; nothing for topic T, and the log has t"
    )


def test_settings_of_deleted_topics_are_a_note() -> None:
    kept = difference(in_log=None, leftover=True)
    assert list(wrong_snapshots(case(kept))) == []
    (note,) = leftovers(case(kept))
    assert "the disk of node 2 keep 1 settings of deleted topics (retention.ms of t)" in note
    assert list(leftovers(case(difference()))) == []


def test_damaged_metadata_explains_a_difference_of_its_node_only() -> None:
    assert list(wrong_snapshots(case(difference(), damaged=2))) == []
    assert len(list(wrong_snapshots(case(difference(), damaged=1)))) == 1


def test_an_incomplete_history_shows_nothing() -> None:
    assert list(wrong_snapshots(case(difference(), metadata=Metadata().unknown()))) == []
    assert list(wrong_snapshots(replace(case(difference()), history=None))) == []

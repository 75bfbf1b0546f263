"""Incidents: what joins an open alarm."""

from __future__ import annotations

from pathlib import Path

from harness.audit.alarms.incidents import Incidents
from harness.audit.rules.rule import Suspicion
from harness.audit.rules.topic_deleted import TopicDeleted
from harness.audit.store.database import Database
from harness.model.severity import Severity


def suspicion(first: int | None, end: int | None, partition: int = 0, others: int = 0) -> Suspicion:
    return Suspicion(
        rule="topic_deleted",
        cause="c",
        what="w",
        at_ns=0,
        topic="orders",
        topic_id="orders-id",
        partition=partition,
        first_offset=first,
        end_offset=end,
        others=others,
        severity=Severity.DANGER,
    )


def joined(folder: Path, *suspicions: Suspicion) -> tuple[int, int | None, int]:
    """The partitions and records of the alarm, and the number of named places."""
    incidents = Incidents(Database(folder), {"topic_deleted": TopicDeleted()}, [])
    for now_ns, one in enumerate(suspicions):
        incidents.add(one, now_ns)
    (alarm,) = incidents.open
    return alarm.partitions, alarm.records, len(alarm.suspicions)


def test_other_records_of_the_same_partition_are_added(tmp_path: Path) -> None:
    assert joined(tmp_path, suspicion(0, 40), suspicion(60, 70), suspicion(40, 60)) == (1, 70, 3)


def test_the_same_records_again_are_nothing_new(tmp_path: Path) -> None:
    assert joined(tmp_path, suspicion(0, 40), suspicion(0, 40), suspicion(10, 40)) == (1, 40, 1)
    assert joined(tmp_path / "more", suspicion(0, 40), suspicion(0, 60)) == (1, 60, 1)
    assert joined(tmp_path / "unknown", suspicion(None, None), suspicion(0, 60)) == (1, 60, 1)


def test_partitions_without_a_suspicion_of_their_own_count(tmp_path: Path) -> None:
    assert joined(tmp_path, suspicion(0, 40, others=150), suspicion(0, 40, 1), suspicion(0, 40, 2, others=7)) == (
        160,
        120,
        3,
    )

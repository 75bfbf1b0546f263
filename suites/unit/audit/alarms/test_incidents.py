"""Incidents: what joins an open alarm."""

from __future__ import annotations

from pathlib import Path

from harness.audit.alarms.alarm import Alarm
from harness.audit.alarms.event import Event
from harness.audit.alarms.incidents import Incidents, Sink
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
    assert joined(tmp_path / "empty", suspicion(5, 5), suspicion(5, 5))[2] == 1


def test_partitions_without_a_suspicion_of_their_own_count(tmp_path: Path) -> None:
    assert joined(tmp_path, suspicion(0, 40, others=150), suspicion(0, 40, 1), suspicion(0, 40, 2, others=7)) == (
        160,
        120,
        3,
    )


class Slow:
    """A sink with deliveries that wait."""

    def __init__(self) -> None:
        self.idle = False
        self.seen: list[tuple[str, bool]] = []
        self.ids: set[str] = set()

    def show(self, event: Event, alarm: Alarm, *, repeated: bool = False) -> None:
        self.seen.append((event.value, repeated))
        self.ids.add(alarm.id)


class Watching:
    """Looks into the file from outside at the moment when an alarm is shown."""

    idle = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.in_file: list[int] = []

    def show(self, event: Event, alarm: Alarm, *, repeated: bool = False) -> None:
        other = Database(self._folder, read_only=True)
        self.in_file.append(len([*other.open_alarms()]))
        other.close()


def opened(folder: Path, sink: Sink) -> tuple[Database, Incidents]:
    database = Database(folder)
    return database, Incidents(database, {"topic_deleted": TopicDeleted()}, [sink])


def test_an_alarm_is_in_the_file_before_anyone_sees_it(tmp_path: Path) -> None:
    sink = Watching(tmp_path)
    opened(tmp_path, sink)[1].add(suspicion(0, 40), 1)
    assert sink.in_file == [1]


def test_what_was_not_delivered_before_a_kill_is_shown_again_with_the_same_id(tmp_path: Path) -> None:
    sink = Slow()
    killed, incidents = opened(tmp_path, sink)
    incidents.add(suspicion(0, 40), 1)
    incidents.settle()  # nothing was delivered yet
    killed.close()  # what was not committed is lost with it
    database, again = opened(tmp_path, sink)
    again.repeat()
    assert sink.seen == [("opened", False), ("opened", True)]
    again.add(suspicion(0, 40), 2)  # the record is read again
    assert (len(sink.seen), len(sink.ids)) == (2, 1)
    again.end("topic_deleted: c", 3, "it is over")
    database.put_fact("any", "")
    database.close()
    last, third = opened(tmp_path, sink)
    third.repeat()
    assert sink.seen[2:] == [("ended", False), ("opened", True), ("ended", True)]
    sink.idle = True
    third.settle()
    third.add(suspicion(0, 40), 4)
    third.settle()
    last.put_fact("any", "")
    opened(tmp_path, sink)[1].repeat()
    assert (sink.seen[5:], len(sink.ids)) == ([("opened", False)], 2)  # another alarm of the same incident

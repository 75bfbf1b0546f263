"""A rule that raises is off from then on, with an alarm, and the auditor goes on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

import pytest

from harness.audit.alarms.alarm import Alarm
from harness.audit.engine.view import View
from harness.audit.look import PartitionLook
from harness.audit.rules.own_coverage import RuleFailed
from harness.audit.rules.rule import Suspicion
from harness.audit.rules.topic_deleted import TopicDeleted
from harness.audit.store.database import Database
from harness.audit.store.partitions import Offsets
from harness.model.history.changes import AnyChange, PartitionChange
from harness.model.waiting import wait_for
from suites.unit.audit.engine.engine_examples import Driven, LeaderLost, driven
from suites.unit.model.history.logs import TOPIC, change, partition, removed, topic

FAILED = ("opened", "rule_failed: leader-lost")
LOST = ("opened", f"leader-lost: {TOPIC}/0")
DELETED = removed()


class Broken(LeaderLost):
    """Raises in one method, which is the one of this name."""

    name: ClassVar[str] = "leader-lost"
    method: ClassVar[str] = ""

    def _raise(self, method: str) -> None:
        if method == self.method:
            raise ZeroDivisionError("a defect")

    def on_known(self, state: PartitionChange, view: View) -> None:
        self._raise("on_known")

    def on_change(self, after: AnyChange, before: AnyChange | None, view: View) -> Iterable[Suspicion]:
        yield from super().on_change(after, before, view)
        if isinstance(after, PartitionChange) and after.leader < 0:
            self._raise("on_change")

    def on_look(self, look: PartitionLook, before: Offsets, view: View) -> Iterable[Suspicion]:
        self._raise("on_look")
        return ()

    def on_tick(self, view: View) -> Iterable[Suspicion]:
        self._raise("on_tick")
        return ()

    def confirmed(self, suspicion: Suspicion, look: PartitionLook, view: View) -> Suspicion | None:
        self._raise("confirmed")
        return super().confirmed(suspicion, look, view)

    def over(self, suspicion: Suspicion, view: View) -> bool:
        self._raise("over")
        return super().over(suspicion, view)


def broken(method: str) -> LeaderLost:
    kind = type("Broken", (Broken,), {"method": method})
    made = kind()
    assert isinstance(made, LeaderLost)
    return made


def shown(running: Driven, *wanted: tuple[str, str]) -> list[tuple[str, str]]:
    return wait_for(
        lambda: list(running.shown.lines),
        until=lambda seen: set(wanted) <= set(seen),
        deadline_s=10,
        what=f"{wanted}",
    )


def first(running: Driven, rule: str) -> Alarm:
    return next(alarm for alarm in running.shown.alarms if alarm.rule == rule)


@pytest.mark.parametrize("method", ["on_change", "on_look", "on_tick", "confirmed", "over"])
def test_a_rule_that_raises_is_an_alarm_and_the_others_go_on(tmp_path: Path, method: str) -> None:
    with driven(tmp_path, broken(method), TopicDeleted()) as running:
        running.looker.answers[TOPIC, 0] = Offsets(leader_epoch=0, high_watermark=7)
        running.feed.put(topic(), partition(), change(Leader=-1, Isr=(1,)))
        shown(running, FAILED)
        assert "failed and is off until a restart: ZeroDivisionError at _raise:" in first(running, "rule_failed").what
        assert [*running.auditor.guard.failed] == ["leader-lost"]
        running.feed.put(DELETED)
        found = shown(running, ("opened", f"topic_deleted: topic {TOPIC}, id {TOPIC}-id"))
        assert found.count(FAILED) == 1


def test_what_a_rule_found_before_it_raised_is_an_alarm(tmp_path: Path) -> None:
    for method in ("on_change", "confirmed"):
        with driven(tmp_path / method, broken(method)) as running:
            running.looker.answers[TOPIC, 0] = Offsets(leader_epoch=0, high_watermark=1000)  # it would dismiss
            running.feed.put(topic(), partition(), change(Leader=-1, Isr=(1,)))
            shown(running, FAILED, LOST)
            assert "because the rule failed" in first(running, "leader-lost").what


def test_an_alarm_of_a_rule_that_fails_stays_open(tmp_path: Path) -> None:
    with driven(tmp_path, broken("over")) as running:
        running.looker.answers[TOPIC, 0] = Offsets(leader_epoch=0, high_watermark=7)
        running.feed.put(topic(), partition(), change(Leader=-1, Isr=(1,)), change(Leader=1))
        shown(running, FAILED, LOST)
    assert sorted(ended is None for _, ended, _ in Database(tmp_path, read_only=True).alarms()) == [True, True]


def test_a_rule_that_fails_at_what_the_database_has_fails_too(tmp_path: Path) -> None:
    with driven(tmp_path) as running:
        running.feed.put(topic(), partition())
        wait_for(lambda: running.auditor.counts.last_offset, until=lambda n: n >= 1, deadline_s=10, what="records")
    with driven(tmp_path, broken("on_known")) as again:
        shown(again, FAILED)


def test_the_alarm_outlives_a_restart_and_ends_after_a_day(tmp_path: Path) -> None:
    """No rule judged the time in between."""
    with driven(tmp_path, broken("on_tick")) as running:
        shown(running, FAILED)
    with driven(tmp_path, LeaderLost()) as again:
        again.feed.put(topic(), partition(), first=0)
        wait_for(lambda: again.auditor.counts.last_offset, until=lambda n: n >= 1, deadline_s=10, what="records")
        (alarm,) = again.auditor.incidents.open
        (suspicion,) = alarm.suspicions
        later = RuleFailed({"keep_s": 0.0})
        assert later.over(suspicion, again.auditor.state)
        assert not later.over(later.suspicion("leader-lost", "a defect", 0), again.auditor.state)
    assert again.shown.lines == []

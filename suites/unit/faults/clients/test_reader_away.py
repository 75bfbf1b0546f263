"""Groups without members for a while: members leave and return, and the deletion of a group is recorded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.faults.clients import groups
from harness.faults.clients.groups import DeleteGroup, ReaderAway
from harness.faults.steps.produce import WaitTransactionalIdExpired
from harness.model.errors import HarnessTimeout
from harness.workload.consumers.crashing_consumer import Absence
from suites.steps_json import events_of
from suites.unit.faults.clients.test_restart_reader import PLACES, Coordinator, member
from suites.unit.faults.steps.scripted import context_on
from suites.unit.faults.steps.test_step_validation import with_steps
from suites.unit.model.scenario.test_toml import read, refused

AWAY = '{ do = "reader_away", group = "readers", name = "away" }'


class Member:
    """Leaves at once when ordered, and returns at once when allowed, or to no partitions."""

    def __init__(self, *, leaves: bool = True, comes_back: bool = True) -> None:
        self._absence = Absence(left_ns=7 if leaves else None)
        self._comes_back = comes_back

    def leave(self) -> Absence:
        return self._absence

    @property
    def settled(self) -> bool:
        return self._absence.over.is_set() and self._comes_back


def away(state: str, *members: Member) -> tuple[Any, list[dict[str, Any]]]:
    """The effect of a complete absence, and its events."""
    named = {f"r{n}": one for n, one in enumerate(members)}
    context = context_on(None, admin=SimpleNamespace(group_state=lambda _: state), members=lambda _: named)
    with ReaderAway(group="g").active(context) as injection:
        effect = injection.probe()
    return effect, events_of(context)


def test_a_group_that_all_members_left_is_empty() -> None:
    effect, events = away("Empty", Member(), Member())
    assert effect.held
    assert [(e["kind"], e["group"], e["left_ns"]) for e in events] == [("group_away", "g", 7)]
    assert events[0]["to_ns"] >= events[0]["from_ns"] > 7


def test_a_group_with_members_has_not_left() -> None:
    effect, events = away("Stable", Member())
    assert (effect.held, effect.because) == (False, "the coordinator reports that group g is Stable")
    assert len(events) == 1


def test_a_member_that_does_not_leave_is_reported_and_may_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "LEAVE_DEADLINE_S", 0.2)
    stuck = Member(leaves=False)
    with pytest.raises(HarnessTimeout, match="every member of group g to leave"):
        away("Empty", Member(), stuck)
    assert stuck.leave().over.is_set()


def test_a_group_that_does_not_return_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "BACK_DEADLINE_S", 0.2)
    with pytest.raises(HarnessTimeout, match="group g to have partitions again"):
        away("Empty", Member(comes_back=False))


def test_a_member_that_leaves_closes_and_another_one_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, first, second = member(), Coordinator(), Coordinator()
    monkeypatch.setattr(reader, "_consumer", lambda: second)
    monkeypatch.setattr(reader, "_begin", lambda consumer: None)
    monkeypatch.setattr(reader, "_mine", set(PLACES))
    absence = reader.leave()
    absence.over.set()
    assert reader._current(cast(Any, first)) is cast(Any, second)
    assert first.closed
    assert absence.left_ns is not None
    assert reader.places == frozenset()
    assert reader._current(cast(Any, second)) is cast(Any, second)


def test_a_transactional_id_has_expired_when_no_coordinator_reports_it() -> None:
    reported = [{"p": SimpleNamespace(state="CompleteCommit")}, {}]
    context = context_on(None, admin=SimpleNamespace(transactions=lambda ids: reported.pop(0) if reported else ids))
    WaitTransactionalIdExpired(producer="p").perform(context)
    context.admin = cast(Any, SimpleNamespace(transactions=lambda _: {"p": SimpleNamespace(state="Ongoing")}))
    with pytest.raises(HarnessTimeout, match=r"the transactional id of p to expire; last saw .*Ongoing"):
        WaitTransactionalIdExpired(producer="p", deadline_s=0.2).perform(context)


@pytest.mark.parametrize(("answers", "outcome"), [(True, "acked"), (False, "unknown")])
def test_the_outcome_of_a_deletion_is_recorded_in_any_case(answers: bool, outcome: str) -> None:
    def delete(group: str) -> None:
        if not answers:
            raise HarnessTimeout(f"waited for the coordinator of {group}")

    context = context_on(None, admin=SimpleNamespace(delete_group=delete))
    try:
        DeleteGroup(group="g").perform(context)
    except HarnessTimeout:
        assert not answers
    (event,) = events_of(context)
    assert (event["kind"], event["group"], event["outcome"]) == ("group_deleted", "g", outcome)
    assert event["asked_ns"] <= event["at_ns"]


def test_only_a_group_without_members_may_be_deleted() -> None:
    read(with_steps(AWAY, '{ do = "delete_group", group = "readers" }'))
    assert "no group of a reader 'ready'" in refused(with_steps(AWAY.replace("readers", "ready")))

"""When coordinators have ended every transaction, and when a group is at rest. The admin is scripted."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.kafka.admin.group_members import GroupSeen, Member
from harness.model.documents.run import GroupLook, OpenTransaction
from harness.model.place import Place
from harness.run import coordinators, recovery

CLUSTER = cast(Any, SimpleNamespace(brokers=(1, 2, 3), running=lambda node: node != 3))
A, B = frozenset({("t", 0)}), frozenset({("t", 1)})
NONE: frozenset[Place] = frozenset()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_INTERVAL_S", 0.001)


def admin(*looks: Mapping[int, Mapping[str, str]]) -> Any:
    """Reports one look at the transactions after the other; the last one stays."""
    left = list(looks)
    return SimpleNamespace(transactions_by_coordinator=lambda: left.pop(0) if len(left) > 1 else left[0])


def test_a_transaction_that_its_coordinator_ends_is_waited_for() -> None:
    looks = admin({1: {"a": "PrepareCommit"}, 2: {}}, {1: {"a": "CompleteCommit", "b": "Empty"}, 2: {"c": "Dead"}})
    ended = coordinators.transactions_ended(CLUSTER, looks, 5.0)
    assert (ended.ok, ended.open) == (True, ())


@pytest.mark.parametrize("state", ["Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence", "of a later Kafka"])
def test_a_transaction_in_any_other_state_is_open(state: str) -> None:
    ended = coordinators.transactions_ended(CLUSTER, admin({1: {"a": state}, 2: {"b": "Empty"}}), 0.05)
    assert not ended.ok
    assert ended.open == (OpenTransaction(transactional_id="a", state=state, coordinator=1),)
    assert f"a is {state} at broker 1" in ended.last_seen


def test_a_running_broker_has_to_answer() -> None:
    ended = coordinators.transactions_ended(CLUSTER, admin({1: {}}), 0.05)
    assert (ended.ok, ended.open) == (False, ())
    assert "no answer from broker 2" in ended.last_seen
    assert "broker 3" not in ended.last_seen  # it does not run


def look(seen: GroupSeen, members: Mapping[str, frozenset[Place]]) -> GroupLook:
    load = SimpleNamespace(members_by_group=lambda: {"g": members}, wanted_by_group=lambda: {"g": A | B})
    return coordinators.look_at_group(cast(Any, SimpleNamespace(group_members=lambda group: seen)), load, "g")


def counts(found: GroupLook) -> tuple[int, int, int, int]:
    return found.unassigned, found.assigned_twice, found.of_nobody, found.differing


LOOKS = {
    "a partition without a member": (GroupSeen("Stable", (Member("a", A), Member("b", NONE))), (1, 0, 0, 0)),
    "a partition of two members": (GroupSeen("Stable", (Member("a", A), Member("b", A | B))), (0, 1, 0, 0)),
    "a partition of one that has left": (GroupSeen("Stable", (Member("a", A), Member("c", B))), (0, 0, 1, 0)),
    "a group that is not stable": (GroupSeen("PreparingRebalance", (Member("a", A), Member("b", B))), (0, 0, 0, 0)),
    "no answer": (GroupSeen(""), (2, 0, 0, 0)),
}


@pytest.mark.parametrize("name", LOOKS)
def test_what_keeps_a_group_from_rest_is_counted(name: str) -> None:
    seen, wrong = LOOKS[name]
    found = look(seen, {member.client: member.places for member in seen.members if member.client in ("a", "b")})
    assert counts(found) == wrong
    assert found.state == (seen.state or None)
    assert not found.assigned


def test_a_group_is_at_rest_when_coordinator_and_members_agree() -> None:
    assert look(GroupSeen("Stable", (Member("a", A), Member("b", B))), {"a": A, "b": B}).at_rest


def test_a_member_that_the_coordinator_does_not_know_is_not_at_rest() -> None:
    found = look(GroupSeen("Stable", (Member("a", A | B),)), {"a": A | B, "b": NONE})
    assert (found.unknown_members, found.assigned, found.at_rest) == (1, True, False)


def test_members_that_report_another_assignment_are_no_fault_of_the_coordinator() -> None:
    found = look(GroupSeen("Stable", (Member("a", A), Member("b", B))), {"a": A, "b": NONE})
    assert (found.differing, found.assigned, found.at_rest) == (1, True, False)


def test_groups_that_were_each_at_rest_once_are_at_rest() -> None:
    still, moving = GroupLook(group="", state="Stable"), GroupLook(group="", state="PreparingRebalance")
    looks = {"g": [moving, still, moving], "h": [still, moving]}
    assert coordinators.groups_at_rest(lambda group: looks[group].pop(0), ["g", "h"], 5.0).ok


def test_a_group_that_was_never_at_rest_is_named() -> None:
    looks = {"g": GroupLook(group="g", state="Stable"), "h": GroupLook(group="h", state="Empty", unassigned=2)}
    seen = coordinators.groups_at_rest(looks.__getitem__, ["g", "h"], 0.05)
    assert (seen.ok, seen.asked, seen.unsettled) == (False, ("g", "h"), (looks["h"],))
    assert "group h is Empty: 2 partitions without a member" in seen.last_seen


@pytest.mark.parametrize(("by_coordinator", "named"), [(True, ("g",)), (False, ())])
def test_a_look_at_a_partition_of_two_members_is_kept_if_the_coordinator_assigned_it(
    by_coordinator: bool, named: tuple[str, ...]
) -> None:
    once = look(GroupSeen("Reconciling", (Member("a", A), Member("b", A | B)), by_coordinator), {"a": A, "b": B})
    then = look(GroupSeen("Stable", (Member("a", A), Member("b", B)), by_coordinator), {"a": A, "b": B})
    looks = [once, then]
    seen = coordinators.groups_at_rest(lambda _: looks.pop(0), ["g"], 5.0)
    assert (seen.ok, tuple(one.group for one in seen.assigned_twice)) == (True, named)

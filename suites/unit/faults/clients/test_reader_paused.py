"""Members that pause and stay in their group: what they pause, when they resume, and the proof that they stayed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.faults.clients import groups
from harness.faults.clients.groups import ReaderPaused
from harness.faults.steps.step import EffectProof
from harness.model.errors import HarnessTimeout
from harness.workload.consumers.crashing_consumer import Pause
from harness.workload.consumers.live_readers import LiveReader
from suites.unit.faults.clients.test_restart_reader import PLACES, member
from suites.unit.faults.steps.scripted import context_on
from suites.unit.faults.steps.test_step_validation import with_steps
from suites.unit.model.scenario.test_toml import read, refused

PAUSED = '{ do = "reader_paused", group = "readers", name = "paused" }'


class Member:
    """Pauses at once when ordered, or never, and resumes at once when allowed, after so many rebalances."""

    def __init__(self, *, pauses: bool = True, goes_on: bool = True, joins_again: bool = False) -> None:
        self.ordered = Pause(paused_ns=7 if pauses else None, resumed=goes_on)
        self._joins_again, self.rebalances = joins_again, 1

    def pause(self) -> Pause:
        self.rebalances += self._joins_again
        return self.ordered

    @property
    def settled(self) -> bool:
        return self.ordered.over.is_set()


def paused(state: str, *members: Member) -> EffectProof:
    """The effect of a complete pause."""
    named = {f"r{n}": one for n, one in enumerate(members)}
    context = context_on(None, admin=SimpleNamespace(group_state=lambda _: state), members=lambda _: named)
    with ReaderPaused(group="g").active(context) as injection:
        return injection.probe()


def test_a_group_that_pauses_keeps_its_members() -> None:
    assert paused("Stable", Member(), Member()).held


@pytest.mark.parametrize(
    ("state", "joins_again", "why"),
    [("Empty", False, "group g is Empty"), ("", False, "group g is unknown"), ("Stable", True, "r0 had to join again")],
)
def test_a_group_that_members_left_or_that_was_rebalanced_did_not_pause(
    state: str, joins_again: bool, why: str
) -> None:
    effect = paused(state, Member(joins_again=joins_again))
    assert (effect.held, effect.because) == (False, f"the group changed: {why}")


def test_a_member_that_does_not_pause_is_reported_and_may_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "LEAVE_DEADLINE_S", 0.2)
    stuck = Member(pauses=False)
    with pytest.raises(HarnessTimeout, match="every member of group g to pause"):
        paused("Stable", Member(), stuck)
    assert stuck.ordered.over.is_set()


def test_a_member_that_does_not_resume_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "BACK_DEADLINE_S", 0.2)
    with pytest.raises(HarnessTimeout, match="group g to read again"):
        paused("Stable", Member(goes_on=False))


def test_a_member_commits_and_pauses_all_its_partitions_once(monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[tuple[str, frozenset[Any]]] = []
    reader = member(reset="latest")

    def asked(what: str) -> Any:
        return lambda places: did.append((what, frozenset((p.topic, p.partition) for p in places)))

    consumer = cast(Any, SimpleNamespace(pause=asked("pause"), resume=asked("resume")))
    monkeypatch.setattr(LiveReader, "_turn", lambda self, consumer: None)
    monkeypatch.setattr(reader, "_commit", lambda consumer: did.append(("commit", frozenset())))
    monkeypatch.setattr(reader, "_commit_at_s", float("inf"))
    monkeypatch.setattr(reader, "_mine", set(PLACES))
    reader._observer.next_offset[("t", 0)] = 300
    ordered = reader.pause()
    reader._turn(consumer)
    reader._turn(consumer)
    assert (did, ordered.resumed) == ([("pause", PLACES), ("commit", frozenset())], False)
    ordered.over.set()
    reader._turn(consumer)
    reader._turn(consumer)
    assert (did[2:], ordered.resumed, reader.settled) == ([("resume", PLACES)], True, False)
    reader.resets.at_end(("t", 0), 500)
    reader.resets.at_end(("t", 1), 0)
    (row,) = reader.resets.rows
    assert (row.committed, row.began, reader.settled) == (300, 500, True)


def test_only_members_of_librdkafka_can_be_paused() -> None:
    read(with_steps(PAUSED))
    assert "no group of a reader 'ready'" in refused(with_steps(PAUSED.replace("readers", "ready")))
    own = with_steps(PAUSED).replace('group = "readers" }', 'group = "readers", client = "java" }')
    assert "grouped uses the release's own client" in refused(own)

"""A member whose process is killed: it neither commits nor closes, and the effect is what the others get."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.faults.clients import reader_killed
from harness.faults.clients.reader_killed import ReaderKilled
from harness.model.errors import HarnessTimeout
from harness.model.scenario.scenario import Reader
from harness.workload.consumers.crashing_consumer import Absence
from suites.unit.faults.clients.test_restart_reader import PLACES, Coordinator, member
from suites.unit.faults.steps.scripted import context_on
from suites.unit.faults.steps.test_step_validation import with_steps
from suites.unit.model.scenario.test_toml import refused

KILLED = '{ do = "reader_killed", reader = "NAME", name = "gone" }'
HAD = frozenset({("t", 0), ("t", 1)})


class Killed:
    """Its process ends at once, unless it hangs."""

    def __init__(self, *, hangs: bool = False) -> None:
        self.spec = Reader(name="me", topics=("t",), group="g")
        self.session_ms = 6000
        self.places = HAD
        self.settled = True
        self.absence = Absence(left_ns=None if hangs else 7, killed=True)

    def vanish(self) -> Absence:
        return self.absence


def staged(me: Killed, *others: frozenset[tuple[str, int]]) -> Any:
    members = {
        f"o{n}": SimpleNamespace(places=places, settled=True, got_ns=dict.fromkeys(places, 10 + n))
        for n, places in enumerate(others)
    }
    return context_on(None, other_members=lambda _: {"me": me, **members})


def test_the_effect_is_that_the_others_have_all_its_partitions() -> None:
    me, first, second = Killed(), frozenset({("t", 0), ("t", 2)}), frozenset({("t", 1)})
    with ReaderKilled(reader="me").active(staged(me, first)) as injected:
        assert injected.probe().because == "nobody has t/1 of me"
        assert not injected.probe().held
    with ReaderKilled(reader="me").active(staged(me, first, second)) as injected:
        assert injected.probe().held
    assert me.absence.over.is_set()


def test_the_run_says_when_others_had_its_partitions_or_that_they_never_had() -> None:
    first, second = frozenset({("t", 0), ("t", 2)}), frozenset({("t", 1)})
    whole, part = staged(Killed(), first, second), staged(Killed(), first)
    for context in (whole, part):
        with ReaderKilled(reader="me").active(context):
            pass
    (died,) = whole.events
    assert (died.group, died.member, died.at_ns, died.taken_ns, died.session_ms) == ("g", "me", 7, 11, 6000)
    assert died.until_ns > died.taken_ns
    assert [event.taken_ns for event in part.events] == [None]


def test_a_process_that_does_not_end_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_killed, "LEAVE_DEADLINE_S", 0.2)
    me = Killed(hangs=True)
    with pytest.raises(HarnessTimeout, match="the process of me to end"), ReaderKilled(reader="me").active(staged(me)):
        pass
    assert me.absence.over.is_set()


def test_a_member_that_is_killed_closes_nothing_and_another_one_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, second = member(), Coordinator()
    killed = threading.Event()
    first = SimpleNamespace(kill=killed.set)
    monkeypatch.setattr(reader, "_consumer", lambda: second)
    monkeypatch.setattr(reader, "_begin", lambda consumer: None)
    monkeypatch.setattr(reader, "_mine", set(PLACES))
    absence = reader.vanish()
    absence.over.set()
    assert reader._current(cast(Any, first)) is cast(Any, second)
    assert killed.is_set()
    assert absence.left_ns is not None
    assert reader.places == frozenset()


def test_only_a_member_with_a_process_and_successors_may_be_killed() -> None:
    alone = 'own = { topics = ["plain"], group = "own", client = "java" }'
    named = with_steps(KILLED.replace("NAME", "own"))
    assert "nobody in group own could take over" in refused(named.replace("[readers]\n", f"[readers]\n{alone}\n"))
    assert "has no process of its own" in refused(with_steps(KILLED.replace("NAME", "grouped")))

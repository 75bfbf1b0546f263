"""How steps are executed, healed and recorded. The context is scripted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from harness.faults.steps import registry
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import StickyProbe
from harness.faults.steps.step import Action, Done, EffectProof, Fault, Injection
from harness.faults.steps.step_context import StepContext
from harness.kafka.admin.client import PartitionState
from harness.model.documents.steps import LogStartSeen, NoAcks
from harness.model.errors import HarnessFailure, HarnessTimeout
from harness.model.facts import FactKind, Stop
from harness.model.scenario.scenario import Step, Topic
from harness.model.wait_budget import WaitBudget
from suites.steps_json import doubts, run_steps

CALLS: list[str] = []


@dataclass(frozen=True, kw_only=True)
class Break(Fault):
    """Breaks nothing, and remembers each break and each healing."""

    do: ClassVar[str] = "break"
    facts: ClassVar[Declares] = (
        Declared(FactKind.STOPPED, how=Stop.KILLED),
        Declared(FactKind.LINKS_CUT, at_once=True),
    )
    what: str = "x"
    asks: int = 1  # the probe holds from this call on
    after_heal: bool = False
    stubborn: bool = False
    slow: bool = False

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        CALLS.append(f"break {self.what}")
        asked = iter(range(1, 1000))

        def probe() -> EffectProof:
            number = next(asked)
            return EffectProof(number >= self.asks, f"asked {number} times")

        try:
            yield Injection(
                resolved={"what": self.what}, probe=probe, nodes=(7,), after_heal=self.after_heal, deadline_s=0.2
            )
        finally:
            CALLS.append(f"heal {self.what}")
            if self.stubborn:
                raise HarnessFailure("stuck")
            if self.slow:
                raise HarnessTimeout("waited for it to recover")


@dataclass(frozen=True, kw_only=True)
class Act(Action):
    """Remembers that it was done, or raises."""

    do: ClassVar[str] = "act"
    facts: ClassVar[Declares] = (Declared(FactKind.LEADERS_MOVED), Declared(FactKind.TIER_CAUGHT_UP))
    raises: str = ""

    def perform(self, context: StepContext) -> Done:
        CALLS.append("act")
        if self.raises:
            raise {"late": HarnessTimeout("waited for nothing"), "stop": KeyboardInterrupt()}[self.raises]
        context.record_event(LogStartSeen(topic="t", partition=0, log_start=3, at_ns=7))
        return Done(resolved={"done": True})


@pytest.fixture(autouse=True)
def own_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    CALLS.clear()
    monkeypatch.setattr(registry, "BY_NAME", {**registry.BY_NAME, "break": Break, "act": Act})


@dataclass
class Leaders:
    """The leader of t/0 at each look; the last one stays."""

    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(1, 0)])

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        assert topics == ["t"]
        leader, epoch = self.epochs.pop(0) if len(self.epochs) > 1 else self.epochs[0]
        return [
            PartitionState(
                topic="t", topic_id="i", partition=0, leader=leader, leader_epoch=epoch, isr=(1, 2), replicas=(1, 2, 3)
            )
        ]


def context_of(leaders: Leaders | None = None) -> StepContext:
    load = SimpleNamespace(last_ack_ns=lambda topic, partition: 0)
    return StepContext(
        cluster=cast(Any, SimpleNamespace(controllers=(11,))),
        admin=cast(Any, leaders or Leaders()),
        load=cast(Any, load),
        rng=Random(1),
        topics=(Topic(name="t", partitions=1),),
        say=lambda _: None,
    )


def breaking(name: str, **args: Any) -> Step:
    return Step(do="break", name=name, args={"what": name, **args})


def healing(fault: str) -> Step:
    return Step(do="heal", name=f"heal_{fault}", args={"fault": fault})


ACT = Step(do="act", name="act", args={})


def test_a_fault_stays_until_it_is_healed_by_name() -> None:
    rows = run_steps(context_of(), [breaking("a"), breaking("b"), ACT, healing("a"), healing("b")])
    assert CALLS == ["break a", "break b", "act", "heal a", "heal b"]
    a, b, act, _, _ = rows
    assert [row["is_fault"] for row in rows] == [True, True, False, False, False]
    assert a["effect"] == {"held": True, "because": "asked 1 times", "seen": {}}
    assert a["started_ns"] <= a["ended_ns"] <= a["healed_ns"] <= b["healed_ns"]
    assert a["resolved"] == {"what": "a"}
    assert act["resolved"] == {"done": True}
    assert [e["kind"] for e in act["events"]] == ["log_start_seen"]
    assert doubts(rows) == []


def test_faults_that_are_still_active_are_healed_in_reverse() -> None:
    rows = run_steps(context_of(), [breaking("a"), breaking("b")])
    assert CALLS == ["break a", "break b", "heal b", "heal a"]
    assert all(row["effect"]["held"] for row in rows)


@pytest.mark.parametrize("by_name", [False, True])
def test_a_fault_that_heals_too_slowly_is_a_doubt_and_does_not_stop_the_others(by_name: bool) -> None:
    rows = run_steps(
        context_of(), [breaking("a"), breaking("b", slow=True), *([healing("b"), healing("a")] if by_name else [])]
    )
    assert CALLS == ["break a", "break b", "heal b", "heal a"]
    assert ("step_failed", f"step {'heal_b' if by_name else 'b'}: waited for it to recover") in doubts(rows)
    assert rows[0]["healed_ns"] is not None


def test_a_fault_with_for_s_is_healed_by_its_own_step() -> None:
    (row,) = run_steps(context_of(), [breaking("a", for_s=0.05)])
    assert CALLS == ["break a", "heal a"]
    assert row["healed_ns"] - row["started_ns"] >= 50_000_000


def test_healing_waits_for_the_effect_until_the_deadline() -> None:
    rows = run_steps(context_of(), [breaking("a", asks=3), healing("a"), breaking("b", asks=500), healing("b")])
    assert rows[0]["effect"]["held"]
    assert not rows[2]["effect"]["held"]
    ((name, text),) = doubts(rows)
    assert name == "no_effect"
    assert text.startswith("step b had no effect: asked ")


def test_a_step_can_wait_for_an_effect_and_leave_the_fault_active() -> None:
    affected = Step(do="wait_effect", name="affected", args={"fault": "a"})
    rows = run_steps(context_of(), [breaking("a", asks=4), affected, ACT, healing("a")])
    assert CALLS == ["break a", "act", "heal a"]
    assert rows[0]["effect"]["because"] == "asked 4 times"


def test_some_effects_show_only_after_healing() -> None:
    rows = run_steps(context_of(), [breaking("a", after_heal=True), ACT, healing("a")])
    assert rows[0]["effect"]["because"] == "asked 1 times"  # not asked before the healing


def test_a_wait_that_times_out_ends_the_steps_and_heals() -> None:
    late = Step(do="act", name="late", args={"raises": "late"})
    rows = run_steps(context_of(), [breaking("a"), late, ACT, breaking("b")])
    assert CALLS == ["break a", "act", "heal a"]
    assert [row.get("error") for row in rows] == [None, "waited for nothing", "not reached", "not reached"]
    assert [name for name, _ in doubts(rows)] == ["step_failed", "step_failed", "step_failed"]
    assert rows[3]["started_ns"] is None


def test_an_interrupt_heals_everything_and_is_raised() -> None:
    saved: list[list[dict[str, Any]]] = []
    stop = Step(do="act", name="stop", args={"raises": "stop"})
    with pytest.raises(KeyboardInterrupt):
        run_steps(context_of(), [breaking("a"), breaking("b", stubborn=True), stop], saved.append)
    assert CALLS == ["break a", "break b", "act", "heal b", "heal a"]
    assert [row["name"] for row in saved[-1]] == ["a", "b", "stop"]
    assert saved[-1][0]["healed_ns"] is not None
    assert saved[-1][1]["error"] == "healing failed: stuck"


def test_each_change_is_saved_at_once() -> None:
    counts: list[int] = []
    run_steps(context_of(), [ACT, healing_none()], lambda rows: counts.append(len(rows)))
    assert counts == [1, 1, 2, 2]


def healing_none() -> Step:
    return Step(do="hold", name="hold", args={"seconds": 0.0})


def test_the_leader_epochs_before_each_step_are_known_to_later_ones() -> None:
    context = context_of(Leaders([(1, 0), (2, 1)]))
    run_steps(context, [ACT, Step(do="act", name="again", args={})])
    assert context.epochs_before == {"act": {("t", 0): 0}, "again": {("t", 0): 1}}


def test_a_broker_that_does_not_answer_has_the_epochs_of_its_last_answer() -> None:
    class Silent(Leaders):
        def partitions(self, topics: list[str]) -> list[PartitionState]:
            return super().partitions(topics) if len(self.epochs) > 1 else []

    context = context_of(Silent([(1, 3), (1, 3)]))
    run_steps(context, [ACT, Step(do="act", name="again", args={})])
    assert context.epochs_before["again"] == {("t", 0): 3}


def test_later_steps_can_name_the_nodes_of_earlier_ones() -> None:
    context = context_of()
    run_steps(context, [breaking("a")])
    assert context.nodes("same(a)") == (7,)


def test_a_probe_without_an_answer_proves_nothing_and_does_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent() -> EffectProof:
        raise HarnessTimeout("no broker answers")

    held = StickyProbe(silent)
    assert held.ask() == EffectProof(False, "no broker answers")
    monkeypatch.setattr(held, "probe", lambda: EffectProof(True, "now"))
    assert held.ask().held
    monkeypatch.setattr(held, "probe", silent)
    assert held.ask().because == "now"  # a proof that was found once stands


def test_facts_are_in_the_row_from_its_beginning_to_its_healing() -> None:
    seen: list[list[Any]] = []
    rows = run_steps(
        context_of(), [breaking("a"), ACT, healing("a")], lambda rows: seen.append([row["facts"] for row in rows])
    )
    (stopped, cut) = seen[0][0]
    assert (stopped["kind"], stopped["nodes"], stopped["to_ns"], cut["to_ns"]) == ("stopped", None, None, None)
    a, act, heal = rows
    (stopped, cut) = a["facts"]
    assert (stopped["nodes"], stopped["how"]) == ([7], "killed")
    assert (stopped["from_ns"], stopped["to_ns"], cut["to_ns"]) == (a["started_ns"], a["healed_ns"], a["ended_ns"])
    assert [fact["kind"] for fact in act["facts"]] == ["leaders_moved", "tier_caught_up"]
    assert heal["facts"] == []


def test_a_step_that_failed_may_have_changed_something_and_has_seen_nothing() -> None:
    late, skipped = run_steps(context_of(), [Step(do="act", name="late", args={"raises": "late"}), ACT])
    assert [fact["kind"] for fact in late["facts"]] == ["leaders_moved"]
    assert skipped["facts"] == []


def test_an_action_that_found_its_work_done_changed_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Act, "disturbs", True)
    monkeypatch.setattr(Act, "perform", lambda self, context: Done(idle=True))
    (row,) = run_steps(context_of(), [ACT])
    assert (row["is_fault"], row["facts"]) == (False, [])


def test_a_fact_that_the_class_does_not_declare_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Act, "declared", lambda self: (Declared(FactKind.QUORUM_LOST),))
    with pytest.raises(TypeError, match="act has facts that its class does not declare"):
        run_steps(context_of(), [ACT])


@dataclass(frozen=True, kw_only=True)
class Patient(Action):
    """A wait that ends in vain; it remembers how long it would have waited."""

    do: ClassVar[str] = "patient"
    facts: ClassVar[Declares] = (Declared(FactKind.TIER_CAUGHT_UP),)
    deadline_s: float = 60.0
    silent: bool = False

    def perform(self, context: StepContext) -> Done:
        CALLS.append(f"{self.deadline_s:.0f} s, {context.cut_short}")
        if self.silent:
            context.record_event(NoAcks(topic="t", partition=0, at_ns=7, since_ns=1, leader=1, isr=(1,), beside={}))
            return Done()
        raise HarnessTimeout("waited in vain")


def test_after_acks_that_did_not_come_a_later_wait_has_less_time_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "BY_NAME", {**registry.BY_NAME, "patient": Patient})
    context = context_of()
    context.budget = WaitBudget(0.0)
    silent = Step(do="patient", name="silent", args={"silent": True})
    late = Step(do="patient", name="late", args={"deadline_s": 40})
    rows = run_steps(context, [silent, late])
    assert CALLS == ["60 s, False", "15 s, True"]
    assert rows[1]["error"] == (
        "waited in vain; it had less time, because step silent waited for acknowledgements that did not come"
    )


def test_a_step_that_fails_begins_the_budget() -> None:
    context = context_of()
    run_steps(context, [Step(do="act", name="act", args={"raises": "late"})])
    assert context.budget.cause == "step act failed"

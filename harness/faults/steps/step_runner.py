"""Runs the steps of a scenario: what was broken is healed in reverse order whatever happens, and each step leaves
its record as it goes, so that a crash leaves evidence too."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from harness.faults.steps.effect import Held, with_recent_acks
from harness.faults.steps.registry import Heal, WaitEffect, build_step, is_disturbance
from harness.faults.steps.step import Action, EffectProof, Fault, Injection, Kind, PartitionView, Place
from harness.faults.steps.step_context import Stage
from harness.model.clock import now_ns
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.scenario.scenario import Step
from harness.model.waiting import wait_for

Row = dict[str, Any]


def run_steps(stage: Stage, steps: Sequence[Step], on_step: Callable[[Sequence[Row]], None] | None = None) -> list[Row]:
    """Executes the steps and returns the rows of steps.json; `on_step` gets them whenever one changed.

    A wait that runs out ends the plan, not the run: its row says so in "error", everything is healed, and what the
    cluster makes of it is judged. Any other exception, an interrupt included, heals and goes on upwards.
    """
    conductor = _Conductor(stage, on_step or (lambda _: None))
    stage.rows = conductor.rows
    try:
        for number, step in enumerate(steps):
            if not conductor.run(step):
                conductor.skip(steps[number + 1 :])
                break
        else:
            conductor.heal_rest()
    finally:
        conductor.heal_all()
    return conductor.rows


def doubts(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """(name, sentence) for each step that did not do what it should: reasons for INCONCLUSIVE."""
    out = []
    for row in rows:
        if row.get("error"):
            out.append(("step_failed", f"step {row['name']}: {row['error']}"))
        effect = row["effect"]
        if row["is_fault"] and row["started_ns"] is not None and not (effect and effect["held"]):
            because = effect["because"] if effect else "nothing proves that it did anything"
            out.append(("no_effect", f"step {row['name']} did not bite: {because}"))
    return out


@dataclass(slots=True)
class _Open:
    """A fault that is active."""

    step: str
    row: Row
    context: AbstractContextManager[Injection]
    injection: Injection
    held: Held


@dataclass(slots=True)
class _Conductor:
    stage: Stage
    on_step: Callable[[Sequence[Row]], None]
    rows: list[Row] = field(default_factory=list)
    open: list[_Open] = field(default_factory=list)
    seen: dict[Place, PartitionView] = field(default_factory=dict)
    seen_ns: int = 0
    in_sync_ns: dict[tuple[Place, int], int] = field(default_factory=dict)  # when a replica was seen in an ISR last

    def run(self, step: Step) -> bool:
        """False when a bounded wait ran out and the plan cannot go on."""
        kind = build_step(step)
        self._watch_leaders()
        self.stage.faults_open = len(self.open)
        if not self.open:
            self.stage.busy = with_recent_acks(self.stage, self.stage.places(()))
        self.stage.epochs_before[step.name] = {place: s.leader_epoch for place, s in self.seen.items()}
        row = self._new_row(step, kind)
        self.stage.log(f"{step.name}: {_words(step)}")
        try:
            if isinstance(kind, Heal):
                self._heal(self._open_fault(kind.fault))
            elif isinstance(kind, WaitEffect):
                self._await_effect(self._open_fault(kind.fault))
            elif isinstance(kind, Fault):
                self._break(step, kind, row)
            elif isinstance(kind, Action):
                done = kind.perform(self.stage)
                row["resolved"], row["effect"] = done.resolved, done.effect and done.effect.as_dict()
                row["is_fault"] = row["is_fault"] and not done.idle
        except HarnessTimeout as late:
            row["error"] = str(late)
            self.stage.log(f"{step.name}: {late}")
        except BadInput as words:
            raise BadInput(f"step {step.name} ({step.do}): {words}") from words
        finally:
            row["ended_ns"] = now_ns()
            self._ask_open()
            self._watch_leaders()
            self._close_row(row)
        return "error" not in row

    def skip(self, steps: Sequence[Step]) -> None:
        """Steps that were never begun stand in the record without times."""
        for step in steps:
            self.rows.append(_row(step, is_fault=is_disturbance(build_step(step)), error="not reached"))
        self.on_step(self.rows)

    def heal_rest(self) -> None:
        """The plan is through: what it left broken is healed as if it had said so. What takes too long is a doubt."""
        for active in reversed(list(self.open)):
            try:
                self._heal(active)
            except HarnessTimeout as late:
                active.row["error"] = str(late)
                self.stage.log(f"{active.step}: {late}")
            self.on_step(self.rows)

    def heal_all(self) -> None:
        """In reverse order; one that cannot be healed does not keep the others from it."""
        for active in reversed(list(self.open)):
            self.open.remove(active)
            try:
                active.context.__exit__(None, None, None)
                active.row["healed_ns"] = now_ns()
            except Exception as error:
                active.row["error"] = f"healing failed: {error}"
                self.stage.log(f"{active.step}: healing failed: {error}")
            active.row["effect"] = active.row["effect"] or (active.held.effect and active.held.effect.as_dict())
            self.on_step(self.rows)

    def _break(self, step: Step, kind: Fault, row: Row) -> None:
        context = kind.active(self.stage)
        injection = context.__enter__()
        active = _Open(step.name, row, context, injection, Held(injection.probe))
        self.open.append(active)
        row["resolved"] = injection.resolved
        self.stage.victims[step.name] = injection.nodes
        if kind.for_s > 0:
            self._hold(active, kind.for_s)
            self._heal(active)

    def _open_fault(self, name: str) -> _Open:
        return next(active for active in self.open if active.step == name)

    def _hold(self, active: _Open, seconds: float) -> None:
        until_ns = now_ns() + int(seconds * 1e9)
        while (left_s := (until_ns - now_ns()) / 1e9) > 0:
            if not active.injection.after_heal:
                active.held.ask()
            time.sleep(min(0.1, left_s))

    def _heal(self, active: _Open) -> None:
        if not active.injection.after_heal:
            self._await_effect(active)
        self.open.remove(active)
        active.context.__exit__(None, None, None)
        active.row["healed_ns"] = now_ns()
        if active.injection.after_heal:
            self._await_effect(active)
        self.stage.log(f"{active.step}: healed; {active.row['effect']['because']}")

    def _await_effect(self, active: _Open) -> None:
        """A fault is not healed before it bit, within its bound; not biting is for the judge to weigh."""
        try:
            effect = wait_for(
                active.held.ask,
                until=lambda effect: effect.held,
                deadline_s=active.injection.deadline_s,
                what=f"{active.step} to bite",
                interval_s=0.1,
            )
        except HarnessTimeout:
            effect = active.held.effect or EffectProof(False, "never asked")
        active.row["effect"] = effect.as_dict()

    def _ask_open(self) -> None:
        """Between steps every open fault may show that it bit; what it proved cannot be undone later."""
        for active in self.open:
            if not active.injection.after_heal:
                active.row["effect"] = active.held.ask().as_dict()

    def _watch_leaders(self) -> None:
        """Evidence of who led: a leader that changed since the last look, `since_ns`, becomes an event of the step."""
        internal, looked_ns = {topic.name for topic in self.stage.internal}, now_ns()
        for place, state in self.stage.watched().items():
            before = self.seen.get(place)
            same = before is not None and before.topic_id == state.topic_id  # else it was deleted and made anew
            if before is not None and same and state.leader_epoch > before.leader_epoch:
                kind, able = "leader_change", before.isr
                if place[0] in internal:
                    kind, able = "internal_leader_change", (*before.isr, *before.elr)
                self.stage.record_event(
                    kind,
                    topic=place[0],
                    partition=place[1],
                    old_leader=before.leader,
                    new_leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    clean=state.leader in able,
                    since_ns=self.seen_ns,
                    in_sync_ns=self.in_sync_ns.get((place, state.leader), 0),
                )
            self.seen[place] = state
            self.in_sync_ns |= dict.fromkeys(((place, broker) for broker in state.isr), looked_ns)
        self.seen_ns = looked_ns

    def _new_row(self, step: Step, kind: Kind) -> Row:
        row = _row(step, is_fault=is_disturbance(kind))
        row["started_ns"] = self.stage.started_ns[step.name] = now_ns()
        self.rows.append(row)
        self.on_step(self.rows)
        return row

    def _close_row(self, row: Row) -> None:
        row["events"].extend(self.stage.events)
        self.stage.events.clear()
        self.on_step(self.rows)


def _row(step: Step, *, is_fault: bool, error: str | None = None) -> Row:
    row: Row = {
        "name": step.name,
        "do": step.do,
        "args": dict(step.args),
        "resolved": {},
        "started_ns": None,
        "ended_ns": None,
        "healed_ns": None,
        "is_fault": is_fault,
        "effect": None,
        "events": [],
    }
    return row | ({"error": error} if error else {})


def _words(step: Step) -> str:
    args = ", ".join(f"{key} {value}" for key, value in step.args.items())
    return f"{step.do} {args}".strip()

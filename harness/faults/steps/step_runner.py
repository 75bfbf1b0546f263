"""Runs the steps of a scenario and records them.

Every fault is healed whatever happens, in reverse order. Each step is recorded while it runs, so that a crash of the
harness leaves evidence too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from harness.faults.steps.declared_facts import Happened, bound
from harness.faults.steps.effect import StickyProbe, with_recent_acks
from harness.faults.steps.registry import Heal, WaitEffect, build_step
from harness.faults.steps.step import Action, EffectProof, Fault, Injection, Kind, is_disturbance
from harness.faults.steps.step_context import StepContext
from harness.model.clock import now_ns
from harness.model.doubt_names import DoubtName
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.place import Place
from harness.model.scenario.scenario import Step
from harness.model.waiting import wait_for

Row = dict[str, Any]  # of steps.json


def run_steps(
    context: StepContext, steps: Sequence[Step], on_step: Callable[[Sequence[Row]], None] | None = None
) -> list[Row]:
    """Executes the steps and returns the rows of steps.json; `on_step` gets them whenever one changed.

    A step that times out ends the steps, not the run: its row has an "error", all faults are healed, and the verifier
    judges what the cluster made of it. Any other exception, an interrupt included, heals all faults and is raised.
    """
    runner = _StepRunner(context, on_step or (lambda _: None))
    context.rows = runner.rows
    try:
        for number, step in enumerate(steps):
            if not runner.run(step):
                runner.skip(steps[number + 1 :])
                break
        else:
            runner.heal_rest()
    finally:
        runner.heal_all()
    return runner.rows


def doubts(rows: Sequence[Row]) -> list[tuple[DoubtName, str]]:
    """(name, sentence) of each step that failed or had no effect: reasons for INCONCLUSIVE."""
    out: list[tuple[DoubtName, str]] = []
    for row in rows:
        if row.get("error"):
            out.append((DoubtName.STEP_FAILED, f"step {row['name']}: {row['error']}"))
        effect = row["effect"]
        if row["is_fault"] and row["started_ns"] is not None and not (effect and effect["held"]):
            because = effect["because"] if effect else "nothing proves an effect"
            out.append((DoubtName.NO_EFFECT, f"step {row['name']} had no effect: {because}"))
    return out


@dataclass(slots=True)
class _Active:
    """A fault that is active."""

    step: str
    row: Row
    manager: AbstractContextManager[Injection]
    injection: Injection
    held: StickyProbe


@dataclass(slots=True)
class _StepRunner:
    context: StepContext
    on_step: Callable[[Sequence[Row]], None]
    rows: list[Row] = field(default_factory=list)
    active: list[_Active] = field(default_factory=list)
    epochs: dict[Place, int] = field(default_factory=dict)  # leader epochs when the current step began
    kinds: dict[str, Kind] = field(default_factory=dict)  # step -> what it is

    def run(self, step: Step) -> bool:
        """Runs one step; False when it timed out, so that the steps cannot continue."""
        kind = build_step(step)
        # A broker that does not answer now has the epochs of the last answer.
        self.epochs |= {place: state.leader_epoch for place, state in self.context.watched().items()}
        self.context.epochs_before[step.name] = dict(self.epochs)
        self.context.faults_open = len(self.active)
        if not self.active:
            self.context.busy = with_recent_acks(self.context, self.context.places(()))
        self.kinds[step.name] = kind
        row = self._new_row(step, kind)
        self.context.log(f"{step.name}: {_words(step)}")
        try:
            if isinstance(kind, Heal):
                self._heal(self._active_fault(kind.fault))
            elif isinstance(kind, WaitEffect):
                self._await_effect(self._active_fault(kind.fault))
            elif isinstance(kind, Fault):
                self._break(step, kind, row)
            elif isinstance(kind, Action):
                done = kind.perform(self.context)
                row["resolved"], row["effect"] = done.resolved, done.effect and done.effect.as_dict()
                row["is_fault"] = row["is_fault"] and not done.idle
        except HarnessTimeout as late:
            row["error"] = str(late)
            self.context.log(f"{step.name}: {late}")
        except BadInput as words:
            raise BadInput(f"step {step.name} ({step.do}): {words}") from words
        finally:
            row["ended_ns"] = now_ns()
            self._ask_active()
            self._close_row(row)
        return "error" not in row

    def skip(self, steps: Sequence[Step]) -> None:
        """Records steps that were not begun: rows without times."""
        for step in steps:
            self.rows.append(_row(step, is_fault=is_disturbance(build_step(step)), error="not reached"))
        self.on_step(self.rows)

    def heal_rest(self) -> None:
        """Heals what the scenario leaves broken after its last step. A healing that times out is a doubt."""
        for active in reversed(list(self.active)):
            try:
                self._heal(active)
            except HarnessTimeout as late:
                active.row["error"] = str(late)
                self.context.log(f"{active.step}: {late}")
            self._state_facts(active.row)
            self.on_step(self.rows)

    def heal_all(self) -> None:
        """Heals every active fault in reverse order; one that cannot be healed does not stop the others."""
        for active in reversed(list(self.active)):
            self.active.remove(active)
            try:
                active.manager.__exit__(None, None, None)
                active.row["healed_ns"] = now_ns()
            except Exception as error:
                active.row["error"] = f"healing failed: {error}"
                self.context.log(f"{active.step}: healing failed: {error}")
            active.row["effect"] = active.row["effect"] or (active.held.effect and active.held.effect.as_dict())
            self._state_facts(active.row)
            self.on_step(self.rows)

    def _break(self, step: Step, kind: Fault, row: Row) -> None:
        manager = kind.active(self.context)
        injection = manager.__enter__()
        active = _Active(step.name, row, manager, injection, StickyProbe(injection.probe))
        self.active.append(active)
        row["resolved"] = injection.resolved
        self.context.victims[step.name] = injection.nodes
        if kind.for_s > 0:
            self._keep_active(active, kind.for_s)
            self._heal(active)

    def _active_fault(self, name: str) -> _Active:
        return next(active for active in self.active if active.step == name)

    def _keep_active(self, active: _Active, seconds: float) -> None:
        until_ns = now_ns() + int(seconds * 1e9)
        while (left_s := (until_ns - now_ns()) / 1e9) > 0:
            if not active.injection.after_heal:
                active.held.ask()
            time.sleep(min(0.1, left_s))

    def _heal(self, active: _Active) -> None:
        if not active.injection.after_heal:
            self._await_effect(active)
        self.active.remove(active)
        active.manager.__exit__(None, None, None)
        active.row["healed_ns"] = now_ns()
        self._state_facts(active.row)
        if active.injection.after_heal:
            self._await_effect(active)
        self.context.log(f"{active.step}: healed; {active.row['effect']['because']}")

    def _await_effect(self, active: _Active) -> None:
        """Waits for the effect of a fault, within its deadline. A fault without an effect is for the judge to weigh."""
        try:
            effect = wait_for(
                active.held.ask,
                until=lambda effect: effect.held,
                deadline_s=active.injection.deadline_s,
                what=f"{active.step} to have an effect",
                interval_s=0.1,
            )
        except HarnessTimeout:
            effect = active.held.effect or EffectProof(False, "never asked")
        active.row["effect"] = effect.as_dict()

    def _ask_active(self) -> None:
        """Asks every active fault for its effect between two steps. A proof that was found once stands."""
        for active in self.active:
            if not active.injection.after_heal:
                active.row["effect"] = active.held.ask().as_dict()

    def _new_row(self, step: Step, kind: Kind) -> Row:
        row = _row(step, is_fault=is_disturbance(kind))
        row["started_ns"] = self.context.started_ns[step.name] = now_ns()
        self.context.spans.clear()
        self._state_facts(row)  # before the step begins, so that a crash of the harness leaves them, too
        self.rows.append(row)
        self.on_step(self.rows)
        return row

    def _close_row(self, row: Row) -> None:
        row["events"].extend(self.context.events)
        self.context.events.clear()
        self._state_facts(row)
        self.on_step(self.rows)

    def _state_facts(self, row: Row) -> None:
        """Writes the facts of a step into its row, from what is known by now."""
        kind = self.kinds[row["name"]]
        if is_disturbance(kind) and not row["is_fault"]:
            row["facts"] = []  # the cluster was already in the state that the action is for
            return
        nodes = row["resolved"].get("nodes") or self.context.victims.get(row["name"])
        happened = Happened(
            started_ns=row["started_ns"],
            ended_ns=row["ended_ns"],
            healed_ns=row["healed_ns"] if isinstance(kind, Fault) else row["ended_ns"],
            failed="error" in row,
            nodes=tuple(nodes) if nodes else None,
            controllers=tuple(self.context.cluster.controllers),
            spans=dict(self.context.spans) if isinstance(kind, Action) else {},
        )
        declared = kind.declared()
        if strangers := {fact.kind for fact in declared} - {fact.kind for fact in kind.facts}:
            raise TypeError(f"{row['do']} has facts that its class does not declare: {sorted(strangers)}")
        row["facts"] = [fact.as_dict() for fact in bound(declared, happened)]


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
        "facts": [],
        "events": [],
    }
    return row | ({"error": error} if error else {})


def _words(step: Step) -> str:
    args = ", ".join(f"{key} {value}" for key, value in step.args.items())
    return f"{step.do} {args}".strip()

"""Runs the steps of a scenario and records them.

Every fault is healed whatever happens, in reverse order. Each step is recorded while it runs, so that a crash of the
harness leaves evidence too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Final

from msgspec import convert

from harness.faults.steps.declared_facts import Happened, bound
from harness.faults.steps.effect import StickyProbe, with_recent_acks
from harness.faults.steps.registry import Heal, WaitEffect, build_step
from harness.faults.steps.step import Action, EffectProof, Fault, Injection, Kind, is_disturbance
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_log import StepLog
from harness.model.clock import now_ns
from harness.model.documents.steps import NoAcks, Steps
from harness.model.doubt_names import DoubtName
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.place import Place
from harness.model.scenario.scenario import Step
from harness.model.verdict import Doubt
from harness.model.waiting import wait_for

# When the budget for waits is spent: for a step that waits, and for the proof of an effect.
WAIT_LEAST_S: Final = 15.0
EFFECT_LEAST_S: Final = 5.0


def run_steps(context: StepContext, steps: Sequence[Step], on_step: Callable[[Steps], None] | None = None) -> Steps:
    """Executes the steps and returns the rows of steps.json; `on_step` gets them whenever one changed.

    A step that times out ends the steps, not the run: its row has an error, all faults are healed, and the verifier
    judges what the cluster made of it. Any other exception, an interrupt included, heals all faults and is raised.
    """
    runner = _StepRunner(context, on_step or (lambda _: None))
    context.steps = runner.logs
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


def doubts(rows: Steps) -> list[Doubt]:
    """Doubts about each step that failed or had no effect."""
    out: list[Doubt] = []
    for row in rows:
        if row.error:
            out.append(Doubt(DoubtName.STEP_FAILED, f"step {row.name}: {row.error}", row.error_origin))
        if row.is_fault and row.started_ns is not None and not (row.effect and row.effect.held):
            because = row.effect.because if row.effect else "nothing proves an effect"
            out.append(Doubt(DoubtName.NO_EFFECT, f"step {row.name} had no effect: {because}"))
    return out


@dataclass(slots=True)
class _Active:
    """A fault that is active."""

    log: StepLog
    manager: AbstractContextManager[Injection]
    injection: Injection
    held: StickyProbe


@dataclass(slots=True)
class _StepRunner:
    context: StepContext
    on_step: Callable[[Steps], None]
    logs: list[StepLog] = field(default_factory=list)
    active: list[_Active] = field(default_factory=list)
    epochs: dict[Place, int] = field(default_factory=dict)  # leader epochs when the current step began
    kinds: dict[str, Kind] = field(default_factory=dict)  # step -> what it is
    injections: dict[str, Injection] = field(default_factory=dict)  # fault -> what it broke

    @property
    def rows(self) -> Steps:
        return tuple(log.row for log in self.logs)

    def run(self, step: Step) -> bool:
        """Runs one step; False when it timed out, so that the steps cannot continue."""
        kind = self._within_budget(step)
        # A broker that does not answer now has the epochs of the last answer.
        self.epochs |= {place: state.leader_epoch for place, state in self.context.watched().items()}
        self.context.epochs_before[step.name] = dict(self.epochs)
        self.context.faults_open = len(self.active)
        if not self.active:
            self.context.busy = with_recent_acks(self.context, self.context.places(()))
        self.kinds[step.name] = kind
        log = self._begin(step, kind)
        self.context.log(f"{step.name}: {_words(step)}")
        try:
            if isinstance(kind, Heal):
                self._heal(self._active_fault(kind.fault))
            elif isinstance(kind, WaitEffect):
                self._await_effect(self._active_fault(kind.fault))
            elif isinstance(kind, Fault):
                self._break(log, kind)
            elif isinstance(kind, Action):
                done = kind.perform(self.context)
                log.resolved, log.effect = done.resolved, done.effect.recorded if done.effect else None
                log.is_fault = log.is_fault and not done.idle
        except HarnessTimeout as late:
            why = f"; it had less time, because {self.context.budget.cause}" if self.context.cut_short else ""
            log.failed(f"{late}{why}", late)
            self.context.log(f"{step.name}: {late}")
            self.context.budget.begin(f"step {step.name} failed")
        except BadInput as words:
            raise BadInput(f"step {step.name} ({step.do}): {words}") from words
        finally:
            log.ended_ns = now_ns()
            self._ask_active()
            self._close(log)
        return log.error is None

    def _within_budget(self, step: Step) -> Kind:
        """The step with the time that is left for its wait, if it has a deadline."""
        kind = build_step(step)
        asked_s = getattr(kind, "deadline_s", None)
        self.context.cut_short = False
        if isinstance(asked_s, int | float):
            left_s = self.context.budget.left_s(asked_s, WAIT_LEAST_S)
            self.context.cut_short = left_s < asked_s
            kind = build_step(replace(step, args={**step.args, "deadline_s": left_s}))
        return kind

    def skip(self, steps: Sequence[Step]) -> None:
        """Records steps that were not begun: rows without times."""
        for step in steps:
            log = _log_of(step, build_step(step))
            log.error, log.error_origin = "not reached", self.logs[-1].error_origin
            self.logs.append(log)
        self.on_step(self.rows)

    def heal_rest(self) -> None:
        """Heals what the scenario leaves broken after its last step. A healing that times out is a doubt."""
        for active in reversed(list(self.active)):
            try:
                self._heal(active)
            except HarnessTimeout as late:
                active.log.failed(str(late), late)
                self.context.log(f"{active.log.name}: {late}")
            self._state_facts(active.log)
            self.on_step(self.rows)

    def heal_all(self) -> None:
        """Heals every active fault in reverse order; one that cannot be healed does not stop the others."""
        for active in reversed(list(self.active)):
            self.active.remove(active)
            try:
                active.manager.__exit__(None, None, None)
                active.log.healed_ns = now_ns()
            except Exception as error:
                active.log.failed(f"healing failed: {error}", error)
                self.context.log(f"{active.log.name}: healing failed: {error}")
            if active.log.effect is None and active.held.effect is not None:
                active.log.effect = active.held.effect.recorded
            self._state_facts(active.log)
            self.on_step(self.rows)

    def _break(self, log: StepLog, kind: Fault) -> None:
        manager = kind.active(self.context)
        injection = manager.__enter__()
        active = _Active(log, manager, injection, StickyProbe(injection.probe))
        self.active.append(active)
        self.injections[log.name] = injection
        log.resolved = injection.resolved
        self.context.victims[log.name] = injection.nodes
        if kind.for_s > 0:
            self._keep_active(active, kind.for_s)
            self._heal(active)

    def _active_fault(self, name: str) -> _Active:
        return next(active for active in self.active if active.log.name == name)

    def _keep_active(self, active: _Active, seconds: float) -> None:
        until_ns = now_ns() + int(seconds * 1e9)
        while (left_s := (until_ns - now_ns()) / 1e9) > 0:
            if not active.injection.after_heal:
                active.held.ask()
            time.sleep(min(0.1, left_s))

    def _heal(self, active: _Active) -> None:
        because = "" if active.injection.after_heal else self._await_effect(active).because
        self.active.remove(active)
        active.manager.__exit__(None, None, None)
        active.log.healed_ns = now_ns()
        self._state_facts(active.log)
        if active.injection.after_heal:
            because = self._await_effect(active).because
        self.context.log(f"{active.log.name}: healed; {because}")

    def _await_effect(self, active: _Active) -> EffectProof:
        """Waits for the effect of a fault, within its deadline. A fault without an effect is for the judge to weigh."""
        try:
            effect = wait_for(
                active.held.ask,
                until=lambda effect: effect.held,
                deadline_s=self.context.budget.left_s(active.injection.deadline_s, EFFECT_LEAST_S),
                what=f"{active.log.name} to have an effect",
                interval_s=0.1,
            )
        except HarnessTimeout:
            effect = active.held.effect or EffectProof(False, "never asked")
        active.log.effect = effect.recorded
        return effect

    def _ask_active(self) -> None:
        """Asks every active fault for its effect between two steps. A proof that was found once stands."""
        for active in self.active:
            if not active.injection.after_heal:
                active.log.effect = active.held.ask().recorded

    def _begin(self, step: Step, kind: Kind) -> StepLog:
        log = _log_of(step, kind)
        log.started_ns = self.context.started_ns[step.name] = now_ns()
        self.context.spans.clear()
        self._state_facts(log)  # before the step begins, so that a crash of the harness leaves them, too
        self.logs.append(log)
        self.on_step(self.rows)
        return log

    def _close(self, log: StepLog) -> None:
        if any(isinstance(event, NoAcks) for event in self.context.events):
            self.context.budget.begin(f"step {log.name} waited for acknowledgements that did not come")
        log.events += tuple(self.context.events)
        self.context.events.clear()
        self._state_facts(log)
        self.on_step(self.rows)

    def _state_facts(self, log: StepLog) -> None:
        """States the facts of a step from what is known by now."""
        kind = self.kinds[log.name]
        if is_disturbance(kind) and not log.is_fault:
            log.facts = ()  # the cluster was already in the state that the action is for
            return
        injection = self.injections.get(log.name)
        happened = Happened(
            started_ns=self.context.started_ns[log.name],
            ended_ns=log.ended_ns,
            healed_ns=log.healed_ns if isinstance(kind, Fault) else log.ended_ns,
            failed=log.error is not None,
            nodes=self._nodes_of(log),
            controllers=tuple(self.context.cluster.controllers),
            spans=dict(self.context.spans) if isinstance(kind, Action) else {},
            ended=injection.ended() if injection and injection.ended else None,
        )
        declared = kind.declared()
        if strangers := {fact.kind for fact in declared} - {fact.kind for fact in kind.facts}:
            raise TypeError(f"{log.do} has facts that its class does not declare: {sorted(strangers)}")
        log.facts = tuple(bound(declared, happened))

    def _nodes_of(self, log: StepLog) -> tuple[int, ...] | None:
        """The nodes that a step was about; None = they are not known."""
        resolved = convert(log.resolved.get("nodes", ()), tuple[int, ...])
        return resolved or self.context.victims.get(log.name) or None


def _log_of(step: Step, kind: Kind) -> StepLog:
    return StepLog(name=step.name, do=step.do, args=dict(step.args), is_fault=is_disturbance(kind))


def _words(step: Step) -> str:
    args = ", ".join(f"{key} {value}" for key, value in step.args.items())
    return f"{step.do} {args}".strip()

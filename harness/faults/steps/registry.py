"""Every kind of step by its word in scenario files; builds steps and refuses what they do not understand."""

from __future__ import annotations

import typing
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

from harness.clusters.disks import loop_devices
from harness.faults.clients import groups, hanging_transaction, processor_dies, reader_dies, restart_reader
from harness.faults.controllers import controller_wiped, metadata_snapshot, quorum_lost, remove_voter
from harness.faults.disks import (
    damage,
    damage_metadata,
    disk_failed,
    disk_filled,
    disk_full,
    disk_read_only,
    disk_slow,
    disk_stalled,
    lose_tail,
    lying_disk,
    move_log_dirs,
)
from harness.faults.network import cut, flap, hold_frames, isolate, lose_answers, slow, split
from harness.faults.nodes import (
    clock,
    crash_loop,
    downgrade_refused,
    kill,
    kill_cleaning,
    kill_deleting,
    out_of_memory,
    pause,
    power_loss,
    raise_features,
    roll,
    rolling_restart,
    terminate,
)
from harness.faults.operations import (
    create_partitions,
    elect,
    move_leaders,
    reassign,
    reconfigure,
    recreate_topic,
    throttle,
)
from harness.faults.steps import admin_waits, produce, topic_operations, waits
from harness.faults.steps.step import Action, Fault, Kind, StepRef
from harness.faults.steps.step_validation import StepValidation
from harness.faults.tier import common as tier
from harness.faults.tier import (
    damage_object,
    delete_objects,
    replay,
    tier_cut,
    tier_denied,
    tier_errors,
    tier_full,
    tier_hold,
    tier_late,
    tier_off,
    tier_outage,
    tier_slow,
    tier_swapped,
)
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Scenario, Step
from harness.model.scenario.toml import build, hint


@dataclass(frozen=True, kw_only=True)
class Heal(Kind):
    """Heals the fault of an earlier step, once it has bitten."""

    do: ClassVar[str] = "heal"
    fault: StepRef


@dataclass(frozen=True, kw_only=True)
class WaitEffect(Kind):
    """Waits until the fault of an earlier step has bitten, where the next step must not come before it."""

    do: ClassVar[str] = "wait_effect"
    fault: StepRef


# A new kind of step is one file and one word here.
KINDS: tuple[type[Kind], ...] = (
    kill.Kill,
    terminate.Terminate,
    pause.Pause,
    kill_deleting.KillDeleting,
    kill_cleaning.KillCleaning,
    crash_loop.CrashLoop,
    cut.Cut,
    cut.CutFollowers,
    flap.Flap,
    isolate.Isolate,
    split.Split,
    slow.Slow,
    lose_answers.LoseAnswers,
    hold_frames.HoldFrames,
    damage.Damage,
    lose_tail.LoseTail,
    damage_metadata.DamageMetadata,
    disk_full.DiskFull,
    disk_filled.DiskFilled,
    disk_failed.DiskFailed,
    disk_read_only.DiskReadOnly,
    disk_stalled.DiskStalled,
    disk_slow.DiskSlow,
    power_loss.PowerLoss,
    out_of_memory.OutOfMemory,
    out_of_memory.OomKilled,
    tier_outage.TierOutage,
    tier_swapped.TierSwapped,
    tier_full.TierFull,
    tier_cut.TierCut,
    tier_denied.TierDenied,
    tier_errors.TierErrors,
    tier_slow.TierSlow,
    tier_late.TierLate,
    tier_hold.TierHold,
    tier_off.TierOff,
    replay.Replay,
    reader_dies.ReaderDies,
    restart_reader.RestartReader,
    groups.ReaderAway,
    groups.ReaderPaused,
    processor_dies.ProcessorDies,
    damage_object.DamageObject,
    delete_objects.DeleteObjects,
    clock.Clock,
    quorum_lost.QuorumLost,
    controller_wiped.ControllerWiped,
    metadata_snapshot.MetadataSnapshot,
    remove_voter.RemoveVoter,
    rolling_restart.RollingRestart,
    roll.Roll,
    raise_features.RaiseFeatures,
    downgrade_refused.DowngradeRefused,
    elect.ElectPreferred,
    elect.ElectUnclean,
    move_leaders.MoveLeaders,
    reassign.Reassign,
    reassign.ReassignAway,
    lying_disk.DiskLies,
    throttle.Throttle,
    create_partitions.CreatePartitions,
    recreate_topic.RecreateTopic,
    reconfigure.Reconfigure,
    move_log_dirs.MoveLogDirs,
    produce.Produce,
    produce.EndTransaction,
    produce.WaitTransactionalIdExpired,
    hanging_transaction.WaitEnded,
    hanging_transaction.AbortTransaction,
    topic_operations.DeleteRecords,
    topic_operations.AlterTopic,
    groups.DeleteGroup,
    topic_operations.WaitRolled,
    topic_operations.WaitLogStart,
    topic_operations.WaitCompacted,
    tier.WaitTiered,
    tier.WaitUntiered,
    reassign.WaitReassigning,
    reassign.WaitReassigned,
    waits.WaitLeaderChanged,
    waits.WaitLeaderIs,
    waits.WaitFailover,
    waits.WaitDeposed,
    waits.WaitNoLeader,
    waits.WaitIsrFull,
    waits.WaitIsrAlone,
    waits.WaitOutOfSync,
    waits.WaitHealthy,
    waits.WaitAcks,
    waits.WaitProducerExpired,
    waits.WaitCommits,
    waits.WaitRead,
    admin_waits.WaitOperations,
    admin_waits.Meddle,
    waits.Hold,
    Heal,
    WaitEffect,
)
BY_NAME: Mapping[str, type[Kind]] = {kind.do: kind for kind in KINDS}


def build_step(step: Step, where: str = "") -> Kind:
    """The executable step; BadInput on an unknown kind, an unknown argument or one of the wrong type."""
    kind = BY_NAME.get(step.do)
    if kind is None:
        raise BadInput(f"{where}step {step.name}: nothing is called {step.do!r}{hint(step.do, BY_NAME)}")
    return typing.cast(Kind, build(kind, step.args, f"{where}step {step.name} ({step.do})"))


def check_steps(scenario: Scenario) -> None:
    """BadInput on the first step that cannot be built or refers to something that is not there."""
    earlier: dict[str, Kind] = {}
    active: list[str] = []
    for step in scenario.steps:
        kind = build_step(step, f"scenario {scenario.name}: ")
        try:
            _check_step(kind, StepValidation(scenario, earlier), active)
        except BadInput as error:
            raise BadInput(f"scenario {scenario.name}: step {step.name}: {error}") from error
        if isinstance(kind, Heal):
            active.remove(kind.fault)
        if isinstance(kind, Fault) and kind.for_s <= 0:
            active.append(step.name)
        earlier[step.name] = kind


def _check_step(kind: Kind, plan: StepValidation, active: Collection[str]) -> None:
    optional = {entry.name for entry in fields(kind) if entry.default == ""}
    for name, marker, value in marked(kind):
        if value == "" and name in optional:
            continue
        try:
            plan.check(marker, value, internal=kind.internal)
        except BadInput as error:
            raise BadInput(f"{name}: {error}") from error
    kind.validate(plan)
    if isinstance(kind, Heal | WaitEffect):
        _check_active(kind.fault, plan.earlier, active)
    if isinstance(kind, Heal):
        typing.cast(Fault, plan.earlier[kind.fault]).validate_heal(plan)
    if isinstance(kind, Fault) and kind.stops:
        _check_stopped(kind, plan, active)


def needs(scenario: Scenario) -> frozenset[str]:
    """Capabilities that the shape and the steps of a scenario need of a backend."""
    return _of_shape(scenario).union(*(build_step(step).needs for step in scenario.steps))


def _of_shape(scenario: Scenario) -> frozenset[str]:
    disk = scenario.shape.disk
    return frozenset({loop_devices.capability(disk)} if disk else ())


def lacking(scenario: Scenario, capabilities: Collection[str]) -> str | None:
    """What of a scenario, shape or step, a backend of these capabilities cannot do, and why; None = it can all."""
    if missing := _of_shape(scenario) - set(capabilities):
        why = loop_devices.missing().get(min(missing), "this backend has no such disks")
        return f'scenario {scenario.name}: shape: disk = "{scenario.shape.disk}": {why}'
    reasons = ((step, build_step(step).lacks(capabilities)) for step in scenario.steps)
    reported = (f"scenario {scenario.name}: step {step.name}: {reason}" for step, reason in reasons if reason)
    return next(reported, None)


def marked(kind: Kind) -> Iterator[tuple[str, str, Any]]:
    """(argument, marker, value) of the arguments that refer to something; see the markers in base.py."""
    hints = get_type_hints(type(kind), include_extras=True)
    for entry in fields(kind):
        hint_ = hints[entry.name]
        if get_origin(hint_) is Annotated:
            yield entry.name, get_args(hint_)[1], getattr(kind, entry.name)


def is_disturbance(kind: Kind) -> bool:
    """True for steps that count as a fault in the record, and so must bite."""
    return isinstance(kind, Fault) or (isinstance(kind, Action) and kind.disturbs)


def _check_active(fault: str, earlier: Mapping[str, Kind], active: Collection[str]) -> None:
    if not isinstance(earlier[fault], Fault):
        raise BadInput(f"{fault!r} is no fault, there is nothing to heal")
    if fault not in active:
        raise BadInput(f"{fault!r} is healed by then; remove this step or the for_s of that fault")


def _check_stopped(fault: Fault, plan: StepValidation, active: Collection[str]) -> None:
    """A process that is stopped cannot be stopped again: nothing would show that it was."""
    mine = plan.reach(fault.victims()).brokers
    for name in active:
        other = plan.earlier[name]
        if not isinstance(other, Fault) or not other.stops:
            continue
        twice = fault.victims() == f"same({name})" or mine & plan.reach(other.victims()).brokers
        if twice:
            raise BadInput(
                f"{fault.victims()!r} is still stopped by step {name!r} then; heal that before, or name others"
            )

"""Damage to the disk of a broker that is down: recovery must find it, and replication must repair it.

The step expects what Kafka does by design while other replicas are in sync. After an unclean stop, recovery reads and
checks every batch from the recovery point on, truncates the log before the first invalid one, and rebuilds indexes and
producer state (LogLoader, LogSegment.recover); the replica fetches the rest from its leader. After a clean stop a
broker reads nothing: it serves a flipped bit as it is, and notices only files that are missing or that it cannot
parse. A replica that lost its log start offset gets it from its leader (KIP-107).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

from harness.faults.disks.common import (
    NO_EFFECT_DEADLINE_S,
    LogSince,
    await_not_needed,
    not_recovered,
    only_node,
    rejects_disk,
    replica_folder,
)
from harness.faults.nodes.process import How, injection, restart, stop
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import Probe, absent
from harness.faults.steps.step import EffectProof, Fault, Injection, OneBrokerExpr, PartitionExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.targets import place_of
from harness.kafka.admin.client import PartitionState
from harness.kafka.storage import damage as disk
from harness.kafka.storage.log_directory import (
    LEADER_EPOCHS,
    LOG_STARTS,
    RECOVERY_POINTS,
    leader_epochs,
    offset_checkpoint,
)
from harness.model.clock import now_ns
from harness.model.documents.steps import OnlyDiskLost
from harness.model.errors import BadInput
from harness.model.facts import FactKind, Stop
from harness.model.place import Place
from harness.model.scenario.scenario import MANY, Range

What = Literal[
    "flip",
    "torn_tail",
    "index",
    "time_index",
    "leader_epoch_checkpoint",
    "start_offset_checkpoint",
    "producer_snapshot",
    "wiped",
]
By = Literal["flip", "cut"]

BOTH: Final = frozenset({"killed", "cleanly"})
# After which kind of stop a broker notices the damage. After a clean stop it notices only that an index is missing, so
# the index is deleted then.
NOTICED: Final[Mapping[str, frozenset[str]]] = {
    "flip": frozenset({"killed"}),
    "torn_tail": BOTH,
    "index": BOTH,
    "time_index": frozenset({"killed"}),
    "leader_epoch_checkpoint": frozenset({"killed"}),
    "start_offset_checkpoint": BOTH,
    "producer_snapshot": BOTH,
    "wiped": BOTH,
}
# The same for files with one flipped bit, or with only their first half. After a clean stop a broker uses a shorter
# index as it is: reads start further back. A checkpoint that it cannot parse is an I/O error of its log directory
# (CheckpointFileWithFailureHandler), and a broker without another log directory does not start.
NOTICED_BY: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("index", "flip"): frozenset({"killed"}),
    ("index", "cut"): BOTH,
    ("time_index", "flip"): frozenset({"killed"}),
    ("time_index", "cut"): BOTH,
    ("leader_epoch_checkpoint", "flip"): BOTH,
    ("leader_epoch_checkpoint", "cut"): BOTH,
    ("start_offset_checkpoint", "flip"): BOTH,
    ("start_offset_checkpoint", "cut"): BOTH,
    ("producer_snapshot", "flip"): BOTH,
    ("producer_snapshot", "cut"): BOTH,
}
CHECKPOINTS: Final = frozenset({"leader_epoch_checkpoint", "start_offset_checkpoint"})
# Damage that concerns the whole disk, and not one partition.
OF_THE_DISK: Final = frozenset({"start_offset_checkpoint", "wiped"})
# Damage that accepts `segment`.
OF_SEGMENTS: Final = frozenset({"flip", "index", "time_index"})
TAIL_BYTES: Final = 1000
RECOVERED_DEADLINE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Before:
    """The broker's disk before the change; `replica` None = it has none of that partition.

    ends: the log end offsets of its replicas. starts: the log start offsets of those that start within a segment.
    """

    node: int
    directory: Path
    replica: Path | None
    ends: Mapping[Place, int]
    starts: Mapping[Place, int]
    since: LogSince


@dataclass(frozen=True, kw_only=True)
class Damage(Fault):
    """of: the partition of the damaged files. `wiped` has none; `start_offset_checkpoint` is one file of the disk, and
    it must have an entry of that partition.
    segment: which of the segments that recovery reads; the active one, unless it is "oldest".
    by: flips one bit of an index, a checkpoint or a snapshot, or cuts off half of it; else the file is overwritten,
    emptied or deleted. Healing restores a checkpoint that cannot be parsed.
    unnoticed, for negative controls: a bit that flips after a clean stop, which no broker notices.
    alone: records may be lost that are on no other disk, or on no other in-sync replica. With
    `start_offset_checkpoint`, for negative controls: a log start offset that no other replica has.
    """

    do: ClassVar[str] = "damage"
    drawn: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "what": ("torn_tail", "index", "time_index", "leader_epoch_checkpoint", "producer_snapshot", "wiped"),
        "by": (None,),
        "segment": (None,),
    }
    proven_late: ClassVar[bool] = True
    facts: ClassVar[Declares] = (
        Declared(FactKind.STOPPED),
        Declared(FactKind.DISK_DAMAGED),
        Declared(FactKind.COPIES_REBUILT),
        Declared(FactKind.STOPPED, how=Stop.CRASHED),
    )
    summary: ClassVar[str] = "Stops a broker and damages its disk (`what`); healing starts it, so that it must recover."
    proof: ClassVar[str] = (
        "it left the ISR under load or was out of it already, its files changed, its log or its files show that it "
        "noticed, and its replicas are in sync and as long as before"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "terminate", "restart", "disk.read", "disk.write"})
    stops: ClassVar[bool] = True
    node: OneBrokerExpr
    what: What
    of: PartitionExpr = ""
    how: How = "killed"
    by: By | None = None
    segment: Literal["active", "oldest"] | None = None  # the active one
    tail_bytes: Annotated[int | None, Range(1, MANY)] = None  # TAIL_BYTES
    unnoticed: bool = False
    alone: bool = False

    def __post_init__(self) -> None:
        if bool(self.of) == (self.what == "wiped"):
            raise BadInput(f"{self.what} {'concerns the whole disk: leave out' if self.of else 'needs'} `of`")
        if self.by is not None and (self.what, self.by) not in NOTICED_BY:
            raise BadInput(f"by: there is only one way to do {self.what}; leave it out")
        self._check_noticed()
        if self.alone and self.what not in OF_THE_DISK:
            raise BadInput(f"alone: {self.what} does not concern the whole disk; leave it out")
        if self.segment is not None and self.what not in OF_SEGMENTS:
            raise BadInput(f"segment: {self.what} concerns no segment; leave it out")
        if self.tail_bytes is not None and self.what != "torn_tail":
            raise BadInput(f"tail_bytes: {self.what} tears no tail; leave it out")

    def _check_noticed(self) -> None:
        noticed = NOTICED_BY[self.what, self.by] if self.by else NOTICED[self.what]
        if self.unnoticed and self.what != "flip":
            raise BadInput(f"unnoticed: brokers notice {self.what}, only a flip can stay unnoticed; leave it out")
        if self.unnoticed and self.how in noticed:
            raise BadInput(f"unnoticed: after how = {self.how!r} the broker notices it; leave out unnoticed")
        if not self.unnoticed and self.how not in noticed:
            raise BadInput(
                f"how: by design no broker that was stopped with how = {self.how!r} notices {self.what}; "
                f"set how = {min(noticed)!r}"
            )

    @property
    def _refused(self) -> bool:
        """Whether the broker does not start until the file is restored."""
        return self.by is not None and self.what in CHECKPOINTS

    def declared(self) -> Declares:
        # With a checkpoint that it cannot read, it is started once and must end by itself.
        ends = (Declared(FactKind.STOPPED, how=Stop.CRASHED),) if self._refused else ()
        return (
            Declared(FactKind.STOPPED, how=Stop(self.how)),
            Declared(FactKind.DISK_DAMAGED, what=self.what),
            Declared(FactKind.COPIES_REBUILT),
            *ends,
        )

    def validate(self, plan: StepValidation) -> None:
        if self._refused and plan.scenario.shape.log_dirs > 1:
            raise BadInput("by: with another log directory the broker starts without this one; leave out log_dirs")
        if not self.of:
            self._validate_disk(plan)
            return
        place = place_of(self.of)
        topic = plan.topic(place[0])
        if topic.replicas == 1 and not self.alone:
            raise BadInput(f"of: {topic.name} has one replica, and none to recover from; give it replicas = 2 or more")
        if not any(topic.name in producer.topics for producer in plan.scenario.producers):
            raise BadInput(
                f"of: no producer writes to {topic.name}, so the fault has no effect; add it to a producer's topics"
            )
        if not plan.may_hold(self.node, place):
            holders = ", ".join(map(str, sorted(plan.holders(place) or ())))
            raise BadInput(f"node: {self.node} has no replica of {self.of}; name one of {holders}")

    def _validate_disk(self, plan: StepValidation) -> None:
        named = plan.reach(self.node).brokers
        permitted = {(loss.topic, loss.partition) for loss in plan.scenario.allowed_anomalies.exact_losses}
        for topic in plan.scenario.topics:
            places = [(topic.name, p) for p in range(topic.partitions) if topic.replicas == 1]
            only = {place for place in places if named & (plan.holders(place) or frozenset())}
            if (only and not self.alone) or plan.scenario.shape.brokers == 1:
                raise BadInput(
                    f"node: {self.node} may have the only replica of {topic.name}; give it replicas = 2 or more"
                )
            if self.alone and set(places) - permitted:
                raise BadInput(
                    f"alone: records of {topic.name} are lost with the disk; "
                    "state how many in allowed_anomalies.exact_losses"
                )

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        node = only_node(context.nodes(self.node), context.cluster.brokers, "damage")
        place = place_of(self.of) if self.of else None
        concerned = None if self.what in OF_THE_DISK else place
        missed = absent(context, node, lambda state: _concerns(concerned, state))
        only = _only_copies(context, node) if self.alone else {}
        change: disk.Change | None = None
        try:
            stop(context, node, self.how)
            await_not_needed(context, node, concerned, only)
            absence = missed()
            before = _before(context, node, place)
            change = self._change(context, before)
            before = _lost(context, before, only) if change is not None and self.what == "wiped" else before
            reported = change.reported if change else "there was nothing on it to damage"
            refused = (
                self._refused and change is not None and rejects_disk(context, node, before.since, _not_read(change))
            )
            no_effect = self.unnoticed or change is None or not absence.held or refused != self._refused
            injected = injection(context, (node,), self._probe(context, absence, before, change, refused=refused))
            yield replace(
                injected,
                resolved={**injected.resolved, "changed": reported},
                after_heal=True,
                deadline_s=NO_EFFECT_DEADLINE_S if no_effect else RECOVERED_DEADLINE_S,
            )
        finally:
            if self._refused and change is not None:
                context.cluster.kill(node)
                change.undo()
            restart(context, (node,))

    def _change(self, context: StepContext, before: _Before) -> disk.Change | None:
        if self.what == "wiped":
            return _wiped(context, before)
        return None if before.replica is None else self._change_replica(context, before, before.replica)

    def _change_replica(self, context: StepContext, before: _Before, replica: Path) -> disk.Change | None:
        killed, oldest = self.how == "killed", self.segment == "oldest"
        points = offset_checkpoint(before.directory, RECOVERY_POINTS) if killed else {}
        point = points.get(place_of(self.of), 0)
        if self.what == "flip":
            return disk.flip(replica, context.rng, recovery_point=point, oldest=oldest)
        if self.what == "torn_tail":
            return disk.tear(replica, self.tail_bytes or TAIL_BYTES, without_indexes=not killed)
        if self.what == "index" and not killed and self.by is None:
            return disk.remove_index(replica, oldest=oldest)
        if self.what in ("index", "time_index"):
            suffix = disk.INDEX if self.what == "index" else disk.TIME_INDEX
            if self.by is None:
                return disk.garble(replica, suffix, context.rng, recovery_point=point, oldest=oldest)
            return self._changed(disk.beside(replica, suffix, recovery_point=point, oldest=oldest))
        if self.what == "leader_epoch_checkpoint":
            if self.by is None:
                return disk.empty_leader_epochs(replica)
            return self._changed(replica / LEADER_EPOCHS if leader_epochs(replica) else None)
        if self.what == "start_offset_checkpoint":
            if self.by is None:
                return disk.empty_log_starts(before.directory, place_of(self.of))
            return self._changed(before.directory / LOG_STARTS if place_of(self.of) in before.starts else None)
        return disk.spoil_snapshot(replica, recovery_point=point if killed else None, cut_off=self.by == "cut")

    def _changed(self, path: Path | None) -> disk.Change | None:
        if path is None:
            return None
        return disk.flip_first(path) if self.by == "flip" else disk.cut(path)

    def _probe(
        self,
        context: StepContext,
        absence: EffectProof,
        before: _Before,
        change: disk.Change | None,
        *,
        refused: bool = False,
    ) -> Probe:
        """Proof: the absence was noticed, the disk changed, the broker noticed that, and its replicas recovered."""

        def asked() -> EffectProof:
            if not absence.held or change is None:
                nothing = EffectProof(False, "there was nothing on the disk to damage", absence.seen)
                return absence if change else nothing
            seen = {**absence.seen, "changed": change.reported, "file": change.path.name}
            noticed = ("it did not start" if refused else "") if self._refused else self._noticed(before, change)
            if not noticed:
                return EffectProof(
                    False, f"{change.reported}, and nothing shows that broker {before.node} noticed it", seen
                )
            if behind := not_recovered(context, before.node, before.ends):
                return EffectProof(False, f"{change.reported}; {noticed}; not recovered: {behind}", seen)
            return EffectProof(True, f"{change.reported}; {noticed}; its replicas have recovered", seen)

        return asked

    def _noticed(self, before: _Before, change: disk.Change) -> str:
        """The text that says how the broker noticed the damage; "" while nothing shows it."""
        since, replica = before.since, before.replica
        if self.what == "wiped":
            said = since.says("No logs found to be loaded in", str(before.directory))
            return "the broker found no logs" if said else ""
        assert replica is not None
        loaded = since.loaded(replica)
        if self.what in ("flip", "torn_tail"):
            end = before.ends[place_of(self.of)]
            return f"it loaded a log that ends at {loaded[1]}, not at {end}" if loaded and loaded[1] < end else ""
        if self.what == "start_offset_checkpoint":
            start = before.starts.get(place_of(self.of), 0)
            return f"it loaded a log that starts at {loaded[0]}, not at {start}" if loaded and loaded[0] < start else ""
        if self.what == "producer_snapshot":
            said = since.says("Failed to load producer snapshot from", change.path.name)
            return "the broker rejected the snapshot" if said else ""
        if self.by == "cut" and self.what in OF_SEGMENTS and self.how == "cleanly":
            complete = loaded is not None and loaded[1] >= before.ends[place_of(self.of)]
            return "it used the index, and its log ends where it did before" if complete else ""
        if self.what == "index" and self.how == "cleanly":
            log = str(change.path.with_suffix(".log"))
            return "the broker found it missing" if since.says("Could not find offset index file", log) else ""
        rewritten = not change.stands and (self.what != "leader_epoch_checkpoint" or bool(leader_epochs(replica)))
        return "the broker rewrote it" if rewritten else ""


def _not_read(change: disk.Change) -> tuple[str, ...]:
    return ("Error while reading checkpoint file", str(change.path))


def _concerns(place: Place | None, state: PartitionState) -> bool:
    return place in (None, (state.topic, state.partition))


def _before(context: StepContext, node: int, place: Place | None) -> _Before:
    directories = context.cluster.log_directories(node)
    concerned = [place] if place else context.places(())
    folders = {p: folder for p in concerned if (folder := replica_folder(directories, p)) is not None}
    directory = folders[place].parent if place in folders else directories[0]
    return _Before(
        node=node,
        directory=directory,
        replica=folders.get(place) if place else None,
        ends={p: disk.log_end(folder) for p, folder in folders.items()},
        starts=offset_checkpoint(directory, LOG_STARTS),
        since=LogSince(context.cluster.server_log(node)),
    )


def _wiped(context: StepContext, before: _Before) -> disk.Change | None:
    """Replaces the broker's disk by an empty one; None when it had no record of the scenario's topics."""
    if not any(before.ends.values()):
        return None
    context.cluster.wipe(before.node)
    return disk.Change(before.directory, f"an empty disk replaced that of broker {before.node}", None)


def _only_copies(context: StepContext, node: int) -> dict[Place, PartitionState]:
    """Partitions of which no other broker has a replica, or an in-sync one."""
    alone = (node,)
    return {p: state for p, state in context.all_states().items() if alone in (tuple(state.replicas), tuple(state.isr))}


def _lost(context: StepContext, before: _Before, only: Mapping[Place, PartitionState]) -> _Before:
    """`before` without the partitions that are lost with the disk; an event `only_disk_lost` records each."""
    for topic, partition in sorted(only & before.ends.keys()):
        end = before.ends[topic, partition]
        state = only[topic, partition]
        context.record_event(
            OnlyDiskLost(
                topic=topic,
                partition=partition,
                at_ns=now_ns(),
                broker=before.node,
                log_end=end,
                isr=state.isr,
                leader_epoch=state.leader_epoch,
            )
        )
    return replace(before, ends={place: end for place, end in before.ends.items() if place not in only})

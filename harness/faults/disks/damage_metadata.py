"""Damage to the metadata on the disk of a node that is down: about itself, about the cluster, about a replica.

Kafka 4.3.1 behaves as follows, by design. A node does not start without meta.properties, with half of it, with the id
of another node in it, or with a corrupt metadata snapshot: an operator must repair the disk. With the id of another
cluster it runs, but no controller accepts it. A node reads its whole metadata log at every start, also after a clean
stop, truncates it before the first invalid batch, and fetches the rest from the active controller. A replica without
partition.metadata has no topic id: the broker renames it as stray and fetches the partition again from its leader. If
it were the only replica, all records would be lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final, Literal

from harness.faults.controllers import common as controllers
from harness.faults.disks.common import (
    NO_EFFECT_DEADLINE_S,
    LogSince,
    await_not_needed,
    not_recovered,
    rejects_disk,
    replica_folder,
)
from harness.faults.nodes.process import How, injection, restart, stop
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import IDLE, Probe, await_recent_acks, isr_lost, under_load
from harness.faults.steps.step import EffectProof, Fault, Injection, NodesExpr, PartitionExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import BROKERS, CONTROLLERS, StepValidation
from harness.faults.steps.targets import place_of
from harness.kafka.storage import damage as disk
from harness.kafka.storage.log_directory import METADATA_LOG
from harness.model.errors import BadInput
from harness.model.facts import FactKind, Stop
from harness.model.place import Place

What = Literal[
    "meta_properties",
    "meta_properties_cut",
    "node_id",
    "cluster_id",
    "log_flip",
    "log_tear",
    "snapshot",
    "partition_metadata",
]
# The texts that the node logs then: in one line, in this order.
SAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "meta_properties": ("No readable meta.properties files found",),
    # Either the id of the directory was cut, or all that follows it: two errors, in the trace of one function.
    "meta_properties_cut": ("MetaPropertiesEnsemble.verify(",),
    "node_id": ("Stored node id",),
    "cluster_id": ("INCONSISTENT_CLUSTER_ID",),
    "log_flip": (f"[LogLoader partition={METADATA_LOG}", "Corruption found in segment"),
    "log_tear": (f"[LogLoader partition={METADATA_LOG}", "Corruption found in segment"),
    "snapshot": ("Record is corrupt",),
    "partition_metadata": ("marked stray and renamed to",),
}
# After these it does not return by itself, and healing restores the file.
OF_THE_NODE: Final = frozenset({"meta_properties", "meta_properties_cut", "node_id", "cluster_id"})
REFUSED: Final = OF_THE_NODE | {"snapshot"}
# After these it ends by itself when it is started.
ENDS: Final = REFUSED - {"cluster_id"}
TAIL_BYTES: Final = 200
RECOVERED_DEADLINE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Damaged:
    """A node that is down with a damaged disk, and the state that it must recover."""

    node: int
    since: LogSince
    mark: int  # the end of the metadata that was committed without it
    ends: Mapping[Place, int]
    change: disk.Change | None


@dataclass(frozen=True, kw_only=True)
class DamageMetadata(Fault):
    """`of` names the replica of "partition_metadata"."""

    do: ClassVar[str] = "damage_metadata"
    # Damage that a broker notices after either kind of stop.
    drawn: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "node": ("broker(1)", "broker(2)", "broker(3)"),
        "what": ("meta_properties", "meta_properties_cut", "cluster_id", "partition_metadata"),
    }
    proven_late: ClassVar[bool] = True
    facts: ClassVar[Declares] = (
        Declared(FactKind.STOPPED),
        Declared(FactKind.METADATA_DAMAGED),
        Declared(FactKind.COPIES_REBUILT),
        Declared(FactKind.STOPPED, how=Stop.CRASHED),
    )
    summary: ClassVar[str] = (
        "Stops a node and damages metadata on its disk (`what`); healing repairs what an operator must, and starts it."
    )
    proof: ClassVar[str] = (
        "its absence was noticed, its own log shows that it noticed the damage (it did not start, no controller "
        "accepted it, or it truncated its log), and it has the metadata and the records again"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "terminate", "restart", "disk.read", "disk.write"})
    stops: ClassVar[bool] = True
    node: NodesExpr
    what: What
    of: PartitionExpr = ""
    how: How = "killed"

    def __post_init__(self) -> None:
        if bool(self.of) != (self.what == "partition_metadata"):
            raise BadInput(f"{self.what} {'concerns the whole node: leave out' if self.of else 'needs'} `of`")

    def declared(self) -> Declares:
        stopped = Declared(FactKind.STOPPED, how=Stop(self.how))
        damaged = Declared(FactKind.METADATA_DAMAGED, what=self.what)
        # A replica without its partition.metadata is set aside as stray, and the broker fetches another one.
        rebuilt = (Declared(FactKind.COPIES_REBUILT),) if self.what == "partition_metadata" else ()
        # It is started on the damaged disk once, and must end by itself then.
        ends = (Declared(FactKind.STOPPED, how=Stop.CRASHED),) if self.what in ENDS else ()
        return (stopped, damaged, *rebuilt, *ends)

    def validate(self, plan: StepValidation) -> None:
        found = plan.reach(self.node)
        if found.count > 1:
            raise BadInput(f"node: {self.node!r} names {found.count} {found.role}, and this step takes one; name one")
        if found.role == CONTROLLERS:
            controllers.validate(plan)
        if not self.of:
            return
        if found.role != BROKERS:
            raise BadInput(f"node: {self.node!r} names controllers, which have no partitions; name a broker")
        place = place_of(self.of)
        if plan.topic(place[0]).replicas == 1:
            raise BadInput(f"of: {place[0]} has one replica, and none to fetch it from; give it replicas = 2 or more")
        holders = plan.holders(place)
        if found.brokers and holders is not None and not found.brokers & holders:
            raise BadInput(f"node: {self.node} has no replica of {self.of}; name one of {sorted(holders)}")

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        (node,) = context.nodes(self.node)
        place = place_of(self.of) if self.of else None
        absence = self._absence_probe(context, node, place)
        before = context.admin.quorum()
        damaged: _Damaged | None = None
        try:
            stop(context, node, self.how)
            if node in context.cluster.brokers:
                await_not_needed(context, node, place)
            mark = controllers.committed_without(context, node, before, "before its disk is touched")
            missed = absence()
            damaged = self._damage(context, node, place, mark)
            refused = self._refused(context, damaged) if self.what in REFUSED and damaged.change else ""
            reported = damaged.change.reported if damaged.change else "there was nothing to damage"
            injected = injection(context, (node,), self._probe(context, missed, damaged, refused))
            yield replace(
                injected,
                resolved={**injected.resolved, "changed": reported},
                after_heal=True,
                deadline_s=RECOVERED_DEADLINE_S if missed.held and damaged.change else NO_EFFECT_DEADLINE_S,
            )
        finally:
            if damaged is not None and damaged.change is not None and self.what in REFUSED:
                context.cluster.kill(node)
                damaged.change.undo()
            restart(context, (node,))

    def _absence_probe(self, context: StepContext, node: int, place: Place | None) -> Probe:
        if node in context.cluster.brokers:
            led = await_recent_acks(context, lambda s: node in s.isr and place in (None, (s.topic, s.partition)))
            return isr_lost(context, [node], led)
        busy = bool(under_load(context))
        return lambda: EffectProof(busy, "" if busy else IDLE)

    def _damage(self, context: StepContext, node: int, place: Place | None, mark: int) -> _Damaged:
        directories = context.cluster.log_directories(node)
        concerned = [place] if place else context.places(()) if node in context.cluster.brokers else []
        folders = {p: folder for p in concerned if (folder := replica_folder(directories, p)) is not None}
        ends = {p: disk.log_end(folder) for p, folder in folders.items()}
        since = LogSince(context.cluster.server_log(node))
        target = self._target(directories[0], folders.get(place) if place else None)
        filled = target if target is not None and target.is_file() and target.stat().st_size else None
        change = self._change(context, filled) if filled is not None else None
        return _Damaged(node, since, mark, ends, change)

    def _target(self, directory: Path, replica: Path | None) -> Path | None:
        if self.what in OF_THE_NODE:
            return directory / disk.META_PROPERTIES
        if self.what == "partition_metadata":
            return replica / disk.PARTITION_METADATA if replica else None
        if self.what == "snapshot":
            return max((directory / METADATA_LOG).glob("*.checkpoint"), default=None)
        return next(iter(disk.last_written(directory / METADATA_LOG)), None)

    def _change(self, context: StepContext, target: Path) -> disk.Change | None:
        if self.what == "log_flip":
            return disk.flip(target.parent, context.rng, recovery_point=0, oldest=False)
        if self.what == "log_tear":
            return disk.tear(target.parent, TAIL_BYTES, without_indexes=False)
        if self.what == "snapshot":
            return disk.flip_middle(target)
        if self.what == "cluster_id":
            return disk.foreign_cluster(target)
        if self.what == "node_id":
            return disk.foreign_node(target)
        if self.what == "meta_properties_cut":
            return disk.cut(target)
        return disk.remove(target)

    def _refused(self, context: StepContext, damaged: _Damaged) -> str:
        """The text that says how the node failed on the damaged disk; "" when it did not in time."""
        ends = self.what in ENDS
        if not rejects_disk(context, damaged.node, damaged.since, SAYS[self.what], ends=ends):
            return ""
        return "it did not start" if ends else "no controller accepted it"

    def _probe(self, context: StepContext, missed: EffectProof, damaged: _Damaged, refused: str) -> Probe:
        """Proof: the absence was noticed, the disk changed, the node noticed it, and it has caught up again."""

        def asked() -> EffectProof:
            change = damaged.change
            if not missed.held or change is None:
                return missed if change else EffectProof(False, "there was nothing to damage", missed.seen)
            reported, seen = change.reported, {**missed.seen, "changed": change.reported}
            noticed = refused if self.what in REFUSED else self._noticed(damaged)
            if not noticed:
                return EffectProof(False, f"{reported}, and nothing shows that node {damaged.node} noticed it", seen)
            quorum = context.admin.quorum()
            end = {**quorum.observers, **quorum.voters}.get(damaged.node, -1)
            if end < damaged.mark:
                return EffectProof(
                    False, f"{reported}; {noticed}; it has the metadata up to {end} of {damaged.mark}", seen
                )
            if behind := not_recovered(context, damaged.node, damaged.ends):
                return EffectProof(False, f"{reported}; {noticed}; not recovered: {behind}", seen)
            return EffectProof(True, f"{reported}; {noticed}; it has recovered", seen)

        return asked

    def _noticed(self, damaged: _Damaged) -> str:
        if not damaged.since.says(*SAYS[self.what]):
            return ""
        return "its replica was renamed as stray" if self.what == "partition_metadata" else "it truncated its log"

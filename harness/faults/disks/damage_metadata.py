"""What a node knows of itself and of the cluster is damaged on its disk while it is down.

Seen of 4.3.1, and by design. Without meta.properties, with half of it or with another node's id in it, or with a
snapshot of the metadata that is corrupt, a node does not start: somebody has to put right what is on the disk. With
another cluster's id it runs and is let in by nobody. The log of the metadata is read whole at every start, also after
a clean stop, is cut off before the first batch that is wrong, and fetched again from the active controller. A replica
whose partition.metadata is gone cannot tell which topic it is of: it is set aside as stray, and fetched again from its
leader; of an only replica that would be all there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final, Literal

from harness.faults.controllers import common as controllers
from harness.faults.disks.common import LogSince, await_done_without, not_whole, refuses, replica_folder
from harness.faults.nodes.process import How, injection, restart, stop
from harness.faults.steps.effect import IDLE, Probe, await_recent_acks, isr_lost, under_load
from harness.faults.steps.step import EffectProof, Fault, Injection, NodesExpr, PartitionExpr, Place
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import BROKERS, CONTROLLERS, StepValidation
from harness.faults.steps.targets import place_of
from harness.kafka.storage import damage as disk
from harness.kafka.storage.log_directory import METADATA_LOG
from harness.model.errors import BadInput

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
# What its own log says of it then: in one line, in this order.
SAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "meta_properties": ("No readable meta.properties files found",),
    "meta_properties_cut": ("Error: node ID not found in",),
    "node_id": ("Stored node id",),
    "cluster_id": ("INCONSISTENT_CLUSTER_ID",),
    "log_flip": (f"[LogLoader partition={METADATA_LOG}", "Corruption found in segment"),
    "log_tear": (f"[LogLoader partition={METADATA_LOG}", "Corruption found in segment"),
    "snapshot": ("Record is corrupt",),
    "partition_metadata": ("marked stray and renamed to",),
}
# After these it does not come back by itself, and healing puts the right file back.
OF_THE_NODE: Final = frozenset({"meta_properties", "meta_properties_cut", "node_id", "cluster_id"})
REFUSED: Final = OF_THE_NODE | {"snapshot"}
TAIL_BYTES: Final = 200
WHOLE_DEADLINE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Scene:
    """A node that is down, and what it has to come back to."""

    node: int
    since: LogSince
    mark: int  # committed without it
    ends: Mapping[Place, int]
    change: disk.Change | None


@dataclass(frozen=True, kw_only=True)
class DamageMetadata(Fault):
    """Stops a node and damages what it knows of itself or of the cluster (`what`); healing lets it return.

    partition_metadata is of one replica: `of`.
    """

    do: ClassVar[str] = "damage_metadata"
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "terminate", "restart", "disk.read", "disk.write"})
    stops: ClassVar[bool] = True
    node: NodesExpr
    what: What
    of: PartitionExpr = ""
    how: How = "killed"

    def __post_init__(self) -> None:
        if bool(self.of) != (self.what == "partition_metadata"):
            raise BadInput(f"{self.what} {'is of a node: leave out' if self.of else 'needs'} `of`")

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        found = plan.reach(self.node)
        if found.count > 1:
            raise BadInput(f"node: {self.node!r} names {found.count} {found.role}, and this step takes one")
        if found.role == CONTROLLERS:
            controllers.validate(plan)
        if not self.of:
            return
        if found.role != BROKERS:
            raise BadInput(f"node: {self.node!r} names controllers, which have no partitions; name a broker")
        place = place_of(self.of)
        if plan.topic(place[0]).replicas == 1:
            raise BadInput(f"of: {place[0]} has one replica, and none to fetch it from; give it 2 or more")
        holders = plan.holders(place)
        if found.brokers and holders is not None and not found.brokers & holders:
            raise BadInput(f"node: {self.node} has no replica of {self.of}; name one of {sorted(holders)}")

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        (node,) = stage.nodes(self.node)
        place = place_of(self.of) if self.of else None
        felt = self._felt(stage, node, place)
        before = stage.admin.quorum()
        scene: _Scene | None = None
        try:
            stop(stage, node, self.how)
            if node in stage.cluster.brokers:
                await_done_without(stage, node, place)
            mark = controllers.committed_without(stage, node, before, "before its disk is touched")
            missed = felt()
            scene = self._changed(stage, node, place, mark)
            refused = self._refused(stage, scene) if self.what in REFUSED and scene.change else ""
            reported = scene.change.reported if scene.change else "there was nothing to damage"
            injected = injection(stage, (node,), self._probe(stage, missed, scene, refused))
            yield replace(
                injected,
                resolved={**injected.resolved, "changed": reported},
                after_heal=True,
                deadline_s=WHOLE_DEADLINE_S if missed.held and scene.change else 1.0,
            )
        finally:
            if scene is not None and scene.change is not None and self.what in REFUSED:
                stage.cluster.kill(node)
                scene.change.undo()
            restart(stage, (node,))

    def _felt(self, stage: Stage, node: int, place: Place | None) -> Probe:
        if node in stage.cluster.brokers:
            led = await_recent_acks(stage, lambda s: node in s.isr and place in (None, (s.topic, s.partition)))
            return isr_lost(stage, [node], led)
        busy = bool(under_load(stage))
        return lambda: EffectProof(busy, "" if busy else IDLE)

    def _changed(self, stage: Stage, node: int, place: Place | None, mark: int) -> _Scene:
        directories = stage.cluster.log_directories(node)
        concerned = [place] if place else stage.places(()) if node in stage.cluster.brokers else []
        folders = {p: folder for p in concerned if (folder := replica_folder(directories, p)) is not None}
        ends = {p: disk.log_end(folder) for p, folder in folders.items()}
        since = LogSince(stage.cluster.server_log(node))
        target = self._target(directories[0], folders.get(place) if place else None)
        filled = target if target is not None and target.is_file() and target.stat().st_size else None
        change = self._change(stage, filled) if filled is not None else None
        return _Scene(node, since, mark, ends, change)

    def _target(self, directory: Path, replica: Path | None) -> Path | None:
        if self.what in OF_THE_NODE:
            return directory / disk.META_PROPERTIES
        if self.what == "partition_metadata":
            return replica / disk.PARTITION_METADATA if replica else None
        if self.what == "snapshot":
            return max((directory / METADATA_LOG).glob("*.checkpoint"), default=None)
        return next(iter(disk.last_written(directory / METADATA_LOG)), None)

    def _change(self, stage: Stage, target: Path) -> disk.Change | None:
        if self.what == "log_flip":
            return disk.flip(target.parent, stage.rng, recovery_point=0, oldest=False)
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

    def _refused(self, stage: Stage, scene: _Scene) -> str:
        """What shows that it does not come back as it is; "" when nothing did in time."""
        ends = self.what != "cluster_id"
        if not refuses(stage, scene.node, scene.since, SAYS[self.what], ends=ends):
            return ""
        return "it did not start" if ends else "it was let in by nobody"

    def _probe(self, stage: Stage, missed: EffectProof, scene: _Scene, refused: str) -> Probe:
        """It was missed, its disk did change, it noticed, and it has again what the others have."""

        def asked() -> EffectProof:
            if not missed.held or scene.change is None:
                return missed if scene.change else EffectProof(False, "there was nothing to damage", missed.seen)
            reported, seen = scene.change.reported, {**missed.seen, "changed": scene.change.reported}
            noticed = refused if self.what in REFUSED else self._noticed(scene)
            if not noticed:
                return EffectProof(False, f"{reported}, and nothing shows that node {scene.node} noticed", seen)
            quorum = stage.admin.quorum()
            has = {**quorum.observers, **quorum.voters}.get(scene.node, -1)
            if has < scene.mark:
                return EffectProof(
                    False, f"{reported}; {noticed}; it knows the metadata up to {has} of {scene.mark}", seen
                )
            if behind := not_whole(stage, scene.node, scene.ends):
                return EffectProof(False, f"{reported}; {noticed}; not whole again: {behind}", seen)
            return EffectProof(True, f"{reported}; {noticed}; it is whole again", seen)

        return asked

    def _noticed(self, scene: _Scene) -> str:
        if not scene.since.says(*SAYS[self.what]):
            return ""
        return "its replica was set aside" if self.what == "partition_metadata" else "it cut its log off"

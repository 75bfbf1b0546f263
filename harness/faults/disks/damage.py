"""A disk that changes while its broker is down: what recovery has to find, and replication to make good.

What is expected is what Kafka does by design, with other replicas in sync. After an unclean stop recovery reads every
batch from the recovery point on, checks it, cuts the log off before the first that is wrong, and builds indexes and
producer state anew (LogLoader, LogSegment.recover); the replica fetches the rest again. After a clean stop nothing is
read: a flipped bit is served as it is, and only files that are gone or do not parse are noticed. A replica whose log
start is forgotten learns it from its leader (KIP-107).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

from harness.faults.disks.common import (
    HOPELESS_DEADLINE_S,
    LogSince,
    await_done_without,
    not_whole,
    refuses,
    replica_folder,
    the_only,
)
from harness.faults.nodes.process import How, injection, restart, stop
from harness.faults.steps.effect import Probe, await_recent_acks, isr_lost
from harness.faults.steps.step import EffectProof, Fault, Injection, OneBrokerExpr, PartitionExpr, PartitionView, Place
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.targets import place_of
from harness.kafka.storage import damage as disk
from harness.kafka.storage.log_directory import (
    LEADER_EPOCHS,
    LOG_STARTS,
    RECOVERY_POINTS,
    leader_epochs,
    offset_checkpoint,
)
from harness.model.errors import BadInput
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
# After which stop a broker notices. Of an index that a clean stop left behind only its absence (so it is deleted then).
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
# The same of files that have one bit flipped, or half of them cut off. An index that is shorter after a clean stop is
# gone by as it is: whoever reads begins further back. A checkpoint that does not parse is an I/O error of its log
# directory (CheckpointFileWithFailureHandler), and a broker that has no other does not start.
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
# What is of the disk as a whole, and not of one partition.
OF_THE_DISK: Final = frozenset({"start_offset_checkpoint", "wiped"})
# What chooses among the segments of a log.
OF_SEGMENTS: Final = frozenset({"flip", "index", "time_index"})
TAIL_BYTES: Final = 1000
WHOLE_DEADLINE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Scene:
    """What there was before the change; `replica` None = the broker has none of that partition.

    ends: where its copies ended; starts: of those that were to start within a segment.
    """

    node: int
    directory: Path
    replica: Path | None
    ends: Mapping[Place, int]
    starts: Mapping[Place, int]
    since: LogSince


@dataclass(frozen=True, kw_only=True)
class Damage(Fault):
    """Stops a broker, damages what is on its disk (`what`), and lets it return; bitten once its copy is whole again.

    `of` is the partition whose files change; wiped has none, and start_offset_checkpoint is one file of the disk, which
    must have an entry of that partition. `segment` chooses among those that recovery reads. `by` has one bit of an
    index, a checkpoint or a snapshot flipped, or half of it cut off, where it else is overwritten, emptied or deleted;
    a checkpoint that does not parse is put right by healing. `unnoticed` is for negative controls: a bit that flips
    after a clean stop, which no broker looks for. `alone`: what is nowhere else, or nowhere else in sync, is lost
    with a disk that is wiped; with start_offset_checkpoint, which is for negative controls, where a log
    began that nobody else has.
    """

    do: ClassVar[str] = "damage"
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
            raise BadInput(f"{self.what} {'is all of the disk: leave out' if self.of else 'needs'} `of`")
        if self.by is not None and (self.what, self.by) not in NOTICED_BY:
            raise BadInput(f"by: {self.what} is changed in one way only; leave it out")
        self._check_noticed()
        if self.alone and self.what not in OF_THE_DISK:
            raise BadInput(f"alone: {self.what} leaves the rest of the disk; leave it out")
        if self.segment is not None and self.what not in OF_SEGMENTS:
            raise BadInput(f"segment: {self.what} chooses no segment; leave it out")
        if self.tail_bytes is not None and self.what != "torn_tail":
            raise BadInput(f"tail_bytes: {self.what} tears no tail; leave it out")

    def _check_noticed(self) -> None:
        noticed = NOTICED_BY[self.what, self.by] if self.by else NOTICED[self.what]
        if self.unnoticed and self.what != "flip":
            raise BadInput(f"unnoticed: {self.what} cannot be unnoticed, only flip can; leave it out")
        if self.unnoticed and self.how in noticed:
            raise BadInput(f"unnoticed: after how = {self.how!r} the broker does notice it; leave out unnoticed")
        if not self.unnoticed and self.how not in noticed:
            raise BadInput(
                f"how: by design no broker that was stopped with how = {self.how!r} notices {self.what}; "
                f"set how = {min(noticed)!r}"
            )

    @property
    def _refused(self) -> bool:
        """Whether the broker does not come back before the file is put right."""
        return self.by is not None and self.what in CHECKPOINTS

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        if self._refused and plan.scenario.shape.log_dirs > 1:
            raise BadInput("by: with another log directory the broker comes up without this one; leave out log_dirs")
        if not self.of:
            self._foresee_disk(plan)
            return
        place = place_of(self.of)
        topic = plan.topic(place[0])
        if topic.replicas == 1 and not self.alone:
            raise BadInput(f"of: {topic.name} has one replica, and none to make it good from; give it 2 or more")
        if not any(topic.name in producer.topics for producer in plan.scenario.producers):
            raise BadInput(
                f"of: nobody writes to {topic.name}, and so nothing is missed; add it to a producer's topics"
            )
        if not plan.may_hold(self.node, place):
            holders = ", ".join(map(str, sorted(plan.holders(place) or ())))
            raise BadInput(f"node: {self.node} has no replica of {self.of}; name one of {holders}")

    def _foresee_disk(self, plan: StepValidation) -> None:
        named = plan.reach(self.node).brokers
        permitted = {(loss.topic, loss.partition) for loss in plan.scenario.allowed_anomalies.exact_losses}
        for topic in plan.scenario.topics:
            places = [(topic.name, p) for p in range(topic.partitions) if topic.replicas == 1]
            only = {place for place in places if named & (plan.holders(place) or frozenset())}
            if (only and not self.alone) or plan.scenario.shape.brokers == 1:
                raise BadInput(f"node: {self.node} may have the only replica of {topic.name}; give it 2 or more")
            if self.alone and set(places) - permitted:
                raise BadInput(
                    f"alone: how many records of {topic.name} go with it? say so in allowed_anomalies.exact_losses"
                )

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        node = the_only(stage.nodes(self.node), stage.cluster.brokers, "damage")
        place = place_of(self.of) if self.of else None
        concerned = None if self.what in OF_THE_DISK else place
        missed = isr_lost(stage, [node], await_recent_acks(stage, lambda s: node in s.isr and _concerns(concerned, s)))
        only = _only_ones(stage, node) if self.alone else {}
        change: disk.Change | None = None
        try:
            stop(stage, node, self.how)
            await_done_without(stage, node, concerned, only)
            felt = missed()
            scene = _scene(stage, node, place)
            change = self._change(stage, scene)
            scene = _gone(stage, scene, only) if change is not None and self.what == "wiped" else scene
            reported = change.reported if change else "there was nothing on it to damage"
            refused = self._refused and change is not None and refuses(stage, node, scene.since, _not_read(change))
            # Nobody need wait for a bite that cannot come.
            hopeless = self.unnoticed or change is None or not felt.held or refused != self._refused
            injected = injection(stage, (node,), self._probe(stage, felt, scene, change, refused=refused))
            yield replace(
                injected,
                resolved={**injected.resolved, "changed": reported},
                after_heal=True,
                deadline_s=HOPELESS_DEADLINE_S if hopeless else WHOLE_DEADLINE_S,
            )
        finally:
            if self._refused and change is not None:
                stage.cluster.kill(node)
                change.undo()
            restart(stage, (node,))

    def _change(self, stage: Stage, scene: _Scene) -> disk.Change | None:
        if self.what == "wiped":
            return _swapped(stage, scene)
        return None if scene.replica is None else self._change_replica(stage, scene, scene.replica)

    def _change_replica(self, stage: Stage, scene: _Scene, replica: Path) -> disk.Change | None:
        killed, oldest = self.how == "killed", self.segment == "oldest"
        points = offset_checkpoint(scene.directory, RECOVERY_POINTS) if killed else {}
        point = points.get(place_of(self.of), 0)
        if self.what == "flip":
            return disk.flip(replica, stage.rng, recovery_point=point, oldest=oldest)
        if self.what == "torn_tail":
            return disk.tear(replica, self.tail_bytes or TAIL_BYTES, without_indexes=not killed)
        if self.what == "index" and not killed and self.by is None:
            return disk.remove_index(replica, oldest=oldest)
        if self.what in ("index", "time_index"):
            suffix = disk.INDEX if self.what == "index" else disk.TIME_INDEX
            if self.by is None:
                return disk.garble(replica, suffix, stage.rng, recovery_point=point, oldest=oldest)
            return self._changed(disk.beside(replica, suffix, recovery_point=point, oldest=oldest))
        if self.what == "leader_epoch_checkpoint":
            if self.by is None:
                return disk.empty_leader_epochs(replica)
            return self._changed(replica / LEADER_EPOCHS if leader_epochs(replica) else None)
        if self.what == "start_offset_checkpoint":
            if self.by is None:
                return disk.empty_log_starts(scene.directory, place_of(self.of))
            return self._changed(scene.directory / LOG_STARTS if place_of(self.of) in scene.starts else None)
        return disk.spoil_snapshot(replica, recovery_point=point if killed else None, cut_off=self.by == "cut")

    def _changed(self, path: Path | None) -> disk.Change | None:
        if path is None:
            return None
        return disk.flip_first(path) if self.by == "flip" else disk.cut(path)

    def _probe(
        self, stage: Stage, felt: EffectProof, scene: _Scene, change: disk.Change | None, *, refused: bool = False
    ) -> Probe:
        """Its going was missed, its disk did change, it noticed, and its copies are whole again."""

        def asked() -> EffectProof:
            if not felt.held or change is None:
                return felt if change else EffectProof(False, "there was nothing on the disk to damage", felt.seen)
            seen = {**felt.seen, "changed": change.reported, "file": change.path.name}
            noticed = ("it did not start" if refused else "") if self._refused else self._noticed(scene, change)
            if not noticed:
                return EffectProof(
                    False, f"{change.reported}, and nothing shows that broker {scene.node} noticed", seen
                )
            if behind := not_whole(stage, scene.node, scene.ends):
                return EffectProof(False, f"{change.reported}; {noticed}; not whole again: {behind}", seen)
            return EffectProof(True, f"{change.reported}; {noticed}; its copy is whole again", seen)

        return asked

    def _noticed(self, scene: _Scene, change: disk.Change) -> str:
        """What shows that the broker noticed; "" while nothing does."""
        since, replica = scene.since, scene.replica
        if self.what == "wiped":
            said = since.says("No logs found to be loaded in", str(scene.directory))
            return "the broker found no logs" if said else ""
        assert replica is not None
        loaded = since.loaded(replica)
        if self.what in ("flip", "torn_tail"):
            end = scene.ends[place_of(self.of)]
            return f"it loaded a log that ends at {loaded[1]}, not at {end}" if loaded and loaded[1] < end else ""
        if self.what == "start_offset_checkpoint":
            start = scene.starts.get(place_of(self.of), 0)
            return f"it loaded a log that starts at {loaded[0]}, not at {start}" if loaded and loaded[0] < start else ""
        if self.what == "producer_snapshot":
            said = since.says("Failed to load producer snapshot from", change.path.name)
            return "the broker did not believe it" if said else ""
        if self.by == "cut" and self.what in OF_SEGMENTS and self.how == "cleanly":
            whole = loaded is not None and loaded[1] >= scene.ends[place_of(self.of)]
            return "it went by it, and its log ends where it did" if whole else ""
        if self.what == "index" and self.how == "cleanly":
            log = str(change.path.with_suffix(".log"))
            return "the broker missed it" if since.says("Could not find offset index file", log) else ""
        anew = not change.stands and (self.what != "leader_epoch_checkpoint" or bool(leader_epochs(replica)))
        return "the broker wrote it anew" if anew else ""


def _not_read(change: disk.Change) -> tuple[str, ...]:
    return ("Error while reading checkpoint file", str(change.path))


def _concerns(place: Place | None, state: PartitionView) -> bool:
    return place in (None, (state.topic, state.partition))


def _scene(stage: Stage, node: int, place: Place | None) -> _Scene:
    directories = stage.cluster.log_directories(node)
    concerned = [place] if place else stage.places(())
    folders = {p: folder for p in concerned if (folder := replica_folder(directories, p)) is not None}
    directory = folders[place].parent if place in folders else directories[0]
    return _Scene(
        node=node,
        directory=directory,
        replica=folders.get(place) if place else None,
        ends={p: disk.log_end(folder) for p, folder in folders.items()},
        starts=offset_checkpoint(directory, LOG_STARTS),
        since=LogSince(stage.cluster.server_log(node)),
    )


def _swapped(stage: Stage, scene: _Scene) -> disk.Change | None:
    """An empty disk in the place of the broker's; None when there was not one record of the scenario's on it."""
    if not any(scene.ends.values()):
        return None
    stage.cluster.wipe(scene.node)
    return disk.Change(scene.directory, f"the disk of broker {scene.node} was swapped for an empty one", None)


def _only_ones(stage: Stage, node: int) -> dict[Place, PartitionView]:
    """Partitions that nobody else has a replica of, or none that is in sync."""
    alone = (node,)
    return {p: state for p, state in stage.all_states().items() if alone in (tuple(state.replicas), tuple(state.isr))}


def _gone(stage: Stage, scene: _Scene, only: Mapping[Place, PartitionView]) -> _Scene:
    """The scene without partitions that are nowhere any more; an event tells of each."""
    for topic, partition in sorted(only & scene.ends.keys()):
        end = scene.ends[topic, partition]
        state = only[topic, partition]
        stage.record_event(
            "only_disk_lost",
            topic=topic,
            partition=partition,
            broker=scene.node,
            log_end=end,
            isr=list(state.isr),
            leader_epoch=state.leader_epoch,
        )
    return replace(scene, ends={place: end for place, end in scene.ends.items() if place not in only})

"""Shared by the faults of disks: the victim's log from now on, and whether its replicas have recovered."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.clusters.base import Disks
from harness.faults.nodes.process import restart
from harness.faults.steps.effect import Probe
from harness.faults.steps.step import EffectProof
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.waits import INTERNAL_TOPICS, NO_ANSWER, POLL_S
from harness.kafka.admin.client import PartitionState
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.place import Place
from harness.model.waiting import wait_for

NO_EFFECT_DEADLINE_S: Final = 1.0  # for an effect that can no longer come
NOT_NEEDED_DEADLINE_S: Final = 30.0
REFUSED_DEADLINE_S: Final = 30.0
# LogManager and ReplicaManager, when all log directories failed, or that of the metadata log, or before 3.7 any one.
_ENDED: Final = r"(?:Shutdown|Halting) broker because .*\bdirs?\b"
_FAILED: Final = r"ERROR Error while .*LogDirFailureChannel"
_FATAL: Final = ("Encountered fatal fault:", "raft IO thread")
# LogManager prints it when it has loaded a log; all releases from 3.x on.
_LOADED: Final = r"Completed load of Log\(dir={replica},.*?logStartOffset=(\d+), logEndOffset=(\d+)\)"


@dataclass(slots=True)
class LogSince:
    """The lines that a log gains after this object was created; each call reads only the new ones."""

    path: Path
    text: str = ""
    _position: int = field(init=False)

    def __post_init__(self) -> None:
        self._position = self.path.stat().st_size if self.path.exists() else 0

    def find(self, pattern: str) -> re.Match[str] | None:
        """The first match in all lines since the object was created."""
        if self.path.exists():
            with self.path.open("rb") as log:
                log.seek(self._position)
                new = log.read()
            self._position += len(new)
            self.text += new.decode("utf-8", "replace")
        return re.search(pattern, self.text)

    def says(self, *texts: str) -> bool:
        """Whether one line has all of the texts, in this order."""
        return self.find(".*".join(map(re.escape, texts))) is not None

    def loaded(self, replica: Path) -> tuple[int, int] | None:
        """(log start, log end) of a replica when the broker had loaded its log; None before that."""
        match = self.find(_LOADED.format(replica=re.escape(str(replica))))
        return (int(match[1]), int(match[2])) if match else None


def require_own_disks(plan: StepValidation, what: str) -> None:
    """BadInput when the brokers have no disks of their own: the disk of the machine must not be broken."""
    if not plan.scenario.shape.disk:
        raise BadInput(f'{what} needs disks that only the brokers use; set disk = "xfs" or "ext4" in [shape]')


def disks_of(context: StepContext) -> Disks:
    """The brokers' own disks; BadInput when they have none."""
    if context.cluster.disks is None:
        raise BadInput(
            "the brokers of this cluster are on the machine's disk, which must not be broken; set disk in [shape]"
        )
    return context.cluster.disks


def remount_and_start(context: StepContext, nodes: Iterable[int]) -> None:
    """Stops the brokers with broken disks, mounts these disks again, and starts all brokers that are down."""
    nodes, disks = tuple(nodes), disks_of(context)
    for node in nodes:
        broken = [path for path in context.cluster.log_directories(node) if not disks.usable(path)]
        if broken:
            context.cluster.kill(node)
        for directory in broken:
            disks.remount(directory)
    restart(context, nodes)


def ended_by_disk(context: StepContext, node: int, since: LogSince, missed: Probe) -> Probe:
    """Proof: the broker ended, its log says that its disk is why, and the cluster noticed its absence (`missed`)."""

    def asked() -> EffectProof:
        gone = not context.cluster.running(node)
        said = gone and _of_disk(since)
        seen: Mapping[str, object] = {"gone": gone, "said_why": said}
        if not gone:
            return EffectProof(False, f"broker {node} still runs: none of its writes was refused", {**seen})
        if not said:
            return EffectProof(False, f"broker {node} ended, but not because of its log directory", {**seen})
        effect = missed()
        because = f"broker {node} took its log directory offline and ended; {effect.because}"
        return EffectProof(effect.held, because, {**effect.seen, **seen})

    return asked


def _of_disk(since: LogSince) -> bool:
    """Its log directories went offline; or the thread of the metadata log got the error first, and ended the broker."""
    return since.find(_ENDED) is not None or (since.find(_FAILED) is not None and since.says(*_FATAL))


def only_node(nodes: Sequence[int], among: Collection[int], what: str) -> int:
    """The node of a fault that takes one node; BadInput for several nodes, or for one that is not in `among`."""
    if len(nodes) != 1 or nodes[0] not in among:
        raise BadInput(
            f"{what} takes one of the nodes {', '.join(map(str, among))}, not {', '.join(map(str, nodes))}; name one"
        )
    return nodes[0]


def await_not_needed(context: StepContext, node: int, place: Place | None, but: Collection[Place] = ()) -> None:
    """Waits until no partition needs a broker that is down: it has left the ISR and the ELR.

    Checks `place`, or all partitions except `but`. HarnessTimeout when it takes too long. A replica that counts as in
    sync may have the only copy of acknowledged records: damage to its disk loses them by design, which is no defect of
    the release.
    """
    topics = [place[0]] if place else [*(t.name for t in context.topics), *INTERNAL_TOPICS]
    wanted = {place} if place else set(context.places(()))

    def needed() -> dict[str, str]:
        states = {(s.topic, s.partition): s for s in context.admin.partitions(topics)}
        held = {p: reason for p, s in states.items() if (place in (None, p)) and (reason := _needs(s, node))}
        held |= dict.fromkeys(wanted - states.keys(), NO_ANSWER)
        return {f"{t}/{p}": reason for (t, p), reason in sorted(held.items())[:5] if (t, p) not in but}

    wait_for(
        needed,
        until=lambda left: not left,
        deadline_s=NOT_NEEDED_DEADLINE_S,
        what=f"broker {node} to leave every ISR and ELR before its disk is damaged",
        interval_s=POLL_S,
    )


def not_recovered(context: StepContext, node: int, ends: Mapping[Place, int]) -> dict[str, str]:
    """Partitions with a replica on a broker that is out of sync or ends below its former end; empty if none."""
    states = context.states(list(ends))
    offsets = context.admin.replica_offsets(sorted({topic for topic, _ in ends}))
    behind = {}
    for (topic, partition), end in ends.items():
        state, (_, now) = states.get((topic, partition)), offsets.get((topic, partition, node), (0, -1))
        if state is None or node not in state.isr:
            behind[f"{topic}/{partition}"] = f"broker {node} is not in sync"
        elif now < end:
            behind[f"{topic}/{partition}"] = f"the log of broker {node} ends at {now}, and ended at {end} before"
    return behind


def rejects_disk(context: StepContext, node: int, since: LogSince, said: Sequence[str], *, ends: bool = True) -> bool:
    """Starts a node on a disk that it cannot use; True when it logs `said` in one line in time, and ends, or with
    `ends` = False runs on."""
    context.cluster.start(node)
    if ends:
        context.cluster.let_end(node)
    try:
        wait_for(
            lambda: (context.cluster.running(node), since.says(*said)),
            until=lambda seen: seen == (not ends, True),
            deadline_s=REFUSED_DEADLINE_S,
            what=f"node {node} to log {said[0]!r}" + (" and to end" if ends else ""),
            interval_s=POLL_S,
        )
    except HarnessTimeout:
        return False
    return True


def replica_folder(directories: Iterable[Path], place: Place) -> Path | None:
    """The folder of a broker's replica of a partition; None when it has none."""
    folders = (directory / f"{place[0]}-{place[1]}" for directory in directories)
    return next((folder for folder in folders if folder.is_dir()), None)


def _needs(state: PartitionState, node: int) -> str | None:
    if node not in state.replicas:
        return None
    if node in state.isr or node in state.elr:
        return f"ISR {sorted(state.isr)}, ELR {sorted(state.elr)}"
    return "no leader" if state.leader in (-1, node) else None

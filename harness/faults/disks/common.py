"""What the faults of disks share: one victim, what its log says since, and whether its copies are whole again."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.faults.nodes.process import restart
from harness.faults.steps.effect import Probe
from harness.faults.steps.step import DisksView, EffectProof, PartitionView, Place
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.waits import INTERNAL_TOPICS, POLL_S
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.waiting import wait_for

HOPELESS_DEADLINE_S: Final = 1.0  # nobody need wait for a bite that cannot come
GONE_DEADLINE_S: Final = 30.0
REFUSED_DEADLINE_S: Final = 30.0
# LogManager and ReplicaManager, of all log directories, of that of the metadata, or before 3.7 of any.
_ENDED: Final = r"(?:Shutdown|Halting) broker because .*\bdirs?\b"
_FAILED: Final = r"ERROR Error while .*LogDirFailureChannel"
_FATAL: Final = ("Encountered fatal fault:", "raft IO thread")
# LogManager, when a log was loaded; all releases from 3.x on.
_LOADED: Final = r"Completed load of Log\(dir={replica},.*?logStartOffset=(\d+), logEndOffset=(\d+)\)"


@dataclass(slots=True)
class LogSince:
    """What a server log gained after this was made; each look reads only what is new."""

    path: Path
    text: str = ""
    _position: int = field(init=False)

    def __post_init__(self) -> None:
        self._position = self.path.stat().st_size if self.path.exists() else 0

    def find(self, pattern: str) -> re.Match[str] | None:
        """The first match, over what was gained so far."""
        if self.path.exists():
            with self.path.open("rb") as log:
                log.seek(self._position)
                new = log.read()
            self._position += len(new)
            self.text += new.decode("utf-8", "replace")
        return re.search(pattern, self.text)

    def says(self, *texts: str) -> bool:
        """Whether some line has all of the texts, in this order."""
        return self.find(".*".join(map(re.escape, texts))) is not None

    def loaded(self, replica: Path) -> tuple[int, int] | None:
        """Where the log of a replica started and ended when the broker had loaded it; None before that."""
        match = self.find(_LOADED.format(replica=re.escape(str(replica))))
        return (int(match[1]), int(match[2])) if match else None


def foresee_own_disks(plan: StepValidation, what: str) -> None:
    """BadInput where brokers have no disk that can be broken without breaking the machine's."""
    if not plan.scenario.shape.disk:
        raise BadInput(f'{what} breaks disks of the brokers\' own: set disk = "xfs" or "ext4" in [shape]')


def disks_of(stage: Stage) -> DisksView:
    """BadInput where the brokers of this cluster have no disks of their own."""
    if stage.cluster.disks is None:
        raise BadInput("the brokers of this cluster share the machine's disk, which must not be broken")
    return stage.cluster.disks


def mend(stage: Stage, nodes: Iterable[int]) -> None:
    """Brokers whose disks take no more files are stopped, their disks mounted again, and all started that are down."""
    nodes, disks = tuple(nodes), disks_of(stage)
    for node in nodes:
        broken = [path for path in stage.cluster.log_directories(node) if not disks.usable(path)]
        if broken:
            stage.cluster.kill(node)
        for directory in broken:
            disks.remount(directory)
    restart(stage, nodes)


def ended_of_disk(stage: Stage, node: int, since: LogSince, missed: Probe) -> Probe:
    """The broker is gone, said that it was its disk, and was missed."""

    def asked() -> EffectProof:
        gone = not stage.cluster.running(node)
        said = gone and _of_disk(since)
        seen: Mapping[str, object] = {"gone": gone, "said_why": said}
        if not gone:
            return EffectProof(False, f"broker {node} runs on: nothing that it wrote was refused", {**seen})
        if not said:
            return EffectProof(False, f"broker {node} ended, and not because of its log directory", {**seen})
        effect = missed()
        return EffectProof(
            effect.held, f"broker {node} gave its log directory up and ended; {effect.because}", {**effect.seen, **seen}
        )

    return asked


def _of_disk(since: LogSince) -> bool:
    """It gave its directories up; or the thread of the metadata log met the same error first, and ended it."""
    return since.find(_ENDED) is not None or (since.find(_FAILED) is not None and since.says(*_FATAL))


def the_only(nodes: Sequence[int], among: Collection[int], what: str) -> int:
    """The node that a fault of one node means; BadInput when there are several, or it is none of `among`."""
    if len(nodes) != 1 or nodes[0] not in among:
        raise BadInput(f"{what} takes one of {', '.join(map(str, among))} at a time, not {', '.join(map(str, nodes))}")
    return nodes[0]


def await_done_without(stage: Stage, node: int, place: Place | None, but: Collection[Place] = ()) -> None:
    """Until `place`, or every partition there is `but` some, can do without a broker that is down: out of the ISR, and
    of the ELR.

    HarnessTimeout where it cannot. The disk of a replica that counts as in sync may hold the only copy of what was
    acknowledged: who damages that loses records by design, and no release is to blame.
    """
    topics = [place[0]] if place else [*(t.name for t in stage.topics), *INTERNAL_TOPICS]
    wanted = {place} if place else set(stage.places(()))

    def needed() -> dict[str, str]:
        states = {(s.topic, s.partition): s for s in stage.admin.partitions(topics)}
        held = {p: reason for p, s in states.items() if (place in (None, p)) and (reason := _needs(s, node))}
        held |= dict.fromkeys(wanted - states.keys(), "nobody answers")
        return {f"{t}/{p}": reason for (t, p), reason in sorted(held.items())[:5] if (t, p) not in but}

    wait_for(
        needed,
        until=lambda left: not left,
        deadline_s=GONE_DEADLINE_S,
        what=f"the others to do without broker {node}, before its disk is touched",
        interval_s=POLL_S,
    )


def not_whole(stage: Stage, node: int, ends: Mapping[Place, int]) -> dict[str, str]:
    """Partitions whose copy on a broker is out of sync, or ends below where it had ended; empty when all are whole."""
    states = stage.states(list(ends))
    offsets = stage.admin.replica_offsets(sorted({topic for topic, _ in ends}))
    behind = {}
    for (topic, partition), end in ends.items():
        state, (_, now) = states.get((topic, partition)), offsets.get((topic, partition, node), (0, -1))
        if state is None or node not in state.isr:
            behind[f"{topic}/{partition}"] = f"broker {node} is not in sync"
        elif now < end:
            behind[f"{topic}/{partition}"] = f"the log of broker {node} ends at {now}, it had ended at {end}"
    return behind


def refuses(stage: Stage, node: int, since: LogSince, said: Sequence[str], *, ends: bool = True) -> bool:
    """Starts a node on a disk that it cannot use: whether it says `said` in one line in time, and ends, or runs on."""
    stage.cluster.start(node)
    try:
        wait_for(
            lambda: (stage.cluster.running(node), since.says(*said)),
            until=lambda seen: seen == (not ends, True),
            deadline_s=REFUSED_DEADLINE_S,
            what=f"node {node} to say {said[0]!r}" + (" and to end" if ends else ""),
            interval_s=POLL_S,
        )
    except HarnessTimeout:
        return False
    return True


def replica_folder(directories: Iterable[Path], place: Place) -> Path | None:
    """Where a broker keeps its replica of a partition; None when it has none."""
    folders = (directory / f"{place[0]}-{place[1]}" for directory in directories)
    return next((folder for folder in folders if folder.is_dir()), None)


def _needs(state: PartitionView, node: int) -> str | None:
    if node not in state.replicas:
        return None
    if node in state.isr or node in state.elr:
        return f"ISR {sorted(state.isr)}, ELR {sorted(state.elr)}"
    return "no leader" if state.leader in (-1, node) else None

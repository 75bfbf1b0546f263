"""What a step of a scenario is, what it sees, and what it hands back.

A fault is a context manager: inside it the cluster is broken, on leaving it is whole again whatever happened, and its
`Injection` tells whether it bit. An action is done when it returns. Arguments are the fields of the dataclass, so a
scenario file that names an argument nobody declared is refused when it is loaded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol

from harness.model.link import Break, CutMode, Direction
from harness.model.outcome import TxnOutcome
from harness.model.scenario import Seconds

# Markers by which the registry checks that an argument refers to something that is there.
NodesExpr = Annotated[str, "nodes"]  # see targets.py
BrokersExpr = Annotated[str, "brokers"]  # an expression of nodes that are brokers
OneBrokerExpr = Annotated[str, "one broker"]
ControllersExpr = Annotated[str, "controllers"]
OneControllerExpr = Annotated[str, "one controller"]
PartitionExpr = Annotated[str, "partition"]  # "topic/0"
PartitionsExpr = Annotated[tuple[str, ...], "partitions"]  # "topic/0", "topic/*"; empty = every topic's
StepRef = Annotated[str, "step"]  # the name of an earlier step
FaultRef = Annotated[str, "fault"]  # the name of an earlier step that chose nodes and broke them
TopicRef = Annotated[str, "topic"]
ProducerRef = Annotated[str, "producer"]
GroupRef = Annotated[str, "group"]

Place = tuple[str, int]  # topic, partition

# Capabilities that a backend may lack for a reason that its user would not guess.
_WHY_NOT = {"disk.full": "the limits of a container's process are the engine's to set; use --backend processes"}


class LinksView(Protocol):
    """Directed links; parties are "b1", "c101", "client". Named by who opens the connection."""

    def cut(self, src: str, dst: str, mode: CutMode, direction: Direction = "both") -> None: ...
    def slow(
        self,
        src: str,
        dst: str,
        latency_ms: int = 0,
        jitter_ms: int = 0,
        rate_kb_s: int | None = None,
        direction: Direction = "both",
    ) -> None: ...
    def divert(self, src: str, dst: str) -> None: ...
    def hop(self, src: str, dst: str) -> tuple[str, str]: ...
    def heal(self, src: str, dst: str, what: Break | None = None) -> None: ...


class ClusterView(Protocol):
    """What a fault needs of a cluster; `harness.clusters` has the whole."""

    @property
    def capabilities(self) -> frozenset[str]: ...
    @property
    def brokers(self) -> tuple[int, ...]: ...
    @property
    def controllers(self) -> tuple[int, ...]: ...
    @property
    def links(self) -> LinksView: ...

    def kill(self, *nodes: int) -> None: ...
    def terminate(self, node: int, deadline_s: float = 30) -> None: ...
    def pause(self, *nodes: int) -> None: ...
    def resume(self, *nodes: int) -> None: ...
    def start(self, *nodes: int) -> None: ...
    def running(self, node: int) -> bool: ...
    def wait_started(self, node: int, deadline_s: float) -> None: ...
    def log_directories(self, node: int) -> tuple[Path, ...]: ...
    def server_log(self, node: int) -> Path: ...
    def wipe(self, node: int) -> None: ...
    def limit_file_size(self, node: int, size_bytes: int | None) -> None: ...


class PartitionView(Protocol):
    """One partition as the most recent leader epoch has it; leader -1 = none."""

    @property
    def topic(self) -> str: ...
    @property
    def topic_id(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def leader(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def isr(self) -> Sequence[int]: ...
    @property
    def replicas(self) -> Sequence[int]: ...
    @property
    def elr(self) -> Sequence[int]: ...


class AdminView(Protocol):
    """What steps ask of `harness.kafka.admin.AdminView`, past every fault."""

    def leave_alone(self, brokers: Iterable[int]) -> None: ...
    def ask_again(self, brokers: Iterable[int]) -> None: ...
    def partitions(self, topics: Sequence[str]) -> Sequence[PartitionView]: ...
    def replica_offsets(self, topics: Sequence[str]) -> Mapping[tuple[str, int, int], tuple[int, int]]: ...
    def elect_leaders(self, kind: str, partitions: Sequence[Place]) -> Any: ...
    def reassign(self, assignment: Mapping[Place, Sequence[int]]) -> None: ...
    def reassignments(self) -> Any: ...
    def delete_records(self, before: Mapping[Place, int]) -> Any: ...
    def alter_topic_config(self, topic: str, config: Mapping[str, str]) -> None: ...
    def coordinator(self, kind: str, key: str) -> int: ...
    def active_controller(self) -> int: ...
    def features(self) -> Mapping[str, int]: ...
    def quorum(self, deadline_s: float = 20.0) -> Any: ...


class LoadView(Protocol):
    """What steps ask of the running load."""

    def burst(self, producer: str, topic: str, partition: int, records: int, deadline_s: float) -> Any: ...
    def end_transaction(self, producer: str, *, commit: bool, deadline_s: float) -> TxnOutcome: ...
    def produced_acks(self, topic: str, partition: int, since_ns: int) -> int: ...
    def last_ack_ns(self, topic: str, partition: int) -> int | None: ...
    def retries(self) -> int: ...
    def unknown(self) -> int: ...
    def commits(self, group: str) -> int: ...
    def highest_acked(self) -> Mapping[Place, int]: ...


@dataclass(frozen=True, slots=True)
class Bite:
    """Proof, or its absence, that a fault did something to the data path."""

    held: bool
    because: str
    seen: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {"held": self.held, "because": self.because, "seen": self.seen}


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """What is broken now. `probe` is cheap and may be asked often; after_heal = it can only show once healed."""

    resolved: dict[str, Any]
    probe: Callable[[], Bite]
    nodes: tuple[int, ...] = ()  # victims, for `same(step)`
    after_heal: bool = False
    deadline_s: float = 20.0  # the longest that healing is put off for a bite


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What an action did; `bite` only for actions that disturb the data path.

    idle: it found done what it is for, and disturbed nothing; then it is no fault in the record and need not bite.
    """

    resolved: dict[str, Any] = field(default_factory=dict)
    bite: Bite | None = None
    idle: bool = False


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of step. Its docstring's first line is what `durability list faults` prints."""

    do: ClassVar[str] = ""
    needs: ClassVar[frozenset[str]] = frozenset()  # capabilities of the backend

    def foresee(self, plan: Any) -> None:
        """BadInput when it can be known at load that it will fail or never bite. `plan` is a foresight.Foresight."""

    @classmethod
    def lacks(cls, capabilities: Collection[str]) -> str | None:
        """Why this cannot be done by a backend of these capabilities; None = it can."""
        missing = sorted(cls.needs - set(capabilities))
        if not missing:
            return None
        why = "; ".join(_WHY_NOT[capability] for capability in missing if capability in _WHY_NOT)
        return f"{cls.do} needs {', '.join(missing)}, which this backend has not" + (f" ({why})" if why else "")


@dataclass(frozen=True, kw_only=True)
class Fault(Kind, ABC):
    """Breaks something until healed: by a later `heal` step, after `for_s` seconds, or at the end of the steps."""

    stops: ClassVar[bool] = False  # the process of a node, which can be stopped only once
    for_s: Seconds = 0.0  # > 0: held so long within this very step, then healed

    def victims(self) -> str:
        """The expression of the nodes that it chooses, for `same(step)`."""
        return str(getattr(self, "node", ""))

    def foresee_heal(self, plan: Any) -> None:
        """BadInput when it may not be healed just there. `plan` is a foresight.Foresight of the step that heals it."""

    @abstractmethod
    def active(self, stage: Any) -> AbstractContextManager[Injection]:
        """Broken inside, whole outside. `stage` is a faults.stage.Stage."""


@dataclass(frozen=True, kw_only=True)
class Action(Kind, ABC):
    """Done when it returns: an operation of the admin's, a burst of records, a wait."""

    disturbs: ClassVar[bool] = False  # counts as a fault in the record, and so must bite

    @abstractmethod
    def perform(self, stage: Any) -> Done:
        """HarnessTimeout when the cluster does not follow within the bound."""

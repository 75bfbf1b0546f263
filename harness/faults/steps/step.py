"""The kinds of steps that a scenario is made of: faults, actions and waits.

A fault is a context manager: inside it the cluster is broken, and on leaving it the cluster is healed, whatever
happened. Its `Injection` can prove that the fault had an effect. An action is done when `perform` returns. The
arguments of a step in a scenario file are the fields of the dataclass, so that an unknown argument is refused when the
file is loaded. A class with a `do` of its own is a kind of step: it registers itself when its module is imported.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from harness.clusters import choosing
from harness.faults.steps.declared_facts import Declares
from harness.faults.steps.step_context import StepContext
from harness.model.documents.steps import Effect
from harness.model.facts import OBSERVED, FactKind
from harness.model.scenario.scenario import Scenario, Seconds

if TYPE_CHECKING:
    from harness.faults.steps.step_validation import StepValidation

# Markers that tell the validation of a scenario what an argument refers to.
NodesExpr = Annotated[str, "nodes"]  # an expression of nodes, see targets.py
BrokersExpr = Annotated[str, "brokers"]  # an expression of nodes that are brokers
OneBrokerExpr = Annotated[str, "one broker"]
BrokerIds = Annotated[tuple[int, ...], "broker ids"]
ControllersExpr = Annotated[str, "controllers"]
OneControllerExpr = Annotated[str, "one controller"]
PartitionExpr = Annotated[str, "partition"]  # "topic/0"
PartitionsExpr = Annotated[tuple[str, ...], "partitions"]  # "topic/0", "topic/*"; empty = every partition of the load
StepRef = Annotated[str, "step"]  # the name of an earlier step
FaultRef = Annotated[str, "fault"]  # the name of an earlier step that chose nodes and broke them
TopicRef = Annotated[str, "topic"]
ProducerRef = Annotated[str, "producer"]
GroupRef = Annotated[str, "group"]
ReaderRef = Annotated[str, "reader"]
AdminRef = Annotated[str, "admin"]


# What steps do to links, as `Kind.breaks` says it.
CUTS: Final = "cut"
SLOWS: Final = "slow"
OF_CLIENTS: Final = "clients"

# Capabilities that a backend may lack for a reason that its user would not guess.
WHY_NOT = {
    "disk.full": "the engine sets the limits of a container's process; use --backend processes",
    "agent": "only the local processes of --backend processes load an agent that the harness reaches",
    "memory.limit": "nothing limits the memory of a single process; use --backend containers",
}


@dataclass(frozen=True, slots=True)
class EffectProof:
    """The proof that a fault changed something on the data path (`held`), or the reason why there is none."""

    held: bool
    because: str
    seen: Mapping[str, object] = field(default_factory=dict)

    @property
    def recorded(self) -> Effect:
        """The effect of the step, as steps.json has it."""
        return Effect(held=self.held, because=self.because, seen=self.seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """A fault that is active. `probe` is cheap and may be called often."""

    resolved: Mapping[str, object]
    probe: Callable[[], EffectProof]
    nodes: tuple[int, ...] = ()  # the victims, for `same(step)`
    # Of a fault that stops nodes later, if at all: between which two times each of them ended, as far as it is known.
    ended: Callable[[], Mapping[int, tuple[int, int | None]]] | None = None
    after_heal: bool = False  # the effect can be proven only after the fault is healed
    deadline_s: float = 20.0  # how long the healing waits for the proof of an effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of an action. `effect` is needed only from actions that disturb the data path.

    idle: the cluster was already in the state that the action is for, so it disturbed nothing and needs no effect.
    """

    resolved: Mapping[str, object] = field(default_factory=dict)
    effect: EffectProof | None = None
    idle: bool = False


_REGISTERED: dict[str, type[Kind]] = {}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of step. `summary` and `proof` are printed by `durability list faults` and in CATALOGUE.md."""

    do: ClassVar[str] = ""  # its word in scenario files
    summary: ClassVar[str] = ""  # one full sentence: what it breaks or does
    proof: ClassVar[str] = ""  # of faults and disturbing actions: what proves that it had an effect
    needs: ClassVar[frozenset[str]] = frozenset()  # capabilities of the backend
    internal: ClassVar[bool] = False  # also accepts Kafka's internal topics, which no producer writes to
    # Settings of brokers: an interval in ms each, after which they do what the step waits for at the latest.
    relies_on: ClassVar[frozenset[str]] = frozenset()
    # All that the verifier knows of a step of this kind. There is no default: a step that changes nothing says so.
    facts: ClassVar[Declares]
    # For generated scenarios (harness.chaos): values of arguments whose type does not name them; facts of which an
    # earlier step must have one, or this one would have no effect; and why none of them uses this kind ("" = they do).
    drawn: ClassVar[Mapping[str, tuple[object, ...]]] = {}
    follows: ClassVar[frozenset[FactKind]] = frozenset()
    by_hand: ClassVar[str] = ""
    needs_every_node: ClassVar[bool] = False  # generated scenarios do not use it while nodes are away

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        do = cls.__dict__.get("do", "")
        if do in _REGISTERED:
            raise TypeError(f"two kinds of steps are called {do!r}: {_REGISTERED[do].__module__} and {cls.__module__}")
        if do:  # a class without a word of its own is a base of kinds
            _check_facts(cls, do)
            _REGISTERED[do] = cls

    @classmethod
    def drawn_in(
        cls,
        scenario: Scenario,  # noqa: ARG003 - the interface of kinds
        chosen: Mapping[str, object],  # noqa: ARG003
    ) -> Mapping[str, tuple[object, ...]]:
        """`drawn`, with those values that fit a scenario and the arguments before them, which are `chosen`."""
        return cls.drawn

    def declared(self) -> Declares:
        """The facts of this step, where they depend on its arguments; of the kinds in `facts`, and of no others."""
        return self.facts

    def validate(self, plan: StepValidation) -> None:
        """Raises BadInput when the scenario alone shows that the step would fail or have no effect."""

    def breaks(self) -> frozenset[str]:
        """What it does to links: CUTS, SLOWS, and OF_CLIENTS if links of clients are among them."""
        return frozenset()

    def shared(self) -> str:
        """What it changes of a cluster beside the scenario's topics and groups, and does not restore; "" = nothing."""
        return ""

    @classmethod
    def lacks(cls, capabilities: Collection[str]) -> str | None:
        """Why a backend with these capabilities cannot run this kind; None = it can."""
        missing = sorted(cls.needs - set(capabilities))
        if not missing:
            return None
        reasons = {**WHY_NOT, **choosing.missing()}
        why = "; ".join(reasons[capability] for capability in missing if capability in reasons)
        return f"{cls.do} needs {', '.join(missing)}, which this backend does not have" + (f" ({why})" if why else "")


def _check_facts(cls: type[Kind], do: str) -> None:
    """TypeError for a kind that does not say what it does: no excuse would know of it."""
    facts = getattr(cls, "facts", None)
    if facts is None:
        raise TypeError(f"{do} in {cls.__module__} declares no facts; declare what it does, or facts = NOTHING")
    if is_disturbance(cls) and all(fact.kind in OBSERVED for fact in facts):
        raise TypeError(f"{do} in {cls.__module__} disturbs a cluster, and its facts say that it changes nothing")


def registered() -> Mapping[str, type[Kind]]:
    """Every kind of step in an imported module, by its word."""
    return _REGISTERED


def unregister(package: str) -> None:
    """Forgets the kinds that modules of a package declared, which are no longer used."""
    for do, kind in list(_REGISTERED.items()):
        if kind.__module__.startswith(f"{package}."):
            del _REGISTERED[do]


@dataclass(frozen=True, kw_only=True)
class Fault(Kind, ABC):
    """Breaks something until it is healed: by a `heal` step, after `for_s` seconds, or after the last step."""

    only_victims: ClassVar[bool] = True  # False: it also breaks nodes that `victims` does not name
    stops: ClassVar[bool] = False  # it stops processes; a stopped process cannot be stopped again
    diverts: ClassVar[bool] = False  # clients reach its nodes through it; each node has room for one such fault
    proven_late: ClassVar[bool] = False  # its effect can be proven only after it is healed
    for_s: Seconds = 0.0  # > 0: the step keeps the fault active for so long, and heals it

    def victims(self) -> str:
        """The expression of the nodes that it breaks, for `same(step)`; "" when it breaks no node."""
        return str(getattr(self, "node", ""))

    def keeps_stopped(self) -> bool:
        """Whether it stops processes in this step, where that depends on its arguments."""
        return self.stops

    def validate_heal(self, plan: StepValidation) -> None:
        """Raises BadInput when the fault may not be healed at this point. `plan` is that of the `heal` step."""

    @abstractmethod
    def active(self, context: StepContext) -> AbstractContextManager[Injection]:
        """The fault is active inside, and healed outside."""


@dataclass(frozen=True, kw_only=True)
class Action(Kind, ABC):
    """Is done when `perform` returns: an operation of an operator, a burst of records, a wait."""

    disturbs: ClassVar[bool] = False  # counts as a fault in the record, so it must prove an effect
    needs_every_node: ClassVar[bool] = True

    @abstractmethod
    def perform(self, context: StepContext) -> Done:
        """Raises HarnessTimeout when the cluster does not get there before the deadline."""


def is_disturbance(kind: Kind | type[Kind]) -> bool:
    """True for kinds that count as a fault in the record, and so must prove an effect."""
    cls = kind if isinstance(kind, type) else type(kind)
    return issubclass(cls, Fault) or (issubclass(cls, Action) and cls.disturbs)

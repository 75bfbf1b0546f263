"""A model of what a cluster can bear, and which losses its contract permits then.

It knows no fault by its name: what a step takes from the cluster follows from the facts that its class declares and
from the nodes that it names. From the same facts follow events of the contract (`model.contract.promises`), and from
these the losses that topics permit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Final, cast

from harness.faults.steps.declared_facts import Declared
from harness.faults.steps.step import OF_CLIENTS, Action, Fault, Kind
from harness.faults.steps.step_validation import BROKERS, CONTROLLERS, StepValidation
from harness.faults.steps.targets import CLIENTS
from harness.model.contract.configuration import Acks, ClientSettings, TopicSettings
from harness.model.contract.contract import MIN_INSYNC
from harness.model.contract.effects import Effect
from harness.model.contract.internal_topics import internal_topics
from harness.model.contract.promises import promises
from harness.model.contract.read_settings import topic_settings
from harness.model.facts import FactKind, Stop
from harness.model.scenario.scenario import Config, Producer, Scenario, Topic

# Facts after which the nodes are away, or cannot do their work, until the fault is healed.
AWAY: Final = frozenset(
    {
        FactKind.STOPPED,
        FactKind.FROZEN,
        FactKind.LINKS_CUT,
        FactKind.LINKS_SLOW,
        FactKind.ANSWERS_LOST,
        FactKind.FRAMES_HELD,
        FactKind.DISK_FAILED,
        FactKind.DISK_FILLED,
        FactKind.DISK_SLOW,
        FactKind.DISK_DAMAGED,
        FactKind.METADATA_DAMAGED,
    }
)
# Facts after which a copy is lost: the others must be whole, before it and until it is restored.
COPY_LOST: Final = frozenset(
    {
        FactKind.DATA_LOST,
        FactKind.DISK_DAMAGED,
        FactKind.DISK_FAILED,
        FactKind.METADATA_DAMAGED,
        FactKind.FLUSHES_FORGOTTEN,
    }
)
LOSSES: Final = frozenset({Effect.LOST, Effect.RETURNED})
# Facts about a client that is named: a step with one needs members at work. For one that died, another takes over.
_OF_CLIENT: Final = frozenset({FactKind.CLIENT_AWAY, FactKind.CLIENT_DIED, FactKind.CLIENT_RESTARTED})
_KEPT_AWAY: Final = frozenset({FactKind.CLIENT_AWAY})
_WORDS: Final = re.compile(r"[\w.-]+")
# Events of the contract by fact, where the reason of a stop does not matter.
_EVENTS: Final[Mapping[FactKind, tuple[str, ...]]] = {
    FactKind.FROZEN: ("leader_dies", "replica_down"),
    FactKind.LINKS_CUT: ("leader_dies", "replica_down"),
    FactKind.LINKS_SLOW: ("leader_dies", "replica_down"),
    FactKind.DISK_FILLED: ("leader_dies", "replica_down"),
    FactKind.DISK_SLOW: ("leader_dies", "replica_down"),
    FactKind.DISK_FAILED: ("disk_of_one",),
    FactKind.DISK_DAMAGED: ("disk_of_one",),
    FactKind.DATA_LOST: ("disk_of_one",),
    FactKind.LEADERS_MOVED: ("leader_moves",),
    FactKind.COPIES_REBUILT: ("leader_taken_away",),
    FactKind.ANSWERS_LOST: ("answer_lost", "request_fails"),
    FactKind.FRAMES_HELD: ("answer_lost", "request_fails"),
    FactKind.TIER_OBJECTS_CHANGED: ("tier_objects_deleted",),
    FactKind.RECORDS_DELETED: ("deleted_and_killed",),
}
_STOPS: Final[Mapping[Stop | None, tuple[str, ...]]] = {
    Stop.CLEANLY: ("leader_shut_down", "replica_down"),
    Stop.KILLED: ("leader_dies", "replica_down"),
    Stop.CRASHED: ("leader_dies", "replica_down"),
    Stop.POWER: ("leader_dies", "power_of_one", "replica_down"),
    None: ("leader_dies", "replica_down"),
}
# When several brokers are away at once, one of them may have been the last one in sync.
_OF_SEVERAL: Final = (
    *("last_in_sync_dies", "transaction_end_alone", "offsets_leader_alone_dies", "tier_metadata_leader_alone_dies"),
    "answer_lost_leader_dies",
)
_OF_SEVERAL_WITHOUT_POWER: Final = ("power_of_all", "returns_short")
# Facts that delete records by themselves, whatever the settings of the topic are.
_DELETES: Final = {
    FactKind.TOPIC_DELETED: "the topic is deleted",
    FactKind.TIER_LEFT: "records that only the tier has are deleted",
}


@dataclass(frozen=True, slots=True)
class Taken:
    """The brokers and controllers that a cluster lacks until a step is healed.

    alone: nothing else may be broken meanwhile. copies: a copy is lost.
    """

    brokers: int = 0
    controllers: int = 0
    alone: bool = False
    copies: bool = False

    @property
    def anything(self) -> bool:
        return bool(self.brokers or self.controllers or self.alone or self.copies)


@dataclass(frozen=True, slots=True)
class Permitted:
    """A loss that the contract permits: of which topic, at which event, and why."""

    topic: str
    event: str
    why: str


@dataclass(slots=True)
class Bearing:
    """The state of the model while a plan is made: what the faults that are active take.

    strict: no step may permit a loss.
    """

    scenario: Scenario
    strict: bool
    active: dict[str, Taken] = field(default_factory=dict)
    permitted: list[Permitted] = field(default_factory=list)

    def refusal(self, kind: Kind, plan: StepValidation) -> str | None:
        """Why the cluster cannot bear this step now; None if it can."""
        if kind.follows and not kind.follows & {fact.kind for one in plan.earlier.values() for fact in one.declared()}:
            return "no earlier step leaves what it needs"
        taken, now = taken_by(kind, plan), list(self.active.values())
        shape = self.scenario.shape
        if any(one.alone or one.copies for one in now):
            return "another fault must be alone"
        if (taken.alone or taken.copies or kind.needs_every_node) and any(one.anything for one in now):
            return "it needs a cluster that is whole"
        if taken.copies and taken.brokers and (topic := next(filter(_keeps_all, self.scenario.topics), None)):
            return f"{topic.name} keeps each of its replicas eligible: all of them must be in sync"
        brokers = taken.brokers + sum(one.brokers for one in now)
        if now and brokers >= shape.brokers:
            return "no broker would be left"
        controllers = taken.controllers + sum(one.controllers for one in now)
        if controllers > (shape.controllers - 1) // 2 and not taken.alone:
            return "no majority of the controllers would be left"
        if self.strict and (losses := self.losses(kind, plan)):
            return f"{losses[0].topic} may lose records: {losses[0].why}"
        return self._without_effect(kind, taken, plan)

    def _without_effect(self, kind: Kind, taken: Taken, plan: StepValidation) -> str | None:
        """Why a step could not show an effect beside the faults that are active; None if it could."""
        if taken_clients := _clients_taken(kind, [plan.earlier[name] for name in self.active], self.scenario):
            return taken_clients
        away = sum(one.brokers for one in self.active.values())
        if not away or (taken.controllers and not taken.brokers):
            return None  # a controller shows its absence without any load
        if _groups_of(kind, self.scenario) and not acknowledges(
            self.scenario, internal_topics(self.scenario.shape), away
        ):
            return "no group could commit"
        named = _topics_named(kind, self.scenario)
        if idle := next((topic for topic in named if not _is_served(self.scenario, topic, away)), None):
            return f"{idle.name} acknowledges nothing"
        if not any(_is_served(self.scenario, topic, away) for topic in self.scenario.topics):
            return "no topic acknowledges anything"
        return None

    def add(self, name: str, kind: Kind, plan: StepValidation) -> None:
        """Takes a step into the plan."""
        self.permitted += [one for one in self.losses(kind, plan) if one not in self.permitted]
        if isinstance(kind, Fault) and kind.for_s <= 0:
            self.active[name] = taken_by(kind, plan)

    def heal(self, name: str) -> None:
        del self.active[name]

    def losses(self, kind: Kind, plan: StepValidation) -> list[Permitted]:
        """The losses that the contract permits because of this step, together with the faults that are active."""
        taken = taken_by(kind, plan)
        several = taken.brokers + sum(one.brokers for one in self.active.values()) > 1
        broker = self.scenario.shape.config
        events = dict.fromkeys(event for fact in kind.declared() for event in _events(fact, several=several))
        return [
            *(Permitted(fact.topic, fact.kind, why) for fact in kind.declared() if (why := _DELETES.get(fact.kind))),
            *(one for topic, client in _configurations(self.scenario) for one in _lost(topic, client, broker, events)),
        ]


def _groups_of(kind: Kind, scenario: Scenario, facts: frozenset[FactKind] = _OF_CLIENT) -> frozenset[str]:
    """The groups whose members a step stops, pauses or starts again. It may name one of the members."""
    group_of = {reader.name: reader.group for reader in scenario.readers if reader.group}
    return frozenset(group_of.get(f.client, f.client) for f in kind.declared() if f.kind in facts and f.client)


def _clients_taken(kind: Kind, others: Sequence[Kind], scenario: Scenario) -> str | None:
    """Why the clients that a step needs are out of its reach beside other faults; None if they are not."""
    groups, on_way = _groups_of(kind, scenario), any(map(_on_way_of_clients, others))
    if busy := sorted(groups & frozenset().union(*(_groups_of(one, scenario, _KEPT_AWAY) for one in others))):
        return f"another fault has the members of {busy[0]}"
    if not _on_way_of_clients(kind):
        return "members of a group may not reach their brokers" if groups and on_way else None
    if any(_groups_of(one, scenario) for one in others):
        return "members of a group may not reach their brokers"
    # The nodes of two such faults may be the same one when they begin, whatever their expressions are.
    return "another fault has the links of clients" if on_way else None


def _on_way_of_clients(kind: Kind) -> bool:
    return isinstance(kind, Fault) and (kind.diverts or OF_CLIENTS in kind.breaks())


def _topics_named(kind: Kind, scenario: Scenario) -> list[Topic]:
    """The topics that the arguments of a step name, by themselves, by a partition, or by a producer of them."""
    values = [getattr(kind, entry.name) for entry in fields(kind)]
    texts = [text for value in values for text in (value if isinstance(value, tuple) else (value,))]
    words = {word for text in texts if isinstance(text, str) for word in _WORDS.findall(text)}
    words |= {topic for producer in scenario.producers if producer.name in words for topic in producer.topics}
    return [topic for topic in scenario.topics if topic.name in words]


def _is_served(scenario: Scenario, topic: Topic, away: int) -> bool:
    """Whether a topic acknowledges records while so many brokers are away, whichever they are.

    Transactions need their coordinators' topics, too. With acks=1 a leader is enough.
    """
    producers = [one for one in scenario.producers if topic.name in one.topics and one.when == "always"]
    if producers and all(one.acks != "all" for one in producers):
        return topic.replicas > away
    of_transactions = any(one.transactions for one in producers)
    needed = [topic, *(internal_topics(scenario.shape) if of_transactions else ())]
    return bool(producers) and acknowledges(scenario, needed, away)


def acknowledges(scenario: Scenario, topics: Iterable[Topic], away: int) -> bool:
    """Whether each of these topics has min.insync.replicas with acks=all while so many brokers are away."""
    default = scenario.shape.config.get(MIN_INSYNC, "2")
    return all(t.replicas - away >= max(1, int(t.config.get(MIN_INSYNC, default))) for t in topics)


def _keeps_all(topic: Topic) -> bool:
    """Whether a replica stays eligible whenever it leaves the ISR (KIP-966): then no copy of the topic may be lost. The
    only replica always does."""
    return topic.replicas <= int(topic.config.get(MIN_INSYNC, "2"))


def taken_by(kind: Kind, plan: StepValidation) -> Taken:
    """The nodes that a cluster lacks by a step, from the facts that it declares and the expressions that it has."""
    facts = {fact.kind for fact in kind.declared()}
    copies = bool(facts & COPY_LOST)
    if FactKind.QUORUM_LOST in facts:
        return Taken(controllers=plan.scenario.shape.controllers, alone=True, copies=copies)
    if isinstance(kind, Action):
        return Taken(copies=copies)
    if not facts & AWAY:
        # Partitions that have one replica less for a while: the move and its end need all other replicas in sync.
        return Taken(alone={FactKind.LEADERS_MOVED, FactKind.COPIES_REBUILT} <= facts, copies=copies)
    if not kind_names_nodes(kind):
        return Taken(alone=True, copies=copies)
    brokers, controllers = _reached(cast("Fault", kind), plan)
    return Taken(brokers=brokers, controllers=controllers, alone=brokers >= plan.scenario.shape.brokers, copies=copies)


def kind_names_nodes(kind: Kind) -> bool:
    """Whether the nodes that a fault breaks are those that it names, and no others."""
    return isinstance(kind, Fault) and kind.only_victims and bool(kind.victims())


def _reached(fault: Fault, plan: StepValidation) -> tuple[int, int]:
    """How many brokers and controllers a fault breaks. Of a broken link it is the side with fewer nodes."""
    named = plan.reach(fault.victims())
    source = str(getattr(fault, "src", ""))
    if source and source not in CLIENTS:
        from_ = plan.reach(source)
        named = from_ if from_.role != named.role or from_.count < named.count else named
    return (named.count, 0) if named.role == BROKERS else (0, named.count if named.role == CONTROLLERS else 0)


def _events(fact: Declared, *, several: bool) -> Iterator[str]:
    yield from _STOPS[fact.how] if fact.kind is FactKind.STOPPED else _EVENTS.get(fact.kind, ())
    if several and fact.kind in AWAY:
        yield from _OF_SEVERAL
        if fact.how is Stop.POWER:
            yield from _OF_SEVERAL_WITHOUT_POWER
        if fact.kind in COPY_LOST:
            yield "disk_of_last_in_sync"


def _configurations(scenario: Scenario) -> Iterator[tuple[Topic, ClientSettings]]:
    """Each topic with the settings of each producer of it; the internal topics with those of a coordinator."""
    for topic in scenario.topics:
        for producer in scenario.producers:
            if topic.name in producer.topics:
                yield topic, _client(producer)
    for topic in internal_topics(scenario.shape):
        yield topic, ClientSettings()


def _client(producer: Producer) -> ClientSettings:
    return ClientSettings(
        acks=cast("Acks", producer.acks),
        idempotent=producer.idempotent,
        retries=producer.retries,
        in_flight=producer.in_flight,
        transactional=producer.transactions is not None,
    )


def _lost(topic: Topic, client: ClientSettings, broker: Config, events: Mapping[str, None]) -> Iterator[Permitted]:
    # Without ELR, a topic permits at least as much as with it; which of the two holds depends on the release.
    config = {MIN_INSYNC: "2", **topic.config}  # the default of every cluster of ours
    settings = topic_settings(topic.name, config, topic.replicas, broker, elr=False)
    for event, why in _losses_of(settings, client):
        if event in events:
            yield Permitted(topic.name, event, why)


@cache
def _losses_of(settings: TopicSettings, client: ClientSettings) -> tuple[tuple[str, str], ...]:
    """The events at which this configuration may lose records, and why."""
    found = promises(settings, client)
    return tuple((promise.event.name, promise.why) for promise in found if LOSSES & set(promise.effects))

"""Fits a scenario to an existing cluster: whether it can run there, and under which names.

Scenarios say what their cluster is like. A cluster of the harness is made so; an existing one is as it is, and
nothing of it is changed for a scenario but topics and groups of the run's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from harness.faults.steps.registry import Heal, build_step, is_disturbance, marked
from harness.faults.steps.step import OF_CLIENTS, Action, Fault, Kind
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.targets import parse_nodes
from harness.model.contract.contract import (
    COMPRESSION_TYPE,
    DELETE_RETENTION,
    MIN_COMPACTION_LAG,
    MIN_INSYNC,
    OFFSETS_RETENTION,
    PRODUCER_EXPIRATION,
    RECREATE_TOPIC,
    START_CHECKPOINT,
    TIMESTAMP_TYPE,
    TRANSACTION_VERSION,
    UNCLEAN,
)
from harness.model.contract.internal_topics import OFFSETS, OWN, PARTITIONS, REPLICAS_MAX, SHARE_STATE, TRANSACTIONS
from harness.model.contract.kafka_defaults import (
    DELETE_RETENTION_MS_DEFAULT,
    PRODUCER_CODEC,
    RETENTION_MS_DEFAULT,
    SEGMENT_BYTES_DEFAULT,
)
from harness.model.live_cluster import LiveCluster
from harness.model.scenario.scenario import ClusterShape, Scenario, Step, Topic
from harness.scenarios.renaming import Names, renamed

# A setting of topics on which promises depend: its name as a setting of brokers, and Kafka's default. Each topic of a
# run gets them, because the defaults of a cluster of others may be anything.
_PINNED: Final[Mapping[str, tuple[str, str]]] = {
    MIN_INSYNC: (MIN_INSYNC, "2"),
    UNCLEAN: (UNCLEAN, "false"),
    "cleanup.policy": ("log.cleanup.policy", "delete"),
    "retention.ms": ("log.retention.ms", str(RETENTION_MS_DEFAULT)),
    "retention.bytes": ("log.retention.bytes", "-1"),
    "segment.bytes": ("log.segment.bytes", str(SEGMENT_BYTES_DEFAULT)),
    DELETE_RETENTION: (f"log.cleaner.{DELETE_RETENTION}", str(DELETE_RETENTION_MS_DEFAULT)),
    MIN_COMPACTION_LAG: (f"log.cleaner.{MIN_COMPACTION_LAG}", "0"),
    TIMESTAMP_TYPE: (f"log.{TIMESTAMP_TYPE}", "CreateTime"),
    COMPRESSION_TYPE: (COMPRESSION_TYPE, PRODUCER_CODEC),
}
# Settings of brokers that no topic has, and on which promises depend.
_OF_BROKERS: Final = (PRODUCER_EXPIRATION, START_CHECKPOINT, OFFSETS_RETENTION)
_REPLICAS: Final = {
    OFFSETS: "offsets.topic.replication.factor",
    TRANSACTIONS: "transaction.state.log.replication.factor",
    SHARE_STATE: "share.coordinator.state.topic.replication.factor",
}
_OF_A_DEADLINE: Final = 0.7  # so much of it is left for an interval of the brokers
_WAIT_MAX_S: Final = 600.0  # no wait is made longer for that; Kafka's default for retention needs 429 s
_AUTO_CREATE: Final = "auto.create.topics.enable"
_OF_HOOKS: Final = frozenset({"kill", "terminate", "pause", "restart", "links", "links.cut", "links.slow"})


@dataclass(frozen=True, slots=True)
class Abilities:
    """What can be done to brokers, and to controllers, by the names that steps use for their needs."""

    brokers: frozenset[str]
    controllers: frozenset[str]


def disturbs(scenario: Scenario) -> bool:
    """Whether a step of it is a fault, or an operation that disturbs the data path."""
    return any(is_disturbance(build_step(step)) for step in scenario.steps)


def misfit(scenario: Scenario, live: LiveCluster, able: Abilities) -> str | None:
    """Why a scenario cannot run on a cluster, in one sentence; None when it can."""
    found = (reason for reasons in _REASONS for reason in reasons(scenario, live, able))
    first = next(found, None)
    return None if first is None else f"scenario {scenario.name}: {first}"


def fitted(scenario: Scenario, live: LiveCluster, prefix: str) -> Scenario:
    """The scenario with the cluster's shape, and with names of its own. BadInput as for `renamed`."""
    shape = _shape(scenario, live)
    pinned = tuple(_pinned(topic, scenario.shape) for topic in scenario.topics)
    patient = tuple(_patient(step, live) for step in scenario.steps)
    return renamed(replace(scenario, topics=pinned, steps=patient), Names(prefix, live.ids, shape))


def _pinned(topic: Topic, shape: ClusterShape) -> Topic:
    """The topic with each setting on which a promise depends, as the scenario assumes it."""
    assumed = {key: shape.config.get(of_brokers, default) for key, (of_brokers, default) in _PINNED.items()}
    return replace(topic, config={**assumed, **topic.config})


def _patient(step: Step, live: LiveCluster) -> Step:
    """The step with a deadline that is long enough for the intervals of the brokers on which it relies."""
    slow = [
        int(value) for key in build_step(step).relies_on for value in live.setting(key).values() if value is not None
    ]
    needed_s = round(max(slow, default=0) / 1000 / _OF_A_DEADLINE)
    return replace(step, args={**step.args, "deadline_s": needed_s}) if needed_s > _deadline_s(step) else step


def _deadline_s(step: Step) -> float:
    return float(getattr(build_step(step), "deadline_s", math.inf))


def _shape(scenario: Scenario, live: LiveCluster) -> ClusterShape:
    """The cluster as it is, as far as a promise or a step depends on it."""
    config = dict(scenario.shape.config)
    for key in _OF_BROKERS:
        values = set(live.setting(key).values())
        if len(values) == 1 and None not in values:
            config[key] = str(values.pop())
    for name, (key, _) in PARTITIONS.items():
        there = live.internal.get(name)
        known = str(there.partitions) if there else next(iter(live.setting(key).values()))
        config |= {key: known} if known is not None else {}
    offsets = live.internal.get(OFFSETS)
    for key in (MIN_INSYNC, UNCLEAN):  # topics of the run set both, so these are those of Kafka's own topics
        own = offsets.settings.get(key) if offsets else next(iter(live.setting(key).values()))
        config |= {key: own} if own is not None else {}
    return replace(
        scenario.shape,
        brokers=len(live.ids),
        controllers=max(1, len(live.controllers)),
        config=config,
        features={**scenario.shape.features, TRANSACTION_VERSION: live.features.get(TRANSACTION_VERSION, 0)},
    )


# --- why a scenario cannot run ----------------------------------------------------------------------------------------


def _of_its_own(scenario: Scenario, live: LiveCluster, able: Abilities) -> Iterator[str]:  # noqa: ARG001
    shape = scenario.shape
    if shape.starts_on is not None:
        yield "it upgrades a cluster from an earlier release, and this cluster runs already"
    if scenario.fresh:
        yield "it needs a cluster of its own, because it changes the cluster for good"
    for wanted, what in (
        (shape.tier, "a remote tier that the harness can break"),
        (shape.disk, f'disks with the file system "{shape.disk}" that the harness can break'),
        (shape.clock, "nodes whose clocks the harness can set"),
        (shape.agent, "nodes that load an agent for faults in Kafka's own code"),
        (shape.isolated_client, "a listener of its own for isolated clients"),
        (shape.secure, "listeners with the certificates and passwords of the harness"),
        (shape.voters == "dynamic", "a quorum of controllers whose voters it may change"),
    ):
        if wanted:
            yield f"it needs {what}"
    if scenario.admin:
        yield "its admins change settings, users and ACLs of the whole cluster, which others use, too"


def _of_shape(scenario: Scenario, live: LiveCluster, able: Abilities) -> Iterator[str]:  # noqa: ARG001
    shape = scenario.shape
    if len(live.ids) < shape.brokers:
        yield f"it needs {shape.brokers} brokers, and the cluster has {len(live.ids)}"
    if live.log_dirs < shape.log_dirs:
        yield f"it needs {shape.log_dirs} log directories on each broker, and a broker has {live.log_dirs}"
    for feature, level in shape.features.items():
        if (finalized := live.features.get(feature, 0)) != level:
            yield f"it needs the feature {feature} at level {level}, and the cluster has finalized {finalized}"
    for key, value in shape.config.items():
        for broker, there in live.setting(key).items():
            if there != value:
                yield f"it needs {key}={value} on every broker, and broker {broker} has {there}"


def _of_internal_topics(scenario: Scenario, live: LiveCluster, able: Abilities) -> Iterator[str]:  # noqa: ARG001
    uses = {
        OFFSETS: bool(scenario.groups),
        TRANSACTIONS: any(p.transactions is not None for p in scenario.producers),
        SHARE_STATE: bool(scenario.share_groups),
    }
    wanted = min(REPLICAS_MAX, scenario.shape.brokers)
    for name, key in _REPLICAS.items():
        there = live.internal[name].replicas if name in live.internal else live.setting(key)[live.ids[0]]
        if uses[name] and int(there or 0) < wanted:
            yield f"it needs {wanted} replicas of {name}, and the cluster has {there} ({key})"


def _of_version(scenario: Scenario, live: LiveCluster, able: Abilities) -> Iterator[str]:  # noqa: ARG001
    if scenario.java_clients and live.version is None:
        yield "it needs the release's own clients; say by --kafka which version of Kafka the cluster runs"
    if scenario.since is not None and live.version is None:
        yield f"it needs Kafka {scenario.since} or newer; say by --kafka which version the cluster runs"


def _of_controllers(scenario: Scenario, live: LiveCluster, able: Abilities) -> Iterator[str]:
    """Steps about controllers, which only processes of their own can be the victims of."""
    for step in scenario.steps:
        kind = build_step(step)
        if not _names_controllers(kind):
            continue
        where = f"step {step.name}"
        if not live.controllers:
            yield f"{where} is about controllers, and those of this cluster are its brokers"
        elif len(live.controllers) < scenario.shape.controllers:
            yield f"{where} needs {scenario.shape.controllers} controllers, and there are {len(live.controllers)}"
        elif missing := sorted(kind.needs - able.controllers):
            yield f"{where}: {_no_hook(kind, missing)} of a controller"


def _of_majority(scenario: Scenario, live: LiveCluster, able: Abilities) -> Iterator[str]:  # noqa: ARG001
    """Faults that stop so many brokers at once that no majority of the controllers in them would be left."""
    if live.controllers:
        return
    spare = (len(live.voters) - 1) // 2
    earlier: dict[str, Kind] = {}
    down: dict[str, int] = {}
    for step in scenario.steps:
        kind = build_step(step)
        if isinstance(kind, Fault) and kind.keeps_stopped():
            down[step.name] = StepValidation(scenario, earlier).reach(kind.victims()).count
        if sum(down.values()) > spare:
            yield (
                f"step {step.name} stops {sum(down.values())} brokers at once, which are controllers, too, and then "
                "no majority of them is left"
            )
        if isinstance(kind, Heal):
            down.pop(kind.fault, None)
        if isinstance(kind, Fault) and kind.for_s > 0:
            down.pop(step.name, None)
        earlier[step.name] = kind


def _names_controllers(kind: Kind) -> bool:
    named = [text for _, marker, value in marked(kind) if marker in _OF_NODES for text in _texts(value)]
    nodes = [parse_nodes(text).word for text in named if text and not text.startswith(("client", "isolated_client"))]
    return any(word.startswith("controller") for word in nodes) or "controllers" in getattr(kind, "away_from", ())


_OF_NODES: Final = ("nodes", "brokers", "one broker", "controllers", "one controller", "parties")


def _texts(value: str | tuple[str, ...]) -> Collection[str]:
    return (value,) if isinstance(value, str) else value


def _of_steps(scenario: Scenario, live: LiveCluster, able: Abilities) -> Iterator[str]:
    for step in scenario.steps:
        kind = build_step(step)
        where = f"step {step.name}"
        if shared := kind.shared():
            yield f"{where} changes {shared}, which others use, too"
        if own := next((text for text in _changed_places(kind) if text.partition("/")[0] in OWN), None):
            yield f"{where} changes {own}, which belongs to Kafka and serves others, too"
        if missing := sorted(kind.needs - able.brokers):
            yield f"{where}: {_no_hook(kind, missing)}" if set(missing) <= _OF_HOOKS else _no_files(where, missing)
        if OF_CLIENTS in kind.breaks():
            yield f"{where} breaks links of clients, which observers use, too, so no hook can do it"
        if missing := sorted({f"links.{op}" for op in kind.breaks()} - able.brokers):
            yield f"{where}: {_no_hook(kind, missing)}"
        yield from (f"{where} {reason}" for reason in _too_slow(step, live))
        if kind.do == RECREATE_TOPIC and "true" in live.setting(_AUTO_CREATE).values():
            yield f"{where} needs {_AUTO_CREATE}=false: a client might create the topic before the step does"


def _too_slow(step: Step, live: LiveCluster) -> Iterator[str]:
    """Waits for what brokers do so rarely that no scenario should wait for it."""
    longest_ms = max(_deadline_s(step), _WAIT_MAX_S) * 1000 * _OF_A_DEADLINE
    for key in sorted(build_step(step).relies_on):
        for broker, value in live.setting(key).items():
            if value is not None and int(value) > longest_ms:
                yield f"would wait too long for brokers with {key}={value}, which broker {broker} has"


def _changed_places(kind: Kind) -> Iterator[str]:
    """The partitions and topics that an operation changes. A wait changes none, and a fault breaks nodes or links."""
    if isinstance(kind, Action) and (is_disturbance(kind) or kind.facts):
        for _, marker, value in marked(kind):
            if marker in ("partition", "partitions", "topic"):
                yield from _texts(value)


def _no_hook(kind: Kind, missing: Collection[str]) -> str:
    return f"no hook can do `{kind.do}` (it needs {', '.join(missing)}); describe it in --hooks"


def _no_files(where: str, missing: Collection[str]) -> str:
    return f"{where} needs {', '.join(missing)}, which no cluster has that the harness did not start"


_REASONS: Final[tuple[Callable[[Scenario, LiveCluster, Abilities], Iterator[str]], ...]] = (
    _of_its_own,
    _of_shape,
    _of_steps,
    _of_controllers,
    _of_majority,
    _of_internal_topics,
    _of_version,
)

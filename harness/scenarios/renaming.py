"""A scenario under other names: its topics and groups get a prefix, and its brokers the ids of a cluster.

Names stay real ones: what is renamed here is called so by clients, by brokers and in the evidence alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from harness.faults.steps.registry import build_step, marked
from harness.faults.steps.targets import Nodes, parse_nodes, share_of
from harness.model.contract.internal_topics import OFFSETS, OWN, partitions_of, state_partition
from harness.model.errors import BadInput
from harness.model.scenario.scenario import STREAMS, TRANSACTIONAL_ID, ClusterShape, Producer, Reader, Scenario, Step

_OF_PARTITION: Final = frozenset({"leader", "follower", "followers", "preferred", "adding", "tier_metadata"})
_PARTITION: Final = re.compile(rf"{OFFSETS}/(\d+)")


@dataclass(frozen=True, slots=True)
class Names:
    """prefix: of topics, groups and transactional ids. ids: of the brokers that the scenario calls 1, 2, ...
    shape: of the cluster that it will run on."""

    prefix: str
    ids: Sequence[int]
    shape: ClusterShape

    def of(self, name: str) -> str:
        """The new name of a topic or a group. Kafka's own topics keep theirs."""
        return name if name in OWN else f"{self.prefix}{name}"

    def place(self, text: str) -> str:
        """ "topic/0" or "topic/*" by the new name."""
        topic, slash, partition = text.rpartition("/")
        return f"{self.of(topic)}{slash}{partition}"

    def nodes(self, text: str) -> str:
        """An expression of nodes by the new names."""
        nodes = parse_nodes(text)
        return f"{nodes.word}({self._inside(nodes)})" if nodes.of else text

    def broker(self, number: int) -> int:
        """The id of a broker."""
        return self.ids[number - 1]

    def _inside(self, nodes: Nodes) -> str:
        if nodes.word in ("broker", "brokers"):
            return ", ".join(str(self.broker(int(number))) for number in nodes.of.split(","))
        if nodes.word in _OF_PARTITION:
            return self.place(nodes.of)
        if nodes.word == "group_coordinator":
            return self.of(nodes.of)
        if nodes.word == "share_coordinator":
            group, (topic, partition) = share_of(nodes.of)
            return f"{self.of(group)}:{self.of(topic)}/{partition}"
        return nodes.of  # a producer or a step


def renamed(scenario: Scenario, names: Names) -> Scenario:
    """BadInput for a step that names a partition of __consumer_offsets for which no single group is known."""
    allowed = scenario.allowed_anomalies
    losses = tuple(replace(loss, topic=names.of(loss.topic)) for loss in allowed.exact_losses)
    floors = replace(scenario.floors, partitions=tuple(map(names.place, scenario.floors.partitions)))
    return replace(
        scenario,
        shape=names.shape,
        topics=tuple(
            replace(t, name=names.of(t.name), assignment=tuple(tuple(map(names.broker, r)) for r in t.assignment))
            for t in scenario.topics
        ),
        producers=tuple(_producer(producer, names) for producer in scenario.producers),
        readers=tuple(_reader(reader, names) for reader in scenario.readers),
        steps=tuple(_step(step, scenario, names) for step in scenario.steps),
        allowed_anomalies=replace(allowed, exact_losses=losses),
        floors=floors,
        matrix=None,
    )


def _producer(producer: Producer, names: Names) -> Producer:
    plan, of = producer.processes, producer.transactions
    named = of is not None and producer.client != STREAMS  # Kafka Streams makes ids from the name of its group
    own = {TRANSACTIONAL_ID: f"{names.prefix}{producer.name}"} if named else {}
    return replace(
        producer,
        topics=tuple(map(names.of, producer.topics)),
        transactions=of and replace(of, offsets_of=of.offsets_of and names.of(of.offsets_of)),
        processes=plan and replace(plan, reads=tuple(map(names.of, plan.reads)), group=names.of(plan.group)),
        config={**own, **producer.config},
    )


def _reader(reader: Reader, names: Names) -> Reader:
    alone = {"group.id": f"{names.prefix}reader-{reader.name}"} if reader.group is None else {}
    return replace(
        reader,
        topics=tuple(map(names.of, reader.topics)),
        group=reader.group and names.of(reader.group),
        config={**alone, **reader.config},
    )


def _step(step: Step, scenario: Scenario, names: Names) -> Step:
    args = dict(step.args)
    for name, marker, _ in marked(build_step(step)):
        if name in args and (rename := _BY_MARKER.get(marker)):
            args[name] = _each(args[name], lambda value, rename=rename: rename(names, value))  # type: ignore[misc]
    moved = {key: _each(value, lambda text: _offsets_of(text, scenario, names)) for key, value in args.items()}
    return replace(step, args=moved)


def _each(value: object, change: Callable[[object], object]) -> object:
    return [change(one) for one in value] if isinstance(value, list | tuple) else change(value)


def _offsets_of(value: object, scenario: Scenario, names: Names) -> object:
    """A text in which each partition of __consumer_offsets is the one of the renamed group.

    The scenario said offsets(GROUP), which was written out when it was read.
    """
    if not isinstance(value, str):
        return value

    def moved(match: re.Match[str]) -> str:
        before = partitions_of(scenario.shape, OFFSETS)
        groups = [group for group in scenario.groups if state_partition(group, before) == int(match[1])]
        if len(groups) != 1:
            raise BadInput(f"{match[0]} is the partition of {len(groups)} groups of the scenario; write offsets(GROUP)")
        return f"{OFFSETS}/{state_partition(names.of(groups[0]), partitions_of(names.shape, OFFSETS))}"

    return _PARTITION.sub(moved, value)


def _node_text(names: Names, value: object) -> object:
    text = str(value)
    return text if text in ("", "client", "isolated_client") else names.nodes(text)


_BY_MARKER: Final[Mapping[str, Callable[[Names, object], object]]] = {
    **dict.fromkeys(("nodes", "brokers", "one broker", "controllers", "one controller", "parties"), _node_text),
    **dict.fromkeys(("partition", "partitions"), lambda names, value: names.place(str(value)) if value else value),
    **dict.fromkeys(("topic", "group"), lambda names, value: names.of(str(value)) if value else value),
    "broker ids": lambda names, value: names.broker(int(str(value))),
}

"""The brokers, topics and groups of a cluster, as each of its brokers lists them."""

from __future__ import annotations

from typing import Final

from harness.kafka.admin.groups import groups_by_coordinator
from harness.kafka.admin.wire import Wire, metadata_call

_LIST_S: Final = 10.0


def registered(wire: Wire) -> dict[int, frozenset[int]]:
    """Broker -> the brokers that it lists as alive, which are those that no controller has fenced."""
    answers = wire.ask_all(metadata_call([]))
    return {broker: frozenset(one.node_id for one in answer.brokers) for broker, answer in answers.items()}


def topic_names(wire: Wire) -> frozenset[str]:
    """The names of all topics that any broker lists and this client may see."""
    answers = wire.ask_all(metadata_call(None), _LIST_S)
    return frozenset(topic.name for answer in answers.values() for topic in answer.topics)


def group_names(wire: Wire) -> frozenset[str]:
    """The names of all groups, of whatever protocol, that their coordinators list and this client may see."""
    return frozenset[str]().union(*groups_by_coordinator(wire, _LIST_S).values())

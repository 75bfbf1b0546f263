"""Expressions that name nodes in a scenario, such as "leader(plain/0)", and how they resolve to node ids.

broker(2)                    that broker                brokers       every broker
brokers(2, 3)                these brokers
leader(plain/0)              its leader now             controller    the active controller
follower(plain/0)            the first replica that does not lead     controllers   every controller
followers(plain/0)           all replicas that do not lead
preferred(plain/0)           the first of its replicas
adding(plain/0)              the first replica that a reassignment adds to it
group_coordinator(readers)   of a consumer group        txn_coordinator(payments)   of a producer's transactions
share_coordinator(jobs:plain/0)   of the state that a share group has of a partition (KIP-932)
tier_metadata(plain/0)       the leader of the partition of __remote_log_metadata with its metadata (KIP-405)
same(kill_leader)            the nodes of an earlier step
controller_follower          the first controller that is not the active one
controller_beside(alone)     the first controller that is neither the active one nor of an earlier step
controller_majority          the active controller and as many others as make a majority

A partition is "plain/0", or one of an internal topic: "__transaction_state/0", "__consumer_offsets/7". The partition
of __consumer_offsets that stores the commits of a group is "offsets(readers)", as in "leader(offsets(readers))".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from harness.kafka.admin.client import PartitionState
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.hints import hint
from harness.model.place import Place
from harness.model.scenario.scenario import Scenario

# Parties that are clients. Every other party is a node.
CLIENT = "client"
ISOLATED = "isolated_client"  # clients with a listener of their own
CLIENTS = (CLIENT, ISOLATED)

_FORM = re.compile(r"(?P<word>[a-z_]+)(?:\((?P<of>[^()]*)\))?")
_NUMBER = re.compile(r"[0-9]{1,9}")  # isdigit() also accepts "²", which int() refuses


def fed_leaders(scenario: Scenario, *clients: str) -> tuple[str, ...]:
    """The leaders of partitions to which one of these clients writes all the time, each as an expression.

    Those with three replicas, if there are some: a leader is there while another broker is away.
    """
    steady = [producer for producer in scenario.producers if producer.when == "always" and producer.client in clients]
    topics = [topic for topic in scenario.topics if any(topic.name in producer.topics for producer in steady)]
    topics = [topic for topic in topics if topic.replicas > 2] or topics
    return tuple(f"leader({topic.name}/{number})" for topic in topics for number in range(topic.partitions))


class Facts(Protocol):
    """The facts about the cluster, at this moment, by which expressions are resolved."""

    def brokers(self) -> tuple[int, ...]: ...
    def controllers(self) -> tuple[int, ...]: ...
    def partition(self, place: Place) -> PartitionState: ...
    def adding(self, place: Place) -> tuple[int, ...]: ...
    def active_controller(self) -> int: ...
    def group_coordinator(self, group: str) -> int: ...
    def txn_coordinator(self, producer: str) -> int: ...
    def share_coordinator(self, group: str, place: Place) -> int: ...
    def tier_metadata(self, place: Place) -> int: ...
    def nodes_of(self, step: str) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True)
class Nodes:
    """A parsed expression. `of` is "" where the word takes nothing in brackets."""

    word: str
    of: str


def place_of(text: str) -> Place:
    """The topic and partition of "plain/0"; BadInput for any other text."""
    topic, slash, partition = text.rpartition("/")
    if not slash or not topic or not _NUMBER.fullmatch(partition):
        raise BadInput(f'{text!r} is no partition; write "topic/0"')
    return topic, int(partition)


def share_of(text: str) -> tuple[str, Place]:
    """The group and the partition of "jobs:plain/0"; BadInput for any other text."""
    group, _, place = text.partition(":")
    return group, place_of(place)


def parse_nodes(text: str) -> Nodes:
    """Raises BadInput, with the nearest word, when the text is no expression of nodes."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise BadInput(f'{text!r} names no node; write for example "leader(plain/0)" or "broker(2)"')
    word, of = match["word"], (match["of"] or "").strip()
    if word not in _RESOLVE:
        raise BadInput(f"{text!r}: unknown target {word!r}{hint(word, _RESOLVE)}")
    if bool(of) != (word in _TAKES) and word != "brokers":
        needs = f"needs {_TAKES[word]} in brackets" if word in _TAKES else "takes nothing in brackets"
        raise BadInput(f"{text!r}: {word} {needs}")
    if _TAKES.get(word) == "a partition":
        place_of(of)
    if word == "share_coordinator":
        share_of(of)
    if word == "broker" and not _NUMBER.fullmatch(of):
        raise BadInput(f"{text!r}: broker needs a number")
    if word == "brokers" and of and not all(_NUMBER.fullmatch(number.strip()) for number in of.split(",")):
        raise BadInput(f"{text!r}: brokers needs numbers, as in brokers(2, 3), or nothing")
    return Nodes(word, of)


def ids_of(brokers: Nodes) -> tuple[int, ...]:
    """The ids that "brokers(2, 3)" or "broker(2)" names; none for "brokers"."""
    return tuple(sorted({int(number) for number in brokers.of.split(",")})) if brokers.of else ()


def resolve(nodes: Nodes, facts: Facts) -> tuple[int, ...]:
    """Node ids in a stable order, at least one. HarnessTimeout when no node has that role now."""
    found = _RESOLVE[nodes.word](nodes.of, facts)
    if not found or min(found) < 0:
        raise HarnessTimeout(f"{nodes.word}({nodes.of}) names no node now")
    return found


def _followers(of: str, facts: Facts) -> tuple[int, ...]:
    state = facts.partition(place_of(of))
    return tuple(b for b in state.replicas if b != state.leader)


def _controller_followers(facts: Facts) -> tuple[int, ...]:
    active = facts.active_controller()
    return tuple(c for c in facts.controllers() if c != active)


def _controllers_beside(of: str, facts: Facts) -> tuple[int, ...]:
    return tuple(c for c in _controller_followers(facts) if c not in facts.nodes_of(of))


def _controller_majority(facts: Facts) -> tuple[int, ...]:
    return (facts.active_controller(), *_controller_followers(facts))[: len(facts.controllers()) // 2 + 1]


def _broker(of: str, facts: Facts) -> tuple[int, ...]:
    if int(of) not in facts.brokers():
        raise BadInput(f"broker({of}): the brokers are {', '.join(map(str, facts.brokers()))}; name one of them")
    return (int(of),)


_RESOLVE: dict[str, Callable[[str, Facts], tuple[int, ...]]] = {
    "broker": _broker,
    "brokers": lambda of, facts: (
        tuple(b for i in ids_of(Nodes("brokers", of)) for b in _broker(str(i), facts)) or facts.brokers()
    ),
    "controller": lambda _, facts: (facts.active_controller(),),
    "controllers": lambda _, facts: facts.controllers(),
    "controller_follower": lambda _, facts: _controller_followers(facts)[:1],
    "controller_beside": lambda of, facts: tuple(
        c for c in _controller_followers(facts) if c not in facts.nodes_of(of)
    )[:1],
    "controller_majority": lambda _, facts: _controller_majority(facts),
    "leader": lambda of, facts: (facts.partition(place_of(of)).leader,),
    "follower": lambda of, facts: _followers(of, facts)[:1],
    "followers": _followers,
    "preferred": lambda of, facts: (facts.partition(place_of(of)).replicas[0],),
    "adding": lambda of, facts: facts.adding(place_of(of))[:1],
    "group_coordinator": lambda of, facts: (facts.group_coordinator(of),),
    "txn_coordinator": lambda of, facts: (facts.txn_coordinator(of),),
    "share_coordinator": lambda of, facts: (facts.share_coordinator(*share_of(of)),),
    "tier_metadata": lambda of, facts: (facts.tier_metadata(place_of(of)),),
    "same": lambda of, facts: facts.nodes_of(of),
}
_TAKES: dict[str, str] = {
    "broker": "a number",
    "leader": "a partition",
    "follower": "a partition",
    "followers": "a partition",
    "preferred": "a partition",
    "adding": "a partition",
    "group_coordinator": "a group",
    "txn_coordinator": "a producer",
    "share_coordinator": "a share group and a partition, as in jobs:plain/0,",
    "tier_metadata": "a partition",
    "controller_beside": "the name of an earlier step",
    "same": "the name of an earlier step",
}

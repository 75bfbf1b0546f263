"""Validates the steps of a scenario before a cluster runs: each argument refers to something that exists and fits.

An error that the scenario alone shows is reported when it is loaded, not after minutes on a running cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.faults.steps.step import Fault, Kind
from harness.faults.steps.targets import CLIENTS, ISOLATED, Nodes, ids_of, parse_nodes, place_of, share_of
from harness.model.contract.internal_topics import internal_topics
from harness.model.errors import BadInput
from harness.model.hints import hint
from harness.model.place import Place
from harness.model.scenario.rules import partition_of
from harness.model.scenario.scenario import Admin, Producer, Reader, Scenario, Topic
from harness.model.scenario.tier_rules import is_tiered

BROKERS = "brokers"
CONTROLLERS = "controllers"
# The role of nodes that a marker of step.py allows, and whether it allows only one node.
_WANTED: Mapping[str, tuple[str, bool]] = {
    "brokers": (BROKERS, False),
    "one broker": (BROKERS, True),
    "controllers": (CONTROLLERS, False),
    "one controller": (CONTROLLERS, True),
}
MOVE = 'give one: do = "reassign", wait = false'
_OF_PARTITIONS = ("leader", "follower", "followers", "preferred", "adding")


@dataclass(frozen=True, slots=True)
class Reach:
    """The nodes that an expression will name: their role and number, and the brokers that it lists itself."""

    word: str
    role: str
    count: int
    brokers: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class StepValidation:
    """A scenario, and the steps before the one that is validated."""

    scenario: Scenario
    earlier: Mapping[str, Kind]

    # --- for the `validate` methods of steps ---

    def topic(self, name: str) -> Topic:
        """A topic of the scenario or an internal one; BadInput when no topic has this name."""
        self._known(name, self.all_topics, "topic")
        return self.all_topics[name]

    def reader(self, name: str) -> Reader:
        """A reader. The marker of the argument has checked its name."""
        return next(reader for reader in self.scenario.readers if reader.name == name)

    def producer(self, name: str) -> Producer:
        """A producer. The marker of the argument has checked its name."""
        return next(p for p in self.scenario.producers if p.name == name)

    def admin(self, name: str) -> Admin:
        """An admin. The marker of the argument has checked its name."""
        return next(a for a in self.scenario.admin if a.name == name)

    def topics_of(self, places: tuple[str, ...]) -> list[Topic]:
        """The topics of "topic/0" and "topic/*"; all topics of the scenario for an empty tuple."""
        return [self.all_topics[place.rpartition("/")[0]] for place in places] or list(self.scenario.topics)

    def holders(self, place: Place) -> frozenset[int] | None:
        """The brokers that will have a replica; None when only the running cluster knows."""
        topic, shape = self.all_topics[place[0]], self.scenario.shape
        if topic.replicas == shape.brokers:
            return frozenset(range(1, shape.brokers + 1))
        moved = any(kind.do == "reassign" for kind in self.earlier.values())
        known = place[1] < len(topic.assignment) and not moved
        return frozenset(topic.assignment[place[1]]) if known else None

    def may_hold(self, text: str, place: Place) -> bool:
        """Whether an expression of nodes may name a broker with a replica; True when only the running cluster knows."""
        named, holders = self.reach(text).brokers, self.holders(place)
        return not named or holders is None or bool(named & holders)

    def nodes_of(self, step: str) -> str | None:
        """The expression of the nodes that an earlier fault broke; None where it may break others, too, as a split."""
        fault = self.earlier.get(step)
        if not isinstance(fault, Fault) or not fault.only_victims:
            return None
        nodes = fault.victims()
        return self.nodes_of(parse_nodes(nodes).of) if nodes.startswith("same(") else nodes or None

    def leaves_moving(self) -> bool:
        """Whether an earlier step starts a reassignment and does not wait for its end."""
        return any(kind.do == "reassign" and not getattr(kind, "wait", True) for kind in self.earlier.values())

    def reach(self, text: str) -> Reach:
        """The nodes that an expression will name; BadInput when it will name none."""
        nodes, shape = parse_nodes(text), self.scenario.shape
        word = nodes.word
        if word == "same":
            return self.reach(self._victims(nodes))
        if word in ("broker", "brokers") and nodes.of:
            return Reach(word, BROKERS, len(ids_of(nodes)), frozenset(ids_of(nodes)))
        if word == "brokers":
            return Reach(word, BROKERS, shape.brokers, frozenset(range(1, shape.brokers + 1)))
        if word.startswith("controller"):
            majority = shape.controllers // 2 + 1
            counts = {"controllers": shape.controllers, "controller_majority": majority}
            return Reach(word, CONTROLLERS, counts.get(word, 1))
        if word == "followers":
            return Reach(word, BROKERS, self.all_topics[place_of(nodes.of)[0]].replicas - 1)
        return Reach(word, BROKERS, 1)

    def linked(self, src: str, dst: str) -> None:
        """BadInput for a link that no process opens: clients and brokers connect to brokers, nodes to controllers."""
        to = self.reach(dst)
        if src in CLIENTS:
            if src == ISOLATED:
                self._isolated()
            if to.role == CONTROLLERS:
                raise BadInput(f"dst: {dst!r} names controllers, and clients connect to none; name brokers")
            return
        of = self.reach(src)
        if of.role == CONTROLLERS and to.role == BROKERS:
            raise BadInput(
                f"src: {src!r} names controllers, which connect to no broker; name brokers, or controllers in dst"
            )
        if of.role == to.role and of.count == to.count == 1 and src == dst:
            raise BadInput(f"dst: {dst!r} is also src, and no node has a link to itself; name another node")

    # --- for the arguments of steps ---

    def check(self, marker: str, value: str | Sequence[str], *, internal: bool = False) -> None:
        """BadInput when an argument with this marker (see step.py) refers to nothing, or to the wrong kind of thing.

        `internal`: internal topics are allowed.
        """
        texts = [value] if isinstance(value, str) else value
        if marker in ("partition", "partitions", "topic") and not internal:
            self._no_internal(texts)
        for text in texts:
            self._check(marker, text)

    def _check(self, marker: str, value: str) -> None:
        if marker in ("nodes", *_WANTED) or (marker == "parties" and value not in CLIENTS):
            self._nodes(parse_nodes(value))
            if marker in _WANTED:
                self._wanted(value, *_WANTED[marker])
        elif marker == "partition":
            if value.endswith("/*"):
                raise BadInput(f'{value!r} is more than one partition; name one, as in "{value[:-1]}0"')
            partition_of(value, self.all_topics)
        elif marker == "partitions":
            partition_of(value, self.all_topics)
        elif marker in ("step", "fault"):
            self._known(value, self.earlier, "earlier step")
            if marker == "fault":
                self._victims(Nodes("same", value))
        elif marker == "producer":
            self._known(value, [p.name for p in self.scenario.producers], "producer")
        elif marker == "admin":
            self._known(value, [a.name for a in self.scenario.admin], "admin")
        elif marker == "group":
            self._known(value, self._groups(), "group of a reader")
        elif marker == "reader":
            self._known(value, [r.name for r in self.scenario.readers], "reader")
        elif marker == "topic":
            self.topic(value)

    @property
    def topics(self) -> dict[str, Topic]:
        """The scenario's topics with the partitions that earlier steps give them."""
        grown = {
            getattr(kind, "topic", ""): getattr(kind, "total", 0)
            for kind in self.earlier.values()
            if kind.do == "create_partitions"
        }
        return {t.name: replace(t, partitions=max(t.partitions, grown.get(t.name, 0))) for t in self.scenario.topics}

    @property
    def all_topics(self) -> dict[str, Topic]:
        """`topics`, and the internal topics."""
        return {**{t.name: t for t in internal_topics(self.scenario.shape)}, **self.topics}

    def _no_internal(self, texts: Iterable[str]) -> None:
        for text in texts:
            name = text.partition("/")[0]
            if name in self.all_topics and name not in self.topics:
                raise BadInput(
                    f"{text}: this step needs a producer, and none writes to {name}; name a topic of the scenario"
                )

    def _nodes(self, nodes: Nodes) -> None:
        shape = self.scenario.shape
        if nodes.word == "same":
            self._known(nodes.of, self.earlier, "earlier step")
            self._victims(nodes)
        elif nodes.word in ("broker", "brokers") and not set(ids_of(nodes)) <= set(range(1, shape.brokers + 1)):
            which = "one" if nodes.word == "broker" else "some"
            raise BadInput(f"{nodes.word}({nodes.of}): the brokers are 1 to {shape.brokers}; name {which} of them")
        elif nodes.word == "group_coordinator":
            self._known(nodes.of, self._groups(), "group")
        elif nodes.word == "txn_coordinator":
            self._known(nodes.of, [p.name for p in self.scenario.producers if p.transactions], "transactional producer")
        elif nodes.word == "share_coordinator":
            group, (topic, partition) = share_of(nodes.of)
            self._known(group, self.scenario.share_groups, "share group")
            partition_of(f"{topic}/{partition}", self.topics)
        elif nodes.word == "controller_follower" and shape.controllers == 1:
            raise BadInput("there is one controller, so none follows it; set controllers = 3 in [shape]")
        elif nodes.word == "controller_beside":
            self._known(nodes.of, self.earlier, "earlier step")
            if shape.controllers < 3:
                raise BadInput(f"{nodes.word}: there is no third controller; set controllers = 3 in [shape]")
        elif nodes.word == "tier_metadata":
            ((topic, _),) = partition_of(nodes.of, self.topics)
            if not is_tiered(self.topics[topic]):
                raise BadInput(f"tier_metadata({nodes.of}): topic {topic} is not in the remote tier; name one that is")
        elif nodes.word in _OF_PARTITIONS:
            ((topic, _),) = partition_of(nodes.of, self.all_topics)
            if nodes.word == "adding" and not self.leaves_moving():
                raise BadInput(f"{nodes.word}({nodes.of}): no earlier step leaves a reassignment under way; {MOVE}")
            if nodes.word.startswith("follower") and self.all_topics[topic].replicas == 1:
                raise BadInput(f"{topic} has one replica, and so no followers; give it replicas = 2 or more")

    def _isolated(self) -> None:
        """BadInput when cutting off the isolated client could not be proven: nothing would show it."""
        mine = {topic for p in self.scenario.producers if p.isolated_client for topic in p.topics}
        others = {topic for p in self.scenario.producers if not p.isolated_client for topic in p.topics}
        if not mine - others:
            raise BadInput(
                "src: no isolated client has a topic for itself; give a producer isolated_client = true and a topic "
                "that no other producer writes to"
            )
        if not others:
            raise BadInput(
                "src: every producer is an isolated client, so no acks could continue; "
                "add a producer without isolated_client"
            )

    def _wanted(self, text: str, role: str, only_one: bool) -> None:
        found = self.reach(text)
        if found.role != role:
            raise BadInput(f"{text!r} names {found.role}, and this step takes {role} only; name {_example(role)}")
        if only_one and found.count > 1:
            raise BadInput(f"{text!r} names {found.count} {role}, and this step takes one; name {_example(role)}")

    def _victims(self, nodes: Nodes) -> str:
        fault = self.earlier[nodes.of]
        victims = fault.victims() if isinstance(fault, Fault) else ""
        if not victims:
            raise BadInput(f"the step {nodes.of!r} chose no nodes; name a fault that breaks nodes")
        return victims

    def _groups(self) -> list[str]:
        """The groups of readers and of processors."""
        processing = [p.processes.group for p in self.scenario.producers if p.processes]
        return [*(r.group for r in self.scenario.readers if r.group), *processing]

    @staticmethod
    def _known(word: str, known: Collection[str], noun: str) -> None:
        if word not in known:
            raise BadInput(f"no {noun} {word!r}{hint(word, known)}")


def _example(role: str) -> str:
    return '"leader(TOPIC/0)" or "broker(2)"' if role == BROKERS else '"controller" or "controller_follower"'

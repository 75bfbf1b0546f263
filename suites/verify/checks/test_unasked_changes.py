"""Changes in the metadata log that nobody asked for; each with near misses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from harness.model.documents.scenario import PlannedAdmin
from harness.model.documents.steps import Effect, Step
from harness.model.facts import Fact, FactKind
from harness.model.finding import Kind
from harness.model.history.changes import (
    AnyChange,
    ConfigChange,
    FeatureChange,
    PartitionChange,
    ResourceKind,
    TopicChange,
    TopicEvent,
)
from harness.verify.checks.unasked_changes import unasked_changes
from harness.verify.engine.case import Case
from suites.verify.history import START_NS
from suites.verify.judging import case_of_history
from suites.verify.metadata import Metadata
from suites.verify.samples import sampled

LATER: Final[dict[str, Any]] = {"time_ns": START_NS + 10**9, "offset": 50, "controller_epoch": 1}
INTERNAL: Final = "__consumer_offsets"


def step(kind: FactKind, *, held: bool | None = True, **more: Any) -> Step:
    fact = Fact(kind=kind, from_ns=START_NS, to_ns=START_NS, **more)
    times: dict[str, Any] = {"started_ns": START_NS, "ended_ns": START_NS, "healed_ns": None}
    return Step(
        name="s", do="s", is_fault=False, facts=(fact,), events=(), effect=Effect(held=held, because=""), **times
    )


def case(
    *changes: AnyChange, steps: tuple[Step, ...] = (), metadata: Metadata | None = None, admin: bool = False
) -> Case:
    """A run with one topic, in whose metadata log these changes are."""
    of = metadata or Metadata()
    of.rows += [replace(change, offset=len(of.rows) + nth) for nth, change in enumerate(changes)]
    made = case_of_history(sampled())
    assert made.run.timestamps == "send"
    scenario = made.scenario
    if admin:
        scenario = type(scenario)(admin=(PlannedAdmin(name="ops"),))
    return replace(made, history=of.history(), steps=steps, scenario=scenario)


def default(key: str = "min.insync.replicas", **more: Any) -> ConfigChange:
    return ConfigChange(**LATER | {"kind": ResourceKind.BROKER, "name": "", "key": key, "value": None} | more)


def internal(**more: Any) -> tuple[AnyChange, ...]:
    """An internal topic with a setting of its creation, and one more change of it."""
    created = TopicChange(event=TopicEvent.CREATED, topic=INTERNAL, topic_id="I", **LATER)
    own = {"kind": ResourceKind.TOPIC, "name": INTERNAL, "key": "cleanup.policy", "value": "compact"}
    first = ConfigChange(**LATER | own)
    return created, first, ConfigChange(**LATER | own | {"time_ns": START_NS + 2 * 10**9, "value": None} | more)


def setting(**more: Any) -> ConfigChange:
    """A change of a setting of the topic of the run."""
    return ConfigChange(**LATER | {"kind": ResourceKind.TOPIC, "name": "t", "key": "segment.ms", "value": "1"} | more)


def topic(name: str) -> TopicChange:
    return TopicChange(event=TopicEvent.CREATED, topic=name, topic_id="N", **LATER)


def partition() -> PartitionChange:
    """The topic of the run gets one more partition."""
    first = next(row for row in Metadata().rows if isinstance(row, PartitionChange))
    return replace(first, partition=1, **LATER)


def level(to: int, **more: Any) -> FeatureChange:
    return FeatureChange(**LATER | {"feature": "metadata.version", "level": to} | more)


def levels(*of: int) -> tuple[FeatureChange, ...]:
    return tuple(level(to) for to in of)


WRONG: Final[dict[str, tuple[Case, Kind, str]]] = {
    "a default of all brokers": (
        case(default()),
        Kind.ADMIN_PHANTOM,
        "the default min.insync.replicas of all brokers was removed at offset 6 of the metadata log, and nobody had "
        "asked for that",
    ),
    "another default than those of the admin": (case(default(), admin=True), Kind.ADMIN_PHANTOM, ""),
    "a setting of an internal topic": (
        case(*internal()),
        Kind.ADMIN_PHANTOM,
        "cleanup.policy was removed at offset 8 of the metadata log, and nobody had asked for that",
    ),
    "a setting of another topic was asked for": (
        case(*internal(), steps=(step(FactKind.CONFIG_SET, topic="t", config={}),)),
        Kind.ADMIN_PHANTOM,
        "",
    ),
    "a setting of a topic": (
        case(setting()),
        Kind.ADMIN_PHANTOM,
        "segment.ms became 1 at offset 6 of the metadata log, and nobody had asked for that",
    ),
    "a creation": (
        case(topic("new")),
        Kind.ADMIN_PHANTOM,
        "the topic was created at offset 6 of the metadata log, and nobody had asked for that",
    ),
    "a partition": (
        case(partition()),
        Kind.ADMIN_PHANTOM,
        "partition 1 was added at offset 6 of the metadata log, and nobody had asked for that",
    ),
    "a partition beside those of another topic": (
        case(partition(), steps=(step(FactKind.PARTITIONS_ADDED, topic="other"),)),
        Kind.ADMIN_PHANTOM,
        "",
    ),
    "a lower level": (case(*levels(20, 19), steps=(step(FactKind.FEATURES_RAISED),)), Kind.ADMIN_PHANTOM, ""),
    "a deletion": (
        case(metadata=Metadata().deleted(START_NS + 5)),
        Kind.ADMIN_PHANTOM,
        "the topic was deleted at offset 6 of the metadata log, and nobody had asked for that",
    ),
    "levels that were raised": (
        case(steps=(step(FactKind.FEATURES_RAISED),)),
        Kind.ADMIN_LOST,
        "feature levels were raised, and no controller wrote a higher one",
    ),
}

LEGAL: Final[dict[str, Case]] = {
    "nothing": case(),
    "the default of an admin": case(default("max.connections.per.ip"), admin=True),
    "a default that comes with a level": case(default(), *levels(1), steps=(step(FactKind.FEATURES_RAISED),)),
    "a setting of one broker": case(default(name="1")),
    "a setting of a creation": case(*internal()[:2]),
    "a setting that a step gave": case(
        *internal(), steps=(step(FactKind.CONFIG_SET, topic=INTERNAL, config={"cleanup.policy": "delete"}),)
    ),
    "a setting of a topic by a step": case(
        setting(), steps=(step(FactKind.CONFIG_SET, topic="t", config={"segment.ms": "1"}),)
    ),
    "a topic that leaves the tier": case(setting(), steps=(step(FactKind.TIER_LEFT, topic="t"),)),
    "a setting that goes with its topic": case(
        setting(value=None), metadata=Metadata(), steps=(step(FactKind.TOPIC_DELETED, topic="t"),)
    ),
    "a setting of a topic of others": case(setting(name="theirs")),
    "a topic of an admin": case(topic("ops-topic-1"), admin=True),
    "an internal topic": case(topic(INTERNAL)),
    "a partition by a step": case(partition(), steps=(step(FactKind.PARTITIONS_ADDED, topic="t"),)),
    "levels of a step": case(*levels(20, 21), steps=(step(FactKind.FEATURES_RAISED),)),
    "levels that were refused": case(steps=(step(FactKind.FEATURES_RAISED, held=False),)),
    "a deletion by a step": case(
        metadata=Metadata().deleted(START_NS + 5), steps=(step(FactKind.TOPIC_DELETED, topic="t"),)
    ),
    "an earlier topic of the name": case(
        metadata=Metadata(topic_id="earlier").deleted(START_NS).created("T", START_NS + 1)
    ),
    "a state of a snapshot": case(default(from_snapshot=True)),
    "a change before the topics": case(metadata=Metadata(rows=[default(offset=0)])),
    "damaged metadata": case(default(), steps=(step(FactKind.METADATA_DAMAGED, what="a snapshot"),)),
    "an unknown record": case(default(), metadata=Metadata().unknown()),
    "no history": replace(case(default()), history=None),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_change_that_nobody_asked_for_is_a_finding(name: str) -> None:
    of, kind, text = WRONG[name]
    (found,) = unasked_changes(of)
    assert (found.kind, found.condemns) == (kind, True)
    assert not text or found.detail == text


@pytest.mark.parametrize("name", LEGAL)
def test_no_other_change_is_a_finding(name: str) -> None:
    assert list(unasked_changes(LEGAL[name])) == []

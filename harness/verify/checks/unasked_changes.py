"""admin_phantom and admin_lost: the controllers changed something that nobody asked for, or lack raised levels.

The metadata log has every change. Controllers and brokers change no default of all brokers, no setting of a topic and
no feature level by themselves, they create and delete no topic but Kafka's own, and add no partitions. So after the
topics of the run were created, such a change needs a step whose facts cover it, or an admin of the load that works with
this setting; a request that was only to be validated (validate_only) does not count. A step that raised feature levels,
and saw the brokers report them, needs a change in the log.

Not judged: whether the change is the one that the step asked for; clusters of others, whose owners may change anything;
runs in which a step damaged metadata; and new topics beside an admin or a Kafka Streams application, which creates some
for itself. A broker creates an internal topic with its settings at once, and a new level of a feature may come with
settings of all brokers (KIP-966).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from harness.model.entities import BROKER_KEYS
from harness.model.facts import FactKind
from harness.model.finding import Finding, Kind
from harness.model.history.changes import Change, ConfigChange, FeatureChange, PartitionChange, ResourceKind
from harness.model.history.history import CLUSTER_DEFAULT, History, TopicLife
from harness.model.scenario.scenario import STREAMS
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.steps import facts_in, step_at
from harness.verify.promise import Check
from harness.verify.sentences import promise

_OWN: Final = "__"  # the names of internal topics begin with it
# The steps that may raise levels, by what they did. None of them lowers one; a step that tries to is refused.
_RAISE: Final = (FactKind.FEATURES_RAISED, FactKind.UPGRADED, FactKind.VOTERS_CHANGED, FactKind.DOWNGRADE_TRIED)
_OF_SETTINGS: Final = (FactKind.REPLICATION_THROTTLED, FactKind.ENTITY_CHANGED)
_SET: Final = (FactKind.CONFIG_SET, FactKind.CONFIG_TOGGLED)
_OF_A_TOPIC: Final = (*_SET, FactKind.TIER_LEFT, FactKind.TOPIC_DELETED)  # a deletion removes the settings, too


def _changes(known: Known) -> Addition:
    return Addition(findings=[*unasked_changes(known.case)])


def unasked_changes(case: Case) -> Iterator[Finding]:
    """One finding for each change, and one for levels that are missing."""
    history = case.history
    if history is None or not history.whole or case.run.timestamps != "send":
        return
    lives = _lives(case, history)
    if not lives or any(facts_in(case.steps, FactKind.METADATA_DAMAGED)):
        return
    begin = min(life.created.offset for life in lives)
    yield from _deletions(case, lives)
    yield from _creations(case, history, begin)
    yield from _partitions(case, history, lives)
    yield from _settings(case, history, begin)
    yield from _levels(case, history, begin)


def _lives(case: Case, history: History) -> list[TopicLife]:
    """The topics of the run. The cluster may have had others of the same names before."""
    ids = {partition.topic_id for snapshot in case.cluster.snapshots for partition in snapshot.partitions}
    return [life for life in history.topics if life.topic in case.contract.topics and life.topic_id in ids]


def _deletions(case: Case, lives: list[TopicLife]) -> Iterator[Finding]:
    asked = {fact.topic for fact in facts_in(case.steps, FactKind.TOPIC_DELETED)}
    for life in lives:
        if life.deleted is not None and life.topic not in asked:
            yield _phantom(case, life.deleted, "the topic was deleted", life.topic)


def _creations(case: Case, history: History, begin: int) -> Iterator[Finding]:
    if case.scenario.admin or any(producer.client == STREAMS for producer in case.scenario.producers or ()):
        return
    for life in history.topics:
        if life.created.offset > begin and life.topic not in case.contract.topics and not life.topic.startswith(_OWN):
            yield _phantom(case, life.created, "the topic was created", life.topic)


def _partitions(case: Case, history: History, lives: list[TopicLife]) -> Iterator[Finding]:
    asked = {fact.topic for fact in facts_in(case.steps, FactKind.PARTITIONS_ADDED)}
    began_ns = {life.topic_id: life.created.time_ns for life in lives}
    for row in history.of(PartitionChange):
        later = row.created and not row.from_snapshot and row.time_ns != began_ns.get(row.topic_id, row.time_ns)
        if later and row.topic not in asked:
            yield _phantom(case, row, f"partition {row.partition} was added", row.topic)


def _settings(case: Case, history: History, begin: int) -> Iterator[Finding]:
    created: defaultdict[str, set[int]] = defaultdict(set)
    for life in history.topics:
        created[life.topic].add(life.created.time_ns)
    for row in history.of(ConfigChange):
        if row.offset <= begin or row.from_snapshot:
            continue
        value = "was removed" if row.value is None else f"became {row.value}"
        if row.kind is ResourceKind.BROKER and row.name == CLUSTER_DEFAULT:
            if not _sets_defaults(case, row.key):
                yield _phantom(case, row, f"the default {row.key} of all brokers {value}")
        elif row.kind is ResourceKind.TOPIC and _is_judged(case, row.name) and row.time_ns not in created[row.name]:
            facts = facts_in(case.steps, *_OF_SETTINGS, *_OF_A_TOPIC)
            if all(fact.kind in _OF_A_TOPIC and fact.topic != row.name for fact in facts):
                yield _phantom(case, row, f"{row.key} {value}", row.name)


def _is_judged(case: Case, topic: str) -> bool:
    """Whether only steps may change the settings of a topic: not those of an admin, which it changes itself."""
    return topic.startswith(_OWN) or topic in case.contract.topics


def _sets_defaults(case: Case, key: str) -> bool:
    """Whether a step or an admin of the load may have set a default of all brokers."""
    if case.scenario.admin and key in BROKER_KEYS:
        return True
    facts = facts_in(case.steps, *_OF_SETTINGS, *_RAISE, *_SET)
    return any(fact.kind not in _SET or not fact.topic for fact in facts)


def _levels(case: Case, history: History, begin: int) -> Iterator[Finding]:
    steps_raise, raised = any(facts_in(case.steps, *_RAISE)), False
    levels: dict[str, int] = {}
    for row in history.of(FeatureChange):
        before = levels.get(row.feature, 0)
        levels[row.feature] = row.level
        if row.offset <= begin or row.level == before:
            continue
        raised = raised or row.level > before
        if not row.from_snapshot and (row.level < before or not steps_raise):
            yield _phantom(case, row, f"the level of {row.feature} went from {before} to {row.level}")
    for step in case.steps:
        held = step.effect is not None and step.effect.held is True and step.error is None
        if held and not raised and any(facts_in([step], FactKind.FEATURES_RAISED)):
            text = "feature levels were raised, and no controller wrote a higher one"
            yield _finding(case, Kind.ADMIN_LOST, step.started_ns, text)


def _phantom(case: Case, row: Change, what: str, topic: str | None = None) -> Finding:
    text = f"{what} at offset {row.offset} of the metadata log, and nobody had asked for that"
    return _finding(case, Kind.ADMIN_PHANTOM, row.time_ns, text, topic)


def _finding(case: Case, kind: Kind, at_ns: int | None, text: str, topic: str | None = None) -> Finding:
    return Finding(
        kind=kind,
        topic=topic,
        first_ns=at_ns,
        last_ns=at_ns,
        step=step_at(case.steps, at_ns),
        detail=text,
        contract=promise(kind, topic, None, case.contract),
    )


CHECK: Final = Check(
    promise="The controllers change nothing that nobody asked for, and keep the feature levels that were raised.",
    shares=(Kind.ADMIN_PHANTOM, Kind.ADMIN_LOST),
    adds=_changes,
    order=Order(findings=18),
    planted=(
        "admin_phantom_default_of_all_brokers",
        "admin_phantom_setting_of_an_internal_topic",
        "admin_phantom_setting_of_a_topic",
        "admin_phantom_lower_feature_level",
        "admin_phantom_deletion",
        "admin_lost_feature_level",
        "near_admin_phantom_default_that_an_admin_sets",
        "near_admin_phantom_higher_feature_level_in_an_upgrade",
    ),
)

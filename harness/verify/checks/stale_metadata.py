"""stale_metadata: a broker serves other partitions, settings or features than the metadata log has.

After all reads of the drain each broker reports the offset up to which it has applied the metadata log, the features of
that offset, and then the partitions, the settings of the topics, and its own dynamic settings. The partitions are asked
for twice: all at once, and in pages of a few, with their ELR (KIP-966). These must be a state that history.json has at
that offset or later. If no fault was open for 60 s, the broker must also have applied everything that is older,
whatever offset it reports.

A broker that replays the creation and the deletion of a topic at once keeps the dynamic settings of the topic, and
serves them for the next topic of the name. That is a known defect of Kafka, and a note.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from harness.model.documents.cluster import BrokerView, ServedPartition, Settings
from harness.model.finding import Finding, Kind
from harness.model.history.changes import (
    HIDDEN,
    NO_LEADER,
    Change,
    ConfigChange,
    FeatureChange,
    PartitionChange,
    ResourceKind,
)
from harness.model.history.history import History
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.elections import Clocks
from harness.verify.engine.known import Known
from harness.verify.engine.setting_values import same_value
from harness.verify.engine.steps import open_during
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise

# A broker on an overloaded machine applies a record of the metadata log this long after the controller wrote it.
_APPLIED_NS: Final = 60 * 10**9
_NAMED_MAX: Final = 3
_OF_THE_QUORUM: Final = "kraft.version"  # its level is in a control record, which is no change of metadata


class _Wrong(NamedTuple):
    """One entity as a broker serves it, and as the log has it. leftover: of an earlier topic of the name."""

    entity: str
    served: str
    in_log: str
    leftover: bool = False


def _brokers(known: Known) -> Addition:
    return Addition(findings=[*stale_brokers(known.case)], notes=[*settings_kept(known.case)])


def stale_brokers(case: Case) -> Iterator[Finding]:
    """One finding for each broker."""
    for view, wrong in _each(case):
        if found := [one for one in wrong if not one.leftover]:
            said = "; ".join(f"{one.entity} {one.served}, and the log has {one.in_log}" for one in found[:_NAMED_MAX])
            applied = f"broker {view.broker} has applied the metadata log up to {view.metadata_offset}"
            yield Finding(
                kind=Kind.STALE_METADATA,
                count=len(found),
                first_ns=view.asked_ns,
                last_ns=view.at_ns,
                reader=f"broker {view.broker}",
                detail=f"{applied}, and serves {said}",
                contract=promise(Kind.STALE_METADATA, None, None, case.contract),
            )


def settings_kept(case: Case) -> Iterator[str]:
    """One note for each broker that serves settings of an earlier topic of the name."""
    for view, wrong in _each(case):
        if kept := sorted(one.entity for one in wrong if one.leftover):
            yield (
                f"stale_metadata: broker {view.broker} serves {len(kept)} settings of deleted topics for the next "
                f"topic of the name ({', '.join(kept[:_NAMED_MAX])}); a broker that replays the creation and the "
                "deletion of a topic at once keeps them"
            )


def _each(case: Case) -> Iterator[tuple[BrokerView, list[_Wrong]]]:
    history, views = case.history, case.cluster.brokers or ()
    if history is None or not history.whole or history.start:
        return
    clocks = Clocks(case, history)
    # Another release may not know a setting that the log still has.
    keys = {key for view in views for settings in view.settings.values() for key in settings}
    for view in views:
        applied = _applied(case, history, clocks, view)
        wrong = [
            *_partitions(history, view.partitions, applied, [other.partitions for other in views]),
            *_partitions(history, view.described or (), applied, [] if view.described is None else [view.partitions]),
            *_settings(history, view, applied, keys),
            *_dynamic(case, history, view, applied),
            *_features(history, view),
        ]
        yield view, wrong


def _applied(case: Case, history: History, clocks: Clocks, view: BrokerView) -> int:
    """The offset in the metadata log up to which the broker must have applied it."""
    since_ns = view.asked_ns - _APPLIED_NS
    faults = [step for step in open_during(case.steps, since_ns, view.at_ns) if step.is_fault]
    waited = view.waited_s is not None and view.waited_s * 10**9 >= _APPLIED_NS
    if (faults and not waited) or case.run.timestamps != "send":
        return view.metadata_offset
    old = (row.offset for row in history.changes if row.time_ns <= since_ns and clocks.right(row))
    return max([view.metadata_offset, *old])


def _partitions(
    history: History, rows: Sequence[ServedPartition], applied: int, others: Sequence[Sequence[ServedPartition]]
) -> Iterator[_Wrong]:
    """others: answers that may have partitions which are missing here."""
    deleted = {life.topic_id: life.deleted.offset for life in history.topics if life.deleted is not None}
    served = {row.place for row in rows}
    for row in rows:
        name = f"partition {row.topic}/{row.partition} with"
        states = history.partition(row.topic_id, row.partition)
        if deleted.get(row.topic_id, applied + 1) <= applied:
            yield _Wrong(name, f"the id {row.topic_id}", f"deleted the topic at {deleted[row.topic_id]}")
        elif states and not any(_is(row, state) for state in _from(states, applied)):
            yield _Wrong(name, _said(row), _said(_from(states, applied)[0], with_elr=row.elr is not None))
    for row in (row for other in others for row in other if row.place not in served):
        states = history.partition(row.topic_id, row.partition)
        if states and states[0].offset <= applied and row.topic_id not in deleted:
            served.add(row.place)
            yield _Wrong(f"partition {row.topic}/{row.partition}", "not at all", _said(_from(states, applied)[0]))


def _from(rows: Sequence[PartitionChange], applied: int) -> Sequence[PartitionChange]:
    """The state at an offset of the metadata log, and all later ones."""
    earlier = sum(row.offset <= applied for row in rows)
    return rows[max(earlier - 1, 0) :]


def _is(row: ServedPartition, state: PartitionChange) -> bool:
    """Whether a broker reports this state. It does not name a leader that it takes for unavailable."""
    same = (row.leader_epoch, sorted(row.isr), sorted(row.replicas))
    leader = row.leader in (state.leader, NO_LEADER)
    eligible = ((row.elr, state.elr), (row.last_known_elr, state.last_known_elr))
    same_elr = all(served is None or sorted(served) == sorted(logged) for served, logged in eligible)
    return leader and same_elr and same == (state.leader_epoch, sorted(state.isr), sorted(state.replicas))


def _said(state: ServedPartition | PartitionChange, *, with_elr: bool = True) -> str:
    said = f"leader {state.leader} in epoch {state.leader_epoch}, the ISR {sorted(state.isr)}"
    if with_elr and state.elr is not None:
        said += f", the ELR {sorted(state.elr)}, the last known ELR {sorted(state.last_known_elr or ())}"
    return f"{said} and the replicas {sorted(state.replicas)}"


def _settings(history: History, view: BrokerView, applied: int, keys: Collection[str]) -> Iterator[_Wrong]:
    of_topic: defaultdict[str, list[ConfigChange]] = defaultdict(list)
    for row in history.of(ConfigChange):
        if row.kind is ResourceKind.TOPIC:
            of_topic[row.name].append(row)
    alive = {row.topic for row in view.partitions}
    deletions = {life.deleted.offset for life in history.topics if life.deleted is not None}
    for topic, settings in sorted(view.settings.items()):
        if topic not in alive or _ends(history, topic, applied):
            continue  # its topic is created or deleted just now
        changes = of_topic[topic]
        for key in sorted({*settings, *(row.key for row in changes if row.key in keys)}):
            of_key = [row for row in changes if row.key == key]
            for wrong in _setting(key, topic, settings, of_key, applied):
                gone = key in settings and [*_values(of_key, applied)] == [None]
                with_topic = bool(of_key) and of_key[-1].offset in deletions
                yield wrong._replace(leftover=gone and with_topic)


def _setting(key: str, of: str, settings: Settings, changes: Sequence[ConfigChange], applied: int) -> Iterator[_Wrong]:
    """changes: of this setting."""
    legal, served = [*_values(changes, applied)], settings.get(key)
    hidden = HIDDEN in legal or (key in settings and served is None)
    if not hidden and not any(same_value(served, value) for value in legal):
        yield _Wrong(f"the setting {key} of {of} with", _shown(served), _shown(legal[0]))


def _dynamic(case: Case, history: History, view: BrokerView, applied: int) -> Iterator[_Wrong]:
    """Settings of the broker itself and of all brokers. An earlier release may not know one of them, so that none is
    expected of a cluster that was upgraded."""
    upgraded = case.manifest.starts_on is not None
    for name, settings in (view.dynamic or {}).items():
        changes = [row for row in history.of(ConfigChange) if row.kind is ResourceKind.BROKER and row.name == name]
        for key in sorted({*settings, *(row.key for row in changes if not upgraded)}):
            of = f"broker {name}" if name else "all brokers"
            yield from _setting(key, of, settings, [row for row in changes if row.key == key], applied)


def _features(history: History, view: BrokerView) -> Iterator[_Wrong]:
    """Its levels come with the offset of its metadata, and are those of that offset. Early releases name none."""
    if not view.features:
        return
    levels: dict[str, int] = {}
    for row in history.of(FeatureChange):
        if row.offset <= view.metadata_offset:
            levels[row.feature] = row.level
    for feature in sorted({*view.features, *levels} - {_OF_THE_QUORUM}):
        served, logged = view.features.get(feature, 0), levels.get(feature, 0)
        if served != logged:
            yield _Wrong(f"the feature {feature} with", f"level {served}", f"level {logged}")


def _ends(history: History, topic: str, applied: int) -> bool:
    lives = (life for life in history.topics if life.topic == topic)
    changes: list[Change] = [row for life in lives for row in (life.created, life.deleted) if row is not None]
    return any(row.offset > applied for row in changes)


def _values(rows: Sequence[ConfigChange], applied: int) -> Iterator[str | None]:
    """The value at an offset of the metadata log, and all later ones."""
    earlier = [row.value for row in rows if row.offset <= applied]
    yield earlier[-1] if earlier else None
    yield from (row.value for row in rows if row.offset > applied)


def _shown(value: str | None) -> str:
    return "no value" if value is None else value


CHECK: Final = Check(
    promise="Every broker serves the partitions, settings and features that the metadata log has.",
    kinds={
        Kind.STALE_METADATA: Introduced(
            promise="a broker serves the state of the metadata log up to the offset that it has applied (KIP-500)"
        )
    },
    adds=_brokers,
    order=Order(findings=18, notes=46),
    planted=(
        "stale_metadata",
        "stale_metadata_of_a_setting",
        "stale_metadata_of_an_elr",
        "stale_metadata_without_a_partition_between_pages",
        "stale_metadata_of_a_broker_setting",
        "stale_metadata_of_a_feature",
        "stale_metadata_of_a_broker_that_was_waited_for",
        "near_stale_metadata_of_a_broker_soon_after_a_fault",
        "near_stale_metadata_that_is_about_to_change",
        "near_stale_metadata_of_an_earlier_topic",
    ),
)

"""admin_lost: a topic of the load has not the settings and the number of replicas with which it was created, or which a
step gave it later.

A creation of a topic and a change of its settings are acknowledged like any operation of an admin, and the promises of
this run rest on them. So the settings that the brokers report last are held against the scenario. The metadata log may
lack what was acknowledged, so it is not asked: there every node would agree. A topic that was deleted and created again
has the settings of its creation.

Not judged: settings that no broker reports, since an older release may not know them; those of a step that failed or
ended shortly before the report, or that changes settings in turn; those of the tier where a step takes the topic out;
and clusters of others, whose metadata log is not read: their owners may replace what a client asks for. No step takes
replicas away for good; while one moves there may be more of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from harness.model.documents.cluster import Snapshot
from harness.model.documents.scenario import PlannedTopic
from harness.model.documents.steps import Step
from harness.model.facts import Fact, FactKind
from harness.model.finding import Finding, Kind
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.setting_values import same_value
from harness.verify.promise import Check
from harness.verify.sentences import promise

_SHOWN_NS: Final = 10 * 10**9  # the broker that was asked may learn of a change so late
_TIER: Final = ("remote.", "local.")


def _settings(known: Known) -> Addition:
    case, last = known.case, known.case.last_snapshot
    if last is None or case.history is None or case.run.timestamps != "send":
        return Addition()
    return Addition(findings=[*_lost_settings(case, last), *_lost_replicas(case, last)])


def _lost_settings(case: Case, last: Snapshot) -> Iterator[Finding]:
    """One finding for each topic."""
    for topic in case.scenario.topics or ():
        served = (last.topic_configs or {}).get(topic.name)
        if served is None:
            continue
        given = _given(case, topic, last.at_ns)
        wrong = {
            key: value
            for key, value in sorted(given.items())
            if served.get(key) is not None and not same_value(served[key], value)
        }
        if wrong:
            yield _finding(case, topic.name, wrong, served, last.at_ns)


def _lost_replicas(case: Case, last: Snapshot) -> Iterator[Finding]:
    """One finding for each partition."""
    for p in last.partitions:
        given = case.contract.topics.get(p.topic)
        if given is not None and len(p.replicas) < given.replicas:
            yield Finding(
                kind=Kind.ADMIN_LOST,
                topic=p.topic,
                partition=p.partition,
                count=given.replicas - len(p.replicas),
                first_ns=last.at_ns,
                last_ns=last.at_ns,
                detail=f"the topic was given {given.replicas} replicas, and the partition has {sorted(p.replicas)}",
                contract=promise(Kind.ADMIN_LOST, p.topic, None, case.contract),
            )


def _given(case: Case, topic: PlannedTopic, by_ns: int) -> dict[str, str]:
    """The settings that a topic must have at that time, without those of which that is not certain."""
    given = dict(topic.config or {})
    for step in case.steps:
        for fact in step.facts:
            if fact.topic != topic.name or fact.from_ns > by_ns:
                continue
            if fact.kind is FactKind.TOPIC_DELETED:
                given = dict(topic.config or {})
            elif fact.kind is FactKind.CONFIG_SET:
                given |= fact.config or {}
            for key in _uncertain(step, fact, by_ns, given):
                given.pop(key, None)
    return given


def _uncertain(step: Step, fact: Fact, by_ns: int, given: Mapping[str, str]) -> list[str]:
    """The settings of which nothing is certain after this fact."""
    if fact.kind is FactKind.TIER_LEFT:
        return [key for key in given if key.startswith(_TIER)]
    late = step.error is not None or (step.ended_ns or by_ns) + _SHOWN_NS > by_ns
    toggled = fact.kind is FactKind.CONFIG_TOGGLED
    return [*(fact.config or {})] if toggled or (late and fact.kind is FactKind.CONFIG_SET) else []


def _finding(case: Case, topic: str, wrong: Mapping[str, str], served: Mapping[str, str | None], at_ns: int) -> Finding:
    said = ", ".join(f"{key}={value} and the brokers report {served[key]}" for key, value in wrong.items())
    return Finding(
        kind=Kind.ADMIN_LOST,
        topic=topic,
        count=len(wrong),
        first_ns=at_ns,
        last_ns=at_ns,
        detail=f"the topic was given {said}",
        contract=promise(Kind.ADMIN_LOST, topic, None, case.contract),
    )


CHECK: Final = Check(
    promise="A topic has the settings and the replicas that it was given.",
    shares=(Kind.ADMIN_LOST,),
    adds=_settings,
    order=Order(findings=18),
    planted=(
        "admin_lost_setting_of_a_creation",
        "admin_lost_setting_of_a_step",
        "near_admin_lost_setting_of_a_failed_step",
        "near_admin_lost_setting_in_another_form",
        "admin_lost_replica",
        "near_admin_lost_replica_that_is_named_last",
    ),
)

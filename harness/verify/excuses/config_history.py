"""Which topic settings were in force, and when: the declared ones, and those that declared steps set during the run.

A setting may be in force as soon as the step that sets it begins; the one before it ends when every broker has the new
one, which the step waits for. A broker that a fault keeps from learning it uses the old one until the fault is healed.
So a setting permits what it permits from its first possible moment to its last, and nothing before or after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from harness.model.documents.steps import Step
from harness.model.facts import FactKind, as_kafka_writes
from harness.verify.engine.case import Case
from harness.verify.engine.steps import facts_in
from harness.verify.engine.tables import UNBOUNDED

# For a retention check that had begun, or a broker that was slow to report the new setting.
PROPAGATION_NS: Final = 5 * 10**9
_POLICY: Final = "cleanup.policy"
_UNCLEAN: Final = "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True)
class SettingPeriod:
    """One value of a setting and when it was in force. value: None = what the contract declares."""

    value: str | None
    from_ns: int
    until_ns: int


def config_history(case: Case, topic: str, key: str) -> list[SettingPeriod]:
    """All values that a setting of a topic had, in order."""
    changes = [change for change in _changes(case, topic) if key in change[2]]
    over = [_replaced_ns(case, step, from_ns) for step, from_ns, _ in changes]
    values: list[tuple[str | None, int]] = [(None, 0), *((config[key], from_ns) for _, from_ns, config in changes)]
    return [
        SettingPeriod(value, from_ns, min(over[n:], default=UNBOUNDED)) for n, (value, from_ns) in enumerate(values)
    ]


def compacted_until(case: Case, topic: str) -> int | None:
    """Until when compaction may have removed records of a topic; None = never."""
    contract = case.contract.topics.get(topic)
    return None if contract is None else _policy_until(case, topic, "compact", declared=contract.compacted)


def deletes_until(case: Case, topic: str) -> int | None:
    """Until when retention may have deleted segments of a topic, by size or by age; None = never."""
    contract = case.contract.topics.get(topic)
    return _policy_until(case, topic, "delete", declared=contract is None or contract.deletes)


def _policy_until(case: Case, topic: str, word: str, *, declared: bool) -> int | None:
    until = [
        period.until_ns
        for period in config_history(case, topic, _POLICY)
        if (declared if period.value is None else word in period.value)
    ]
    return max(until, default=None)


def unclean_permitted(case: Case, topic: str, at_ns: int) -> bool:
    """Whether the contract permits that a topic had an unclean election at that time."""
    contract = case.contract.topics.get(topic)
    if contract is None:
        return False
    return contract.unclean_election or in_force(case, topic, _UNCLEAN, "true", at_ns)


def in_force(case: Case, topic: str, key: str, value: str, at_ns: int) -> bool:
    """Whether declared steps may have set a setting of a topic to a value at that time."""
    return any(r.value == value and r.from_ns <= at_ns <= r.until_ns for r in config_history(case, topic, key))


def _changes(case: Case, topic: str) -> Iterator[tuple[Step, int, Mapping[str, str]]]:
    """Steps that set something, with when they began and what they set. In a negative control a step may be the very
    thing that is not permitted."""
    declared = case.contract.changes
    wanted = None if declared is None else {c.step: as_kafka_writes(c.config) for c in declared if c.topic == topic}
    for step in case.steps:
        for fact in facts_in([step], FactKind.CONFIG_SET):
            permitted = not case.run.negative_control if wanted is None else wanted.get(step.name) == fact.config
            if fact.topic == topic and step.started_ns is not None and permitted:
                yield step, step.started_ns, fact.config or {}


def _replaced_ns(case: Case, step: Step, from_ns: int) -> int:
    """The time from which no broker uses the value that this step replaced; UNBOUNDED if it failed or did not end."""
    if step.error or step.ended_ns is None:
        return UNBOUNDED
    healed = [
        row.healed_ns or row.ended_ns or UNBOUNDED
        for row in case.steps
        if row.is_fault and row.started_ns is not None and row.started_ns <= step.ended_ns
    ]
    open_then = [at_ns for at_ns in healed if at_ns >= from_ns]
    return int(min(UNBOUNDED, max([step.ended_ns, *open_then]) + PROPAGATION_NS))

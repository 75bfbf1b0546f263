"""Topics of Kafka's own as a cluster of a shape makes them, and which partition of them keeps what of whom."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from harness.model.errors import BadInput
from harness.model.scenario import ClusterShape, Scenario, Step, Topic
from harness.model.scenario_rules import nearest

OFFSETS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"
# The setting that says how many partitions each has, and what it is in clusters of the harness.
PARTITIONS: Final = {
    OFFSETS: ("offsets.topic.num.partitions", 10),
    TRANSACTIONS: ("transaction.state.log.num.partitions", 5),
}
REPLICAS_MAX: Final = 3
_OFFSETS_OF: Final = re.compile(r"offsets\(([^()]*)\)")
_SIGN: Final = 1 << 31


def internal_topics(shape: ClusterShape) -> tuple[Topic, ...]:
    """Those that steps may name; a cluster makes each when somebody first needs it."""
    replicas = min(REPLICAS_MAX, shape.brokers)
    return tuple(
        Topic(name=name, partitions=_partitions(shape, name), replicas=replicas, config={"cleanup.policy": "compact"})
        for name in PARTITIONS
    )


def offsets_partition(group: str, partitions: int) -> int:
    """The partition of __consumer_offsets that keeps a group's commits: Java's hash of its id, as its coordinator is
    found (GroupCoordinatorService.partitionFor)."""
    units = group.encode("utf-16-be")
    code = 0
    for at in range(0, len(units), 2):
        code = (31 * code + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    signed = code - 2 * _SIGN if code >= _SIGN else code
    return (0 if signed == -_SIGN else abs(signed)) % partitions


def written_out(scenario: Scenario, where: str) -> Scenario:
    """The scenario with "offsets(GROUP)" in its steps as the partition that it is, "__consumer_offsets/7"; BadInput,
    with the nearest, where there is no such group."""
    return replace(scenario, steps=tuple(_step(step, scenario, where) for step in scenario.steps))


def _step(step: Step, scenario: Scenario, where: str) -> Step:
    def place(match: re.Match[str]) -> str:
        group = match[1].strip()
        if group not in scenario.groups:
            raise BadInput(f"{where}: step {step.name}: {match[0]}: no group {group!r}{nearest(group, scenario.groups)}")
        return f"{OFFSETS}/{offsets_partition(group, _partitions(scenario.shape, OFFSETS))}"

    def spelt(value: Any) -> Any:
        if isinstance(value, str):
            return _OFFSETS_OF.sub(place, value)
        return [spelt(one) for one in value] if isinstance(value, list) else value

    return replace(step, args={key: spelt(value) for key, value in step.args.items()})


def _partitions(shape: ClusterShape, name: str) -> int:
    key, default = PARTITIONS[name]
    return int(shape.config.get(key, default))

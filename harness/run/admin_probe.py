"""What every node says of the things that admins worked on: before the load, after healing, and at the end."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from harness.evidence import BundleWriter
from harness.kafka.admin.client import AdminView, Seen
from harness.model.entities import MetadataEntity, Operation, Sort, legal, standing_topics
from harness.model.outcome import Did
from harness.model.scenario.scenario import Admin, Scenario

# By when every node has learned what the controllers agreed on: it takes milliseconds, and a starved machine's margin.
LOOK_DEADLINE_S: Final = 30.0
HEALED_DEADLINE_S: Final = 10.0  # another look follows, and the last one counts
_INTERVAL_S: Final = 0.5
_UNDONE: Final = {
    Sort.ACL: Did.DELETE_ACL,
    Sort.USER: Did.DELETE_USER,
    Sort.BROKER_CONFIG: Did.UNSET_CONFIG,
}


class Operating(Protocol):
    """What is needed of an admin that has come to its end."""

    def operations(self) -> list[Operation]: ...


class AdminProbe:
    """Writes `admin_views`. What a thing is at the first look it may be until an operation on it is acknowledged."""

    def __init__(self, admin: AdminView, scenario: Scenario, bundle: BundleWriter) -> None:
        self._admin = admin
        self._admins = scenario.admin
        self._brokers = scenario.shape.brokers
        self._bundle = bundle
        self._before: dict[str, dict[str, set[str | None]]] = {}

    def begin(self, deadline_s: float) -> None:
        """Makes the topics that stay, and takes the first look."""
        for spec in self._admins:
            self._admin.create_topics(standing_topics(spec), deadline_s=deadline_s)
        self.look("start", {})

    def look(self, phase: str, admins: Mapping[str, Operating]) -> None:
        """Asks until every broker answered, all nodes agree and every value is legal, or until its deadline.

        The last answers are kept, whatever they are.
        """
        for spec in self._admins:
            operations = admins[spec.name].operations() if admins else []
            deadline_s = HEALED_DEADLINE_S if phase == "healed" else LOOK_DEADLINE_S
            seen = self._last_look(spec, operations, deadline_s)
            if phase == "start":
                self._before[spec.name] = _values(seen)
            self._write(spec, phase, seen)

    def _last_look(self, spec: Admin, operations: Sequence[Operation], deadline_s: float) -> list[Seen]:
        give_up_at = time.monotonic() + deadline_s
        while True:
            seen = self._admin.entities(spec)
            if self._settled(seen, operations, self._before.get(spec.name)) or time.monotonic() >= give_up_at:
                return seen
            time.sleep(_INTERVAL_S)

    def _settled(
        self, seen: Sequence[Seen], operations: Sequence[Operation], before: Mapping[str, set[str | None]] | None
    ) -> bool:
        """Every broker told of every thing, all tell the same, and none tells what no operation explains."""
        reported: dict[str, list[Seen]] = defaultdict(list)
        for row in seen:
            reported[row.metadata_entity.text].append(row)
        of_entity: dict[str, list[Operation]] = defaultdict(list)
        for op in operations:
            of_entity[op.entity].append(op)
        if of_entity.keys() - reported.keys() or not reported:
            return False
        for entity, rows in reported.items():
            brokers = sum(row.node <= self._brokers for row in rows)
            if brokers < self._brokers or len({row.value for row in rows}) > 1:
                return False
            row = rows[0]
            first = {None} if before is None else before.get(entity, {None})
            if before is not None and row.value not in legal(of_entity[entity], first, row.asked_ns, row.at_ns).values:
                return False
        return True

    def _write(self, spec: Admin, phase: str, seen: Sequence[Seen]) -> None:
        table = self._bundle.table("admin_views", f"{spec.name}-{phase}")
        if seen:
            table.append(
                {
                    "phase": phase,
                    "node": [row.node for row in seen],
                    "entity": [row.metadata_entity.text for row in seen],
                    "value": [row.value for row in seen],
                    "asked_ns": [row.asked_ns for row in seen],
                    "at_ns": [row.at_ns for row in seen],
                }
            )
        table.close()


def _values(seen: Iterable[Seen]) -> dict[str, set[str | None]]:
    values: dict[str, set[str | None]] = defaultdict(set)
    for row in seen:
        values[row.metadata_entity.text].add(row.value)
    return values


def clear(admin: AdminView, scenario: Scenario) -> None:
    """Unmakes what the admins of a scenario left, so that the next one begins with the same cluster."""
    for spec in scenario.admin:
        there: dict[MetadataEntity, None] = {
            row.metadata_entity: None for row in admin.entities(spec) if row.value is not None
        }
        for metadata_entity in there:
            if metadata_entity.sort in _UNDONE:
                admin.carry_out(_UNDONE[metadata_entity.sort], metadata_entity, None)
        topics = {metadata_entity.name for metadata_entity in there if metadata_entity.sort is Sort.TOPIC}
        admin.delete_topics(sorted(topics | {topic.name for topic in standing_topics(spec)}))

"""Reads, from every node, the entities that admins changed: before the load, after healing, and at the end."""

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

# Every node has the metadata of the controllers within milliseconds. The rest is for a busy machine.
LOOK_DEADLINE_S: Final = 30.0
HEALED_DEADLINE_S: Final = 10.0  # "drained" follows, and the last answers count
_INTERVAL_S: Final = 0.5
_UNDONE: Final = {
    Sort.ACL: Did.DELETE_ACL,
    Sort.USER: Did.DELETE_USER,
    Sort.BROKER_CONFIG: Did.UNSET_CONFIG,
}


class Operating(Protocol):
    """An admin that has ended, as far as the probe needs it."""

    def operations(self) -> list[Operation]: ...


class AdminProbe:
    """Writes the table `admin_views`.

    The first answers are the values before the load: an entity may keep them until an operation on it is acknowledged.
    """

    def __init__(self, admin: AdminView, scenario: Scenario, bundle: BundleWriter) -> None:
        self._admin = admin
        self._admins = scenario.admin
        self._brokers = scenario.shape.brokers
        self._bundle = bundle
        self._before: dict[str, dict[str, set[str | None]]] = {}

    def begin(self, deadline_s: float) -> None:
        """Creates the topics that exist for the whole run, and reads every entity for the first time."""
        for spec in self._admins:
            self._admin.create_topics(standing_topics(spec), deadline_s=deadline_s)
        self.look("start", {})

    def look(self, phase: str, admins: Mapping[str, Operating]) -> None:
        """Asks until every broker has answered, all nodes agree and every value is legal, or until a deadline.

        The last answers are written, whether they agree or not.
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
        """Whether every broker reports every entity, all report the same value, and an operation explains it."""
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
    """Removes the entities that the admins of a scenario left: the next scenario begins with a clean cluster."""
    for spec in scenario.admin:
        there: dict[MetadataEntity, None] = {
            row.metadata_entity: None for row in admin.entities(spec) if row.value is not None
        }
        for metadata_entity in there:
            if metadata_entity.sort in _UNDONE:
                admin.carry_out(_UNDONE[metadata_entity.sort], metadata_entity, None)
        topics = {metadata_entity.name for metadata_entity in there if metadata_entity.sort is Sort.TOPIC}
        admin.delete_topics(sorted(topics | {topic.name for topic in standing_topics(spec)}))

"""How many replicas had to be in sync, by the settings that a history has."""

from __future__ import annotations

from harness.model.contract.contract import MIN_INSYNC
from harness.model.history.changes import ConfigChange, PartitionChange
from harness.model.history.history import History
from harness.verify.engine.case import Case


def min_isr(case: Case, history: History, state: PartitionChange, from_ns: int, to_ns: int) -> list[int] | None:
    """The values that min.insync.replicas had in these times, for the leader of this state. None = unknown."""
    begun = case.cluster.snapshots[0].topic_configs if case.cluster.snapshots else None
    first = ((begun or {}).get(state.topic) or {}).get(MIN_INSYNC)
    changes = [row for row in history.of(ConfigChange) if row.key == MIN_INSYNC]
    times = [from_ns, *(row.time_ns for row in changes if from_ns <= row.time_ns <= to_ns)]
    values = [history.topic_setting(state.topic, MIN_INSYNC, at_ns, broker=state.leader) or first for at_ns in times]
    known = [int(value) for value in values if value is not None and value.isdecimal()]
    # No record has the value that is in force when a setting was removed.
    if len(known) < len(values) or any(row.value is None for row in changes):
        return None
    return known

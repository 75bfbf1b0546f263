"""The times before, during and after the faults of a run, and the partitions to which its load floors apply."""

from __future__ import annotations

from harness.model.documents.run import Windows
from harness.model.documents.steps import Steps
from harness.model.scenario.rules import partition_of
from harness.model.scenario.scenario import Scenario


def windows_of(started_ns: int, ended_ns: int, steps: Steps) -> Windows:
    """The windows of a run, from the rows of steps.json. A fault that heals by itself ends with its step."""
    during = tuple(
        (row.started_ns, row.healed_ns or row.ended_ns or ended_ns)
        for row in steps
        if row.is_fault and row.started_ns is not None
    )
    first = min((w[0] for w in during), default=ended_ns)
    last = max((w[1] for w in during), default=started_ns)
    return Windows(before=(started_ns, first), during=during, after=(last, ended_ns))


def targets_of(scenario: Scenario) -> list[tuple[str, int]]:
    """Partitions that the floors apply to: those that the scenario names, else all with permanent producers."""
    topics = {t.name: t for t in scenario.topics}
    if scenario.floors.partitions:
        return [place for text in scenario.floors.partitions for place in partition_of(text, topics, "floors")]
    return [(name, partition) for name in sorted(scenario.fed) for partition in range(topics[name].partitions)]

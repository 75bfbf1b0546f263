"""The first lines of an auditor: what it watches, what it may use, and what it does not see."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from harness.audit.rules.rule import Rule
from harness.audit.service.budget_option import BudgetOption
from harness.audit.service.vitals import Vitals, Watch


def introduction(
    watch: Watch, rules: Mapping[str, Rule], budget: BudgetOption, db: Path, port: int | None
) -> Iterator[str]:
    """Lines for people. port: of the metrics."""
    yield f"cluster {watch.cluster_id} at {watch.bootstrap}; database {db}"
    yield f"  state of the cluster: {watch.feed}; {count(len(watch.rules), 'rule')}; budget: {budget}"
    if watch.topics:
        yield f"  watches only the topics {', '.join(watch.topics)}"
    if watch.groups:
        yield f"  watches the committed offsets of {', '.join(watch.groups)}"
    if port is not None:
        yield f"  metrics at http://127.0.0.1:{port}/metrics"
    yield f"  covered: {', '.join(watch.covered) or 'nothing'}; asked now and then: {', '.join(watch.asked)}"
    for source, why in sorted(watch.not_covered.items()):
        less = sorted(name for name, rule in rules.items() if source in rule.needs)
        yield f"  NOT covered: {source}: {why}{'; rules that see less: ' + ', '.join(less) if less else ''}"


def introduction_json(watch: Watch, budget: BudgetOption, db: Path, port: int | None) -> str:
    """The same as one JSON object."""
    plain = {"event": "started", **asdict(watch), "budget": asdict(budget), "database": str(db), "metrics_port": port}
    return json.dumps(plain)


def watching(of: Vitals) -> str:
    """The line when the state of the cluster is known."""
    only = f" that match {', '.join(of.watch.topics)}" if of.watch.topics else ""
    return (
        f"watching {count(of.topics, 'topic')}{only} with {count(of.partitions, 'partition')}, from record "
        f"{of.metadata_offset:,} on"
    )


def count(number: int, what: str) -> str:
    """A number of things, as people say it."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"

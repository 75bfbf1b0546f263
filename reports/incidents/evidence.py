"""The evidence from which the pages of all incidents of one scenario are made, read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.evidence.documents import is_there, read_json
from harness.evidence.figures import run_of
from harness.evidence.history import history_in
from harness.evidence.parsing import parse
from harness.model.documents.cluster import ClusterReports
from harness.model.documents.contract import Contract
from harness.model.documents.steps import Step, Steps
from harness.model.history.history import History
from reports.review.bands import Place
from reports.review.content import Incident
from reports.review.rates import Buckets, span_of
from reports.review.timeline import BUCKETS, buckets_in, steps_of, tried

_NO_STEPS: Final[Steps] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Parts of one bundle.

    buckets: None = neither the ledger nor the steps say a time. history, cluster, contract: None = there is none
    that can be read. missing: the parts that it lacks, a sentence each.
    """

    bundle: Path
    steps: Sequence[Step]
    buckets: Buckets | None
    history: History | None
    cluster: ClusterReports | None
    contract: Contract | None
    missing: tuple[str, ...]

    @property
    def ended_ns(self) -> int | None:
        """The last time that the evidence has, epoch nanoseconds; None = none."""
        known = [] if self.buckets is None else [self.buckets.start_ns + self.buckets.width_ns * self.buckets.count]
        known += [one.at_ns for one in self.cluster.snapshots] if self.cluster else []
        return max(known, default=None)

    def place(self, incident: Incident) -> Place | None:
        """The partition that most records of an incident are of; None if its findings name no partition."""
        counts: Counter[Place] = Counter()
        for one in incident.members:
            if one.topic is not None and one.partition is not None:
                counts[one.topic, one.topic_id or self._topic_id(one.topic), one.partition] += one.count
        return counts.most_common(1)[0][0] if counts else None

    def _topic_id(self, topic: str) -> str:
        lives = self.history.topics if self.history else ()
        return next((life.topic_id for life in reversed(lives) if life.topic == topic), "")


def evidence_of(bundle: Path) -> Evidence:
    """Reads a bundle. It raises nothing for damaged or missing files: `missing` names them."""
    missing: list[str] = []
    steps = tried(lambda: steps_of(bundle), _NO_STEPS, missing)
    buckets = buckets_in(tried(lambda: span_of(bundle), None, missing), steps, BUCKETS)
    if buckets is None:
        missing.append("Neither the ledger nor steps.json has a time, so nothing is shown by time.")
    history = tried(lambda: history_in(bundle), None, missing)
    if history is None:
        missing.append("There is no history.json, so leaders and leader epochs are not shown.")
    cluster = tried(lambda: _cluster_in(bundle), None, missing)
    if cluster is None:
        missing.append("There is no cluster.json, so the logs at the end of the run are not shown.")
    run = run_of(bundle)
    return Evidence(
        bundle=bundle,
        steps=steps,
        buckets=buckets,
        history=history,
        cluster=cluster,
        contract=None if run is None else run.contract,
        missing=tuple(missing),
    )


def _cluster_in(bundle: Path) -> ClusterReports | None:
    path = bundle / "cluster.json"
    return parse(path, read_json(path), ClusterReports) if is_there(path) else None

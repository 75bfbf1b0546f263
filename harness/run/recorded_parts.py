"""The parts of the evidence that a run has written. Named in run.json, a part that is lost later is missed."""

from __future__ import annotations

from collections.abc import Iterable

from harness.model.documents.cluster import ClusterReports
from harness.model.documents.run import Run
from harness.model.recorded import (
    ACK_OFFSETS,
    CLUSTER_KEYS,
    GIVEN,
    HISTORY,
    POSITIONS,
    PREVIOUS,
    RUN_KEYS,
    of_cluster,
    of_run,
)


def recorded_parts(run: Run, reported: ClusterReports | None, with_rows: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Their names, sorted. with_rows: table and writer of the parts of tables."""
    found = {of_run(key) for key in RUN_KEYS if getattr(run, key) is not None}
    found |= {of_cluster(key) for key in CLUSTER_KEYS if reported is not None and getattr(reported, key)}
    found |= {HISTORY} if run.has_history else set()
    for table, writer in with_rows:
        found |= {table, f"{table}/{writer}"} if table == POSITIONS else {table}
    found |= {GIVEN, PREVIOUS} if "observations" in found else set()
    found |= {ACK_OFFSETS} if "ledger" in found else set()
    return tuple(sorted(found))

"""Who reads as a reader of a scenario says: assigned, in a group that commits offsets, or in a share group."""

from __future__ import annotations

from harness.evidence.writer import BundleWriter
from harness.model.scenario.scenario import BY_ITSELF, Reader, Scenario
from harness.workload.consumers.auto_commit import AutoReader
from harness.workload.consumers.crashing_consumer import CrashingReader
from harness.workload.consumers.live_readers import LiveReader, ReadContext
from harness.workload.consumers.share_group import Acked, ShareReader


def reader_of(spec: Reader, context: ReadContext, bundle: BundleWriter, scenario: Scenario, acked: Acked) -> LiveReader:
    """Not started yet; its tables are those of a bundle. acked: the highest acknowledged offsets so far."""
    observations = bundle.table("observations", f"live-{spec.name}")
    if spec.group is None:
        return LiveReader(spec, context, observations)
    if spec.shares:
        alone = len(scenario.share_groups[spec.group]) == 1
        return ShareReader(spec, context, observations, bundle.table("deliveries", spec.name), acked, alone=alone)
    kind = AutoReader if spec.commits in BY_ITSELF else CrashingReader
    return kind(spec, context, observations, bundle.table("offset_commits", spec.name))

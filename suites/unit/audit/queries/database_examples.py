"""Databases of auditors that have ended, or that run."""

from __future__ import annotations

import json
from pathlib import Path

from harness.audit.alarms.alarm import Alarm
from harness.audit.alarms.incidents import alarm_text
from harness.audit.engine.cluster_state import ClusterState
from harness.audit.service.static import STATIC
from harness.audit.service.vitals import FACT, Vitals
from harness.audit.store.database import Database, Progress, Unwatched
from harness.audit.store.partitions import Offsets
from harness.model.history.log import Record
from suites.unit.model.history.logs import batches

STATIC_SETTINGS = {
    "log.cleanup.policy": "delete",
    "log.retention.ms": "604800000",
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "false",
}


def database(
    folder: Path,
    *records: Record,
    vitals: Vitals,
    alarms: tuple[Alarm, ...] = (),
    unwatched: tuple[Unwatched, ...] = (),
    looks: dict[tuple[str, int], Offsets] | None = None,
) -> Path:
    """The folder of a database with these records of the metadata log."""
    state = ClusterState(lambda _after, _before: None)
    state.apply(batches(*records, first=0))
    for place, offsets in (looks or {}).items():
        state.packed.put_offsets(*place, offsets)
        state.put_epochs(*place, [(0, 0), (5, 80)], -1)
    kept = Database(folder)
    for alarm in alarms:
        number = kept.put_alarm(alarm.incident, alarm.opened_ns, alarm_text(alarm))
        if alarm.ended_ns is not None:
            kept.change_alarm(number, alarm_text(alarm), alarm.ended_ns)
    for gap in unwatched:
        kept.put_unwatched(gap)
    kept.keep_fact(FACT, vitals.text())
    kept.keep_fact(STATIC, json.dumps(STATIC_SETTINGS))
    kept.save(
        state.packed,
        Progress(10, 1, vitals.at_ns),
        entities=state.take_entities(),
        chains=state.take_chains(),
    )
    kept.close()
    return folder

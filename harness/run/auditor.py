"""The auditor beside a run: a process of its own, which watches the cluster from outside as a user's would.

It changes no verdict. What it reports stands in run.json, and `harness/verify/checks/announced.py` compares it.
"""

from __future__ import annotations

import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from harness.audit.alarms.alarm import Alarm
from harness.audit.alarms.incidents import alarm_from
from harness.audit.service.child import command, last_line
from harness.audit.service.vitals import FACT, vitals_from
from harness.audit.store.database import Database
from harness.clusters.base import Cluster
from harness.clusters.processes.bound_process import bound
from harness.model.documents.audit import AlarmPlace, AuditAlarm, AuditReport
from harness.model.errors import BadInput
from harness.model.scratch import scratch

LAST_ROUND_S: Final = 5.0
_END_S: Final = 10.0  # beyond the last round
_BUDGET: Final = "cpu=10%"
_FOLDERS: Final = frozenset({"local", "kafka_local"})  # tiers with their objects in a folder


class RunAuditor:
    """`end` gives the report, whatever became of the process. Close it in any case.

    topics: a pattern of those that it watches; None = all. Without addresses of controllers it reads no metadata log.
    """

    def __init__(self, cluster: Cluster, topics: str | None = None) -> None:
        self._folder = scratch("audit")
        self._errors = Path(self._folder.name, "errors")
        self._database = Path(self._folder.name, "db")
        controllers = ",".join("{}:{}".format(*cluster.direct_address(node)) for node in cluster.addressed_controllers)
        audit = command(
            {
                "--bootstrap": cluster.bootstrap_direct(),
                "--controllers": controllers or None,
                "--command-config": cluster.command_config,
                "--topics": topics,
                "--db": self._database,
                "--tier-dir": cluster.tier_store if cluster.shape.tier in _FOLDERS else None,
                "--budget": _BUDGET,
                "--last-round": f"{LAST_ROUND_S:g}",
            }
        )
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                bound(audit), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
            )

    def end(self) -> AuditReport:
        """Lets it look at every partition once more, and ends it."""
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(LAST_ROUND_S + _END_S)
        except subprocess.TimeoutExpired:
            return AuditReport(problem=f"it did not end within {LAST_ROUND_S + _END_S:g} s of SIGTERM")
        if code != 0:
            return AuditReport(problem=f"it ended with exit code {code}: {last_line(self._errors)}")
        try:
            return report_in(self._database)
        except BadInput as unreadable:
            return AuditReport(problem=str(unreadable))

    def close(self) -> None:
        """Kills it, if it still runs, and removes its files."""
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        self._folder.cleanup()


def report_in(folder: Path) -> AuditReport:
    """The report of an auditor that has ended."""
    database = Database(folder, read_only=True)
    try:
        alarms = [_alarm(alarm_from(text)) for _, _, text in reversed(database.alarms())]
        vitals = vitals_from(database.fact(FACT) or "")
    finally:
        database.close()
    failed = "; ".join(f"the rule {rule} failed: {why}" for rule, why in vitals.failed_rules.items())
    return AuditReport(
        alarms=tuple(alarms),
        coverage=vitals.covered_now,
        whole=vitals.whole,
        cpu_s=round(vitals.cpu_s, 2),
        problem=failed or None,
    )


def _alarm(alarm: Alarm) -> AuditAlarm:
    places = [s for s in alarm.suspicions if s.partition is not None]
    return AuditAlarm(
        rule=alarm.rule,
        severity=alarm.severity,
        cause=alarm.cause,
        what=alarm.what,
        opened_ns=alarm.opened_ns,
        ended_ns=alarm.ended_ns,
        places=tuple(
            AlarmPlace(
                topic=s.topic,
                topic_id=s.topic_id,
                partition=s.partition or 0,
                first_offset=s.first_offset,
                end_offset=s.end_offset,
                metadata_offset=s.metadata_offset,
            )
            for s in places
        ),
    )

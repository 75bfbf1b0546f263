"""How the auditor's alarms compare with what the verifier proves. They change no verdict: they judge the auditor.

A loss that no alarm announced is a gap in the auditor's coverage; records that the contract permits to lose, such as
those that only acks=1 had acknowledged, were never committed or were superseded. An alarm that was raised while no
fault was active, and whose partitions lost nothing, is a false alarm. Topics of an earlier scenario on the same cluster
are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from harness.model.clock import NS_PER_S
from harness.model.documents.audit import AuditAlarm, AuditReport
from harness.model.finding import Kind
from harness.model.severity import Severity
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.promise import Check

_LOSSES: Final = frozenset({Kind.LOST, Kind.VANISHED})
_NAMED: Final = 5
_Place = tuple[str, int]  # topic id, partition


def _compared(known: Known) -> Addition:
    report = known.case.run.audit
    if report is None:
        return Addition()
    lost = {
        (run.topic_id, run.partition): run.topic
        for run in known.reported
        if run.kind in _LOSSES and run.excused_by is None
    }
    serious = [
        alarm for alarm in report.alarms if alarm.severity is not Severity.NOTICE and _of_this_run(known.case, alarm)
    ]
    gaps = sorted(f"{topic}/{place[1]}" for place, topic in lost.items() if place not in _places(serious))
    false = [alarm for alarm in serious if _calm(known.case, alarm) and not _places([alarm]) & lost.keys()]
    counts = {"alarms": len(serious), "unannounced": len(gaps), "false_alarms": len(false)}
    return Addition(counts=counts, notes=[*_notes(report, gaps, false)])


def _notes(report: AuditReport, gaps: Sequence[str], false: Sequence[AuditAlarm]) -> Iterable[str]:
    if report.problem is not None:
        yield f"the auditor did not watch the whole run: {report.problem}"
    if gaps:
        yield f"the auditor raised no alarm about lost records of {_some(gaps)}"
    for alarm in false[:_NAMED]:
        yield f"an alarm of the auditor has no cause in the run ({alarm.rule}): {alarm.what}"
    if len(false) > _NAMED:
        yield f"{len(false) - _NAMED} more alarms of the auditor have no cause in the run"


def _places(alarms: Iterable[AuditAlarm]) -> set[_Place]:
    return {(place.topic_id, place.partition) for alarm in alarms for place in alarm.places}


def _of_this_run(case: Case, alarm: AuditAlarm) -> bool:
    """Whether the alarm is about no topic, or about one that the brokers reported in this run."""
    ids = {state.topic_id for snapshot in case.cluster.snapshots for state in snapshot.partitions}
    return not alarm.places or any(place.topic_id in ids for place in alarm.places)


def _calm(case: Case, alarm: AuditAlarm) -> bool:
    """Whether no step was active when it was raised: it was before the first, or after the recovery from the last."""
    windows, recovered = case.run.windows, case.run.recovered
    if windows is None:
        return False
    if windows.before is not None and windows.before[0] <= alarm.opened_ns < windows.before[1]:
        return True
    if windows.after is None or recovered is None or not recovered.ok or recovered.waited_s is None:
        return False
    recovered_ns = windows.after[0] + int(recovered.waited_s * NS_PER_S)
    return recovered_ns < alarm.opened_ns <= windows.after[1]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


CHECK: Final = Check(
    promise="The auditor announces every loss, and raises no alarm without a cause.",
    adds=_compared,
    order=Order(notes=95),
)

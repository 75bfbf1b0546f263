"""The first alarm of the auditor about what a verdict condemns, and how long before the verdict it came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness.evidence.figures import run_of
from harness.evidence.verdicts import VERDICT, read_verdict
from harness.model.clock import NS_PER_S
from harness.model.documents.audit import AuditAlarm
from harness.model.finding import Kind
from harness.model.severity import Severity
from harness.model.verdict import Verdict

_PRECISIONS = (
    "with the exact offsets",
    "from the exact offset on",
    "with some of its offsets",
    "with other offsets",
    "without offsets",
)
_LOSSES = (Kind.LOST, Kind.VANISHED)
_Place = tuple[str, int]  # topic id, partition
_Range = tuple[int, int]


def announcement(bundle: Path) -> str:
    """One sentence about a judged bundle with findings: the most exact alarm, and among equals the first one."""
    run, verdict = run_of(bundle), read_verdict(bundle)
    if run is None or run.audit is None:
        return "no auditor watched the run"
    condemned = _condemned(verdict)
    serious = [alarm for alarm in run.audit.alarms if alarm.severity is not Severity.NOTICE]
    found = [
        (_precision(seen, condemned[place]), alarm.opened_ns, alarm.rule)
        for alarm in serious
        for place, seen in _places(alarm)
        if place in condemned
    ]
    if not found:
        problem = f" ({run.audit.problem})" if run.audit.problem else ""
        return f"no alarm about what the verdict condemns{problem}"
    precision, opened_ns, rule = min(found)
    before_s = (bundle / VERDICT).stat().st_mtime - opened_ns / NS_PER_S
    return f"{rule} {before_s:.0f} s before the verdict, {_PRECISIONS[precision]}"


def _condemned(verdict: Verdict) -> Mapping[_Place, Sequence[_Range]]:
    """Each partition with a condemning finding, and the offsets of each finding, to behind the last one. A loss is
    often several findings, so the offsets from the first to the last lost record are one more range."""
    found: dict[_Place, list[_Range]] = {}
    lost: dict[_Place, _Range] = {}
    for finding in verdict.findings:
        if not finding.condemns or finding.topic_id is None or finding.partition is None:
            continue
        place = finding.topic_id, finding.partition
        ranges = found.setdefault(place, [])
        if finding.offset_first is None or finding.offset_last is None:
            continue
        ranges.append((finding.offset_first, finding.offset_last + 1))
        if finding.kind in _LOSSES:
            before = lost.get(place, ranges[-1])
            lost[place] = min(before[0], ranges[-1][0]), max(before[1], ranges[-1][1])
    return {place: [*ranges, *([lost[place]] if place in lost else [])] for place, ranges in found.items()}


def _places(alarm: AuditAlarm) -> Iterator[tuple[_Place, _Range | None]]:
    for place in alarm.places:
        seen = None
        if place.first_offset is not None and place.end_offset is not None:
            seen = place.first_offset, place.end_offset
        yield (place.topic_id, place.partition), seen


def _precision(seen: _Range | None, condemned: Sequence[_Range]) -> int:
    """An index of _PRECISIONS."""
    if seen is None:
        return len(_PRECISIONS) - 1
    if seen in condemned:
        return 0
    if seen[0] in {first for first, _ in condemned}:
        return 1
    return 2 if any(seen[0] < end and first < seen[1] for first, end in condemned) else 3

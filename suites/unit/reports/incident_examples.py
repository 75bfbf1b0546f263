"""Bundles with findings and their records, for tests of the pages of incidents."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.evidence.columns import schema_of
from harness.evidence.documents import write_json
from harness.evidence.history import write_history
from harness.model.finding import Finding, Kind
from harness.model.schemas import FINDINGS
from harness.model.verdict import Status
from suites.unit.evidence_examples import judged, verdict
from suites.unit.reports.timeline_examples import (
    START_NS,
    TOPIC_ID,
    Row,
    at,
    history,
    led,
    position,
    send,
    step,
    write_steps,
    write_table,
)


def lost(first: int, count: int, *, partition: int = 0, **own: object) -> Finding:
    """Lost records of the stream 3, sent one each 10 ms from 1.2 s on."""
    given: dict[str, object] = {
        "kind": Kind.LOST,
        "topic": "plain",
        "topic_id": TOPIC_ID,
        "partition": partition,
        "offset_first": first,
        "offset_last": first + count - 1,
        "count": count,
        "first_ns": at(1.2),
        "last_ns": at(1.2 + count / 100),
        "step": "kill_leader",
        **own,
    }
    return Finding(**given)  # type: ignore[arg-type]  # every field has the type that its name says


def rows_of(finding: Finding) -> list[Row]:
    """The rows of findings.parquet about a finding with offsets."""
    assert finding.offset_first is not None
    return [
        {
            "kind": finding.kind.value,
            "reason": "passed",
            "topic": finding.topic,
            "topic_id": finding.topic_id,
            "partition": finding.partition,
            "offset": finding.offset_first + number,
            "stream": 3,
            "seq": 70_000 + number,
            "reader": finding.reader,
            "producer": "plain",
            "outcome": "acked",
            "called_ns": at(1.2 + number / 100) + 7,
            "returned_ns": at(1.3 + number / 100) + 9,
            "excused_by": finding.excused_by,
            "explained_by": finding.explained_by,
        }
        for number in range(finding.count)
    ]


def write_findings(bundle: Path, rows: Sequence[Row]) -> None:
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema_of(FINDINGS)), bundle / "findings.parquet")


def write_cluster(bundle: Path, ends: Mapping[int, int], lineage: Sequence[tuple[int, int]]) -> None:
    """A snapshot after healing, and the leader epochs of every replica."""
    logs = [{"broker": broker, "log_start": 0, "log_end": end} for broker, end in ends.items()]
    place = {"topic": "plain", "partition": 0}
    state = {**place, "topic_id": TOPIC_ID, "leader": 2, "isr": [2], "replicas": [*ends], "logs": logs}
    state |= {"high_watermark": min(ends.values()), "last_stable_offset": None}
    snapshot = {"phase": "drained", "at_ns": at(4), "partitions": [state], "groups": []}
    lineages = [{**place, "broker": broker, "epochs": [*map(list, lineage)]} for broker in ends]
    write_json(bundle / "cluster.json", {"snapshots": [snapshot], "lineages": lineages})


def write_logs(bundle: Path, name: str, *lines: str | bytes) -> None:
    (bundle / "logs").mkdir(exist_ok=True)
    given = [line if isinstance(line, bytes) else line.encode() for line in lines]
    (bundle / "logs" / name).write_bytes(b"".join(line + b"\n" for line in given))


def log_line(seconds: float, text: str, level: str = "INFO", hours: int = 0) -> str:
    """A line of a broker log, so many seconds after the start of the run."""
    time = datetime.fromtimestamp(START_NS / 1e9 + seconds, UTC) + timedelta(hours=hours)
    return f"[{time:%Y-%m-%d %H:%M:%S},{time.microsecond // 1000:03d}] {level} {text}"


def bundle_with(folder: Path, *findings: Finding, status: Status = Status.FAIL) -> Path:
    """A run of 4 s in which broker 2 took over from broker 1 at 2 s, and lost what broker 1 had from offset 100 on."""
    judged(folder, verdict(folder.name, status, *findings))
    acks = [{**send(i / 100, 0.01), "offset": i, "seq": i, "stream": 3} for i in range(180)]
    later = [{**send(2 + i / 100, 0.01), "offset": 100 + i, "seq": 180 + i, "stream": 3} for i in range(50)]
    write_table(folder, "ledger", [*acks, *later])
    read = [{"reader": "leader", "kind": "drain", "offset": i} for i in range(150)]
    live = [{"reader": "app", "kind": "live", "offset": i, "given_ns": at(i / 100)} for i in range(120)]
    place = {"topic": "plain", "topic_id": TOPIC_ID}
    write_table(folder, "observations", [{**place, **row} for row in (*read, *live)])
    write_table(
        folder,
        "positions",
        [position(0.5, 1, 50), position(1.5, 1, 150), position(1.5, 2, 100), position(3, 2, 150, leader_epoch=1)],
    )
    write_history(folder, history(led(-1, 1, 0, (1, 2)), led(2, 2, 1, (2,))))
    write_cluster(folder, {1: 150, 2: 150}, [(0, 0), (1, 100)])
    write_steps(folder, step("kill_leader", "kill", 1.2, 2.5))
    write_findings(folder, [row for one in findings if one.offset_first is not None for row in rows_of(one)])
    return folder


def page_of(report: Path, part: str = "") -> str:
    """The only page of an incident in a folder with this in its name."""
    (page,) = [one for one in sorted(report.glob("incident-*.html")) if part in one.name]
    return page.read_text(encoding="utf-8")


def unpacked(html: str, element: str) -> bytes:
    """The gzipped content of a script of a page."""
    (text,) = re.findall(rf'<script type="application/octet-stream" id="{element}">([^<]*)</script>', html)
    return gzip.decompress(base64.b64decode(text))


def picture_in(html: str) -> dict[str, object]:
    made: dict[str, object] = json.loads(unpacked(html, "data"))
    return made

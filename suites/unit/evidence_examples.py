"""Bundles for tests of everything that reads evidence: the hand-made example of FORMAT.md, and a judged one."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from harness.evidence.verdicts import write_verdict
from harness.model.documents.verdict_facts import VerdictFacts
from harness.model.finding import Finding, Kind
from harness.model.verdict import Doubt, Score, Status, Verdict

FORMAT = files("harness.evidence").joinpath("FORMAT.md").read_text(encoding="utf-8")


def write_example(folder: Path) -> Path:
    """The files of FORMAT.md's example, as a reader would copy them."""
    for name, content in re.findall(r"^`([\w/.]+)`\n```json\n(.*?)```", FORMAT, re.MULTILINE | re.DOTALL):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return folder


def lost(count: int = 50, *, first: int = 100, excused_by: str | None = None) -> Finding:
    return Finding(
        kind=Kind.LOST,
        topic="plain",
        topic_id="A",
        partition=0,
        offset_first=first,
        offset_last=first + count - 1,
        stream=3,
        seq_first=first,
        seq_last=first + count - 1,
        count=count,
        first_ns=1_795_265_533_567_153_459,
        last_ns=1_795_265_534_567_153_459,
        step="kill_leader",
        detail="every copy ends at offset 100",
        contract="acks=all with min.insync.replicas=2 keeps every acknowledged record",
        excused_by=excused_by,
    )


def verdict(scenario: str, status: Status, *findings: Finding) -> Verdict:
    doubts = (Doubt("floor_after", "12 acks after healing on plain-1, 500 wanted"),)
    return Verdict(
        scenario=scenario,
        status=status,
        findings=findings,
        doubts=doubts if status is Status.INCONCLUSIVE else (),
        score=Score(
            episodes=6,
            episodes_with_loss=int(status is Status.FAIL),
            loss_bound=0.39,
            acked=1000,
            durable_raw=1000 - sum(f.count for f in findings),
            share_raw=None,
            share_excused=None,
            nines_raw=None,
            nines_excused=None,
        ),
        promised=1000,
        durable=1000 - sum(f.count for f in findings if f.condemns),
        notes=(),
        not_covered=("power loss",),
        facts=VerdictFacts(),
    )


def judged(folder: Path, given: Verdict) -> Path:
    """A folder with nothing but a verdict."""
    folder.mkdir(parents=True, exist_ok=True)
    write_verdict(folder, given)
    return folder

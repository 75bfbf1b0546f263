"""A gate with every outcome that Allure shows, for tests of its results."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.evidence.gate import GateSummary, ScenarioResult, Try, decided, try_of, write_gate
from harness.evidence.verdicts import FINDINGS, write_verdict
from harness.model.documents.manifest import NamedRelease
from harness.model.verdict import Status, Verdict
from suites.unit.evidence_examples import lost, verdict
from suites.unit.reports.timeline_examples import at, write_run

HOSTILE = "<script>alert(1)</script>\x1b[31m\r\n=1+1"
RELEASE = NamedRelease(version="4.4.0", commit="abc123", source="Maven Central", kafka="4.4.0")


def write_judged(folder: Path, given: Verdict, began_s: float = 0.0, **said: object) -> Path:
    """A bundle with a timeline, two logs, a table of findings and a verdict. said: more keys of scenario.json."""
    write_run(folder)
    document = {"name": given.scenario, "title": "A title", "property": "Nothing is lost (KIP-966).", "gate": True}
    (folder / "scenario.json").write_text(json.dumps(document | {"tags": ["elections"]} | said), encoding="utf-8")
    times = {"started_ns": at(began_s), "ended_ns": at(began_s + 4)}
    (folder / "run.json").write_text(json.dumps(times), encoding="utf-8")
    (folder / "logs").mkdir()
    (folder / "logs/server-1.log").write_text(f"[1] INFO started\n{HOSTILE}\n", encoding="utf-8")
    rows = [{"kind": "lost", "reason": "=cmd()", "offset": 7}, {"kind": "lost", "reason": None, "offset": -8}]
    pq.write_table(pa.Table.from_pylist(rows), folder / FINDINGS)
    write_verdict(folder, given)
    return folder


def write_out(out: Path) -> Path:
    """A gate: a PASS, a FAIL, an INCONCLUSIVE, a FAIL before a try that passed, and scenarios without a verdict."""
    plain = {
        "good": verdict("good", Status.PASS, lost(excused_by="an unclean election")),
        "bad": verdict("bad", Status.FAIL, lost()),
        "thin": verdict("thin", Status.INCONCLUSIVE),
    }
    results = [decided(name, [try_of(name, one)]) for name, one in plain.items()]
    for name, one in plain.items():
        write_judged(out / name, one)
    tries = {"moody": verdict("moody", Status.FAIL, lost()), "moody-again": verdict("moody", Status.PASS)}
    for number, (folder, one) in enumerate(tries.items()):
        write_judged(out / folder, one, 100.0 * number, title="KAFKA-12345 returns")
    results.append(decided("moody", [try_of(folder, one) for folder, one in tries.items()]))
    results.append(ScenarioResult(name="crashed", error=f"no Java {HOSTILE}"))
    results.append(decided("gone", [Try(bundle="gone", error="its seal is broken")]))
    summary = GateSummary(
        required=("good", "bad", "thin", "moody", "crashed", "gone", "absent", "newer"),
        results=tuple(results),
        release=RELEASE,
        seed=17,
        not_run={"absent": "needs root", "beside": "needs containers"},
        not_applicable={"newer": "needs Kafka 5.0"},
        backends=("processes",),
    )
    write_gate(out, summary)
    return out

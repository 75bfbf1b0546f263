"""The report of the auditor beside a run: one with a rule that failed never looks whole."""

from __future__ import annotations

from pathlib import Path

from harness.run.auditor import report_in
from suites.unit.audit.queries.database_examples import database
from suites.unit.audit.service.vitals_examples import vitals
from suites.unit.model.history.logs import partition, topic


def test_a_rule_that_failed_is_the_problem_of_the_report(tmp_path: Path) -> None:
    sound = vitals(failed_rules={}, whole=True)
    report = report_in(database(tmp_path / "sound", topic(), partition(), vitals=sound))
    assert (report.problem, report.whole) == (None, True)
    failed = vitals(failed_rules={"tier_gap": "KeyError at on_look:7: 3"}, whole=False)
    report = report_in(database(tmp_path / "failed", topic(), partition(), vitals=failed))
    assert (report.problem, report.whole) == ("the rule tier_gap failed: KeyError at on_look:7: 3", False)

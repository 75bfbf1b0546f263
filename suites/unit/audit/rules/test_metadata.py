"""Metadata that the auditor cannot read or that does not fit."""

from __future__ import annotations

from harness.audit.rules.metadata_doubtful import MetadataDoubtful
from harness.audit.rules.metadata_unreadable import MetadataUnreadable
from harness.model.history.changes import Problem, ProblemKind
from harness.model.history.log import Unreadable
from harness.model.severity import Severity
from suites.unit.audit.rules.scene import Scene
from suites.unit.model.history.logs import change, noop, record


def test_a_record_of_an_unknown_kind() -> None:
    scene = Scene(MetadataUnreadable())
    (alarm,) = scene.records(Unreadable(2, 1, 1, None, 99, 3, "no message has the number 99"))
    assert (alarm.metadata_offset, scene.rule.severity) == (2, Severity.NOTICE)
    assert alarm.what == (
        "Record 2 of the metadata log (key 99, version 3) cannot be decoded: no message has the number 99."
    )
    assert len(scene.records(record("Invented"))) == 1


def test_records_without_a_meaning_for_the_auditor() -> None:
    assert Scene(MetadataUnreadable()).records(noop(), record("ProducerIds"), record("AccessControlEntry")) == []


def test_a_record_that_does_not_fit_the_state_before_it() -> None:
    scene = Scene(MetadataDoubtful())
    scene.records(change(number=7, Leader=1))
    found = [alarm for problem in scene.view.take_problems() for alarm in scene.rule.on_problem(problem, scene.view)]
    assert [(alarm.metadata_offset, alarm.cause) for alarm in found] == [(2, "impossible")]
    assert "At offset 2 of the metadata log, a record does not fit the state before it" in found[0].what


def test_missing_records_of_one_node() -> None:
    scene = Scene(MetadataDoubtful())
    problem = Problem(kind=ProblemKind.MISSING_RECORDS, node=3, offset=17, detail="17 to 20")
    (alarm,) = scene.rule.on_problem(problem, scene.view)
    assert (alarm.broker, scene.rule.severity) == (3, Severity.NOTICE)
    assert alarm.what == "At offset 17 of the metadata log of node 3, committed records are missing: 17 to 20."


def test_every_kind_of_problem_has_a_meaning() -> None:
    scene = Scene(MetadataDoubtful())
    for kind in ProblemKind:
        problem = Problem(kind=kind, node=None, offset=1, detail="x")
        assert len([*scene.rule.on_problem(problem, scene.view)]) == 1

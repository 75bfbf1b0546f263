"""Writes cases as Allure results, through Allure's own library. pytest and the commands share `fill`.

The library is imported when results are written: no other command needs it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import NAMESPACE_URL, uuid5

from harness.model.errors import BadInput
from reports.allure.case import Case
from reports.allure.steps import Ran

if TYPE_CHECKING:
    from allure_commons.model2 import TestResult, TestStepResult


class Sink(Protocol):
    """Takes attachments and results: a folder, or the plugins of a pytest run."""

    def report_attached_data(self, *, body: bytes, file_name: str) -> object: ...

    def report_result(self, *, result: TestResult) -> object: ...


def fill(result: TestResult, case: Case, sink: Sink) -> None:
    """Gives a result the content of a case. It keeps its uuid. Attachments go to the sink at once."""
    from allure_commons.model2 import Label, Link, Parameter, StatusDetails

    result.name, result.fullName = case.name, case.full_name
    result.historyId = result.testCaseId = case.history
    result.titlePath = []
    result.status, result.stage = case.status, "finished"
    result.statusDetails = None
    if case.message or case.flaky:
        result.statusDetails = StatusDetails(
            message=case.message, trace=case.trace or None, flaky=case.flaky or None, known=case.known or None
        )
    result.description, result.descriptionHtml = None, case.html
    result.start, result.stop = case.start_ms, case.stop_ms
    result.labels = [Label(name=name, value=value) for name, value in case.labels]
    result.links = [Link(type=kind, name=name, url=url) for kind, name, url in case.links]
    # They differ from run to run, and must not make another history.
    result.parameters = [Parameter(name=name, value=value, excluded=True) for name, value in case.parameters]
    result.steps = [_step(step) for step in case.steps]
    result.attachments = list(_attachments(case, sink))


def _step(step: Ran) -> TestStepResult:
    from allure_commons.model2 import Parameter, StatusDetails, TestStepResult

    return TestStepResult(
        name=step.name,
        status=step.status,
        stage="finished",
        statusDetails=StatusDetails(message=step.message) if step.message else None,
        start=step.start_ms,
        stop=step.stop_ms,
        parameters=[Parameter(name=name, value=value) for name, value in step.parameters],
    )


def _attachments(case: Case, sink: Sink) -> Iterable[object]:
    from allure_commons.model2 import ATTACHMENT_PATTERN, Attachment
    from allure_commons.types import AttachmentType

    for one in case.attachments:
        kind = AttachmentType[one.kind]
        name = ATTACHMENT_PATTERN.format(prefix=uuid5(NAMESPACE_URL, f"{case.uuid}/{one.name}"), ext=kind.extension)
        sink.report_attached_data(body=one.content(), file_name=name)
        yield Attachment(name=one.name, source=name, type=kind.mime_type)


def report(case: Case, sink: Sink) -> None:
    """Writes a case as a result of its own."""
    from allure_commons.model2 import TestResult

    result = TestResult(uuid=case.uuid)
    fill(result, case, sink)
    sink.report_result(result=result)


def write_results(folder: Path, cases: Iterable[Case], files: dict[str, str]) -> None:
    """Writes cases and files into a folder of Allure results. Results that it has of other runs stay.

    The same case always has the same name, so that a second judgement replaces the first one. A result gets into the
    folder after its attachments. BadInput if the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=folder))
        try:
            _write_into(unfinished, cases, files)
            for path in sorted(unfinished.iterdir(), key=lambda path: path.name.endswith("-result.json")):
                path.replace(folder / path.name)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as refusal:
        why = refusal.strerror or str(refusal)
        raise BadInput(f"{folder} cannot be written ({why}); give --allure a folder that you may write to") from None


def _write_into(folder: Path, cases: Iterable[Case], files: dict[str, str]) -> None:
    from allure_commons.logger import AllureFileLogger
    from allure_commons.model2 import TEST_CASE_PATTERN

    for case in cases:
        before = set(folder.iterdir())
        report(case, AllureFileLogger(folder))  # type: ignore[no-untyped-call]
        [written] = [path for path in folder.iterdir() if path not in before and path.name.endswith("-result.json")]
        written.replace(folder / TEST_CASE_PATTERN.format(prefix=case.uuid))  # the library takes a random name
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")

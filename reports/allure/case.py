"""The content of Allure results: one case for each try of a scenario, and one for each scenario without a verdict.

Nothing here knows Allure's library: `results` turns cases into files, with pytest and without.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import md5
from pathlib import Path
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from msgspec.structs import replace as changed

from harness.evidence.documents import read_json
from harness.evidence.gate import ScenarioResult, Try, decided, try_of
from harness.evidence.layout import PAGE, REPORT
from harness.evidence.manifest import MANIFEST, read_manifest
from harness.evidence.verdicts import read_verdict
from harness.model.doubt_names import DoubtOrigin
from harness.model.errors import BadEvidence
from harness.model.finding import LOSS_KINDS
from harness.model.verdict import Status, Verdict
from reports.allure.attachments import Attached, attached
from reports.allure.description import description
from reports.allure.steps import Ran, steps_with
from reports.incidents.moments import marks_of
from reports.junit import doubt_text, headline, story
from reports.review.content import anchor_of, incidents, sections
from reports.review.coverage import NO_FAULT
from reports.review.loaded import Loaded
from reports.sources import issues_in
from reports.summary import release_name
from reports.terminal import clean

PASSED, FAILED, BROKEN, SKIPPED = "passed", "failed", "broken", "skipped"  # Allure's words
# How messages begin; the categories of `surroundings` are made of the same texts.
LOST: Final = "FAIL, records lost"
OTHER: Final = "FAIL"
DOUBTED: Final = "INCONCLUSIVE"
NO_VERDICT: Final = "NO VERDICT"
PERMITTED: Final = "PASS, permitted"
NOT_RUN: Final = "NOT RUN"
_STATUS: Final = {Status.PASS: PASSED, Status.FAIL: FAILED, Status.INCONCLUSIVE: BROKEN}
_TEXT_MAX: Final = 4_000
_MS: Final = 1_000_000  # nanoseconds of a millisecond


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One result. All texts are clean: without control characters, and safe in HTML where they are HTML.

    uuid: the same each time for the same evidence. history: shared by all tries of a scenario, in all runs. start_ms,
    stop_ms: epoch milliseconds; None = unknown. labels, parameters: name and value. links: type, name and address.
    """

    uuid: str
    history: str
    name: str
    full_name: str
    status: str
    message: str = ""
    trace: str = ""
    flaky: bool = False
    known: bool = False
    html: str = ""
    start_ms: int | None = None
    stop_ms: int | None = None
    labels: tuple[tuple[str, str], ...] = ()
    links: tuple[tuple[str, str, str], ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    steps: tuple[Ran, ...] = ()
    attachments: tuple[Attached, ...] = ()


def cases_of(loaded: Loaded) -> Iterator[Case]:
    """All cases of a gate or a bundle; of the tries of a scenario, the one that decides is the latest."""
    for result in loaded.summary.results:
        yield from cases_of_scenario(loaded, result)
    summary = loaded.summary
    reached = {result.name for result in summary.results}
    unreached = {name: "not reached: the gate ended before it" for name in summary.lacking if name not in reached}
    for name, reason in {**unreached, **summary.not_run, **summary.not_applicable}.items():
        yield _without_run(loaded, name, reason, BROKEN if name in summary.lacking else SKIPPED)
    named = {bundle for result in summary.results for bundle in result.bundles}
    for folder, reason in loaded.without.items():
        if folder not in named:
            yield _without_run(loaded, folder, reason, BROKEN)


def cases_of_scenario(loaded: Loaded, result: ScenarioResult) -> list[Case]:
    """A case for each try of one scenario, the one that decides last."""
    tries = result.tries or tuple(Try(bundle=bundle, status=result.status) for bundle in result.bundles)
    if not tries:
        return [_without_run(loaded, result.name, f"the harness failed: {result.error}", BROKEN)]
    flaky = len({one.status for one in tries}) > 1
    cases = [_case_of_try(loaded, result, tries, number, flaky=flaky) for number in range(len(tries))]
    at = next((i for i, one in enumerate(tries) if one.bundle == result.bundle), len(tries) - 1)
    return [*cases[:at], *cases[at + 1 :], _latest(cases[at], cases)]


def _latest(case: Case, cases: Sequence[Case]) -> Case:
    """The case behind all others in time: Allure shows the result that started last, and calls the others retries.

    Only the times of the result are moved. Its steps keep theirs.
    """
    others = [one.stop_ms for one in cases if one is not case and one.stop_ms is not None]
    if not others or case.start_ms is None or case.stop_ms is None or case.start_ms > max(others):
        return case
    start = max(others) + 1
    return replace(case, start_ms=start, stop_ms=start + case.stop_ms - case.start_ms)


def _case_of_try(loaded: Loaded, result: ScenarioResult, tries: Sequence[Try], at: int, *, flaky: bool) -> Case:
    one, folder = tries[at], loaded.folder(tries[at].bundle)
    parameters = [*_parameters(loaded)]
    if len(tries) > 1:
        decides = ", which decides" if one.bundle == result.bundle else ""
        parameters.append(("try", f"{at + 1} of {len(tries)}{decides}"))
    try:
        if one.bundle in loaded.without:
            raise BadEvidence(loaded.without[one.bundle])
        verdict = read_verdict(folder)
        case = _judged(loaded, _alone(loaded, folder, verdict), verdict, folder)
    except BadEvidence as refusal:
        reason = one.error or str(refusal)
        case = replace(_without_run(loaded, result.name, reason, BROKEN), uuid=_uuid(loaded, folder))
    known = loaded.summary.known is not None and any(m.bundle == one.bundle for m in loaded.summary.known.matched)
    return replace(case, flaky=flaky, known=known, parameters=tuple((clean(n), clean(v)) for n, v in parameters))


def _alone(loaded: Loaded, folder: Path, verdict: Verdict) -> Loaded:
    """One try as if it was the only one of its gate."""
    name = verdict.scenario
    result = decided(name, [try_of(folder.name, verdict)])
    return Loaded(
        evidence=folder,
        single=True,
        summary=changed(loaded.summary, required=(name,), results=(result,)),
        verdicts={name: verdict},
        bundles={name: folder},
        without={},
    )


def _judged(loaded: Loaded, alone: Loaded, verdict: Verdict, folder: Path) -> Case:
    """The case of one bundle with its verdict. loaded: the gate that it belongs to; alone: the bundle by itself."""
    section, condemning = sections(alone)[0], incidents(alone.verdicts, condemning=True)
    said = _object(folder / "scenario.json")
    steps = steps_with(section.played, verdict)
    start, stop = _times(folder, steps)
    texts = (verdict.scenario, *_texts(said))
    return Case(
        uuid=_uuid(loaded, folder),
        history=_history(verdict.scenario),
        name=clean(f"{verdict.scenario}: {section.title}" if section.title else verdict.scenario),
        full_name=_full_name(verdict.scenario),
        status=_STATUS[verdict.status],
        message=_message(verdict),
        trace="\n".join(story(verdict)),
        html=description(section, loaded.evidence),
        start_ms=start,
        stop_ms=stop,
        labels=tuple(_labels(loaded, verdict, said, section.promise, steps)),
        links=(*_page_link(loaded, verdict.scenario), *_sources(texts)),
        steps=steps,
        attachments=tuple(attached(folder, verdict, marks_of(condemning, folder, verdict))),
    )


def _without_run(loaded: Loaded, name: str, reason: str, status: str) -> Case:
    """A scenario that has no bundle with a verdict."""
    word = NOT_RUN if status == SKIPPED else NO_VERDICT
    return Case(
        uuid=str(uuid5(NAMESPACE_URL, f"{loaded.summary.seed}/{release_name(loaded.summary, {})}/{name}")),
        history=_history(name),
        name=clean(name),
        full_name=_full_name(name),
        status=status,
        message=f"{word}: {clean(reason)}"[:_TEXT_MAX],
        labels=(("feature", "Scenarios without a verdict"), ("story", clean(reason)[:120]), *_suites(loaded, name)),
        links=tuple(_sources([name])),
        parameters=tuple(_parameters(loaded)),
    )


def _message(verdict: Verdict) -> str:
    """The first words of a result, by which the categories sort it. A PASS without permitted findings has none."""
    condemning = {finding.kind for finding in verdict.findings if finding.condemns}
    if verdict.status is Status.FAIL:
        word = LOST if condemning & LOSS_KINDS else OTHER
        return f"{word}: {headline(verdict, 'a promise was broken')}"
    if verdict.status is Status.INCONCLUSIVE:
        return f"{DOUBTED} ({_origin(verdict).value}): {doubt_text(verdict)}"[:_TEXT_MAX]
    permitted: dict[str, int] = {}
    for finding in verdict.findings:
        permitted[finding.kind.value] = permitted.get(finding.kind.value, 0) + finding.count
    found = ", ".join(f"{count} {kind}" for kind, count in permitted.items())
    return f"{PERMITTED}: {found}" if found else ""


def _origin(verdict: Verdict) -> DoubtOrigin:
    """The origin of the doubts. One about the release weighs most, as another try cannot remove it."""
    origins = {doubt.origin or DoubtOrigin.RELEASE for doubt in verdict.doubts} or {DoubtOrigin.RELEASE}
    return next(o for o in (DoubtOrigin.RELEASE, DoubtOrigin.MACHINE, DoubtOrigin.SCENARIO) if o in origins)


def _labels(
    loaded: Loaded, verdict: Verdict, said: Mapping[str, object], promise: str, steps: Sequence[Ran]
) -> Iterator[tuple[str, str]]:
    """Features are promises: the property of the scenario, and each kind of finding that breaks it.

    Stories are faults.
    """
    condemning = {finding.kind: None for finding in verdict.findings if finding.condemns}
    yield "feature", clean(promise or verdict.scenario)
    for kind in condemning:
        yield "feature", clean(f"{kind.value}: {kind.meaning}")
    for fault in dict.fromkeys(step.do for step in steps if step.is_fault) or [NO_FAULT]:
        yield "story", fault
    yield "severity", _severity(condemning.keys() & LOSS_KINDS, condemning, said)
    tags = said.get("tags")
    for tag in [*(tags if isinstance(tags, list) else ()), *dict.fromkeys(f.kind.value for f in verdict.findings)]:
        yield "tag", clean(str(tag))
    yield from _suites(loaded, verdict.scenario)


def _severity(lost: Iterable[object], condemning: Iterable[object], said: Mapping[str, object]) -> str:
    if any(True for _ in lost):
        return "blocker"
    return "critical" if any(True for _ in condemning) or said.get("gate") is True else "normal"


def _suites(loaded: Loaded, scenario: str) -> Iterator[tuple[str, str]]:
    yield "parentSuite", clean(release_name(loaded.summary, loaded.verdicts))
    yield "suite", " and ".join(loaded.summary.backends) or "unknown backend"
    yield "subSuite", clean(scenario)
    yield "framework", "kafka-durability"


def _parameters(loaded: Loaded) -> Iterator[tuple[str, str]]:
    yield "release", clean(release_name(loaded.summary, loaded.verdicts))
    if loaded.summary.backends:
        yield "backend", " and ".join(loaded.summary.backends)
    if loaded.summary.seed is not None:
        yield "seed", str(loaded.summary.seed)


def _page_link(loaded: Loaded, scenario: str) -> Iterator[tuple[str, str, str]]:
    """The review page in the evidence, at the scenario, if the page was written."""
    page = loaded.evidence / REPORT / PAGE
    number = next((i for i, one in enumerate(sections(loaded)) if one.name == scenario), 0)
    if page.is_file():
        yield "link", "review page", f"{page.resolve().as_uri()}#{anchor_of(number, scenario)}"


def _sources(texts: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """The improvement proposals and issues that texts name, each once."""
    for words, address in issues_in(texts):
        yield "issue" if words.startswith("KAFKA-") else "link", words, address


def _texts(content: object) -> Iterator[str]:
    """Every text in a JSON document."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict):
        for value in content.values():
            yield from _texts(value)
    elif isinstance(content, list):
        for value in content:
            yield from _texts(value)


def _times(folder: Path, steps: Sequence[Ran]) -> tuple[int | None, int | None]:
    """When the run began and ended, epoch milliseconds: by run.json, else by its steps."""
    run = _object(folder / "run.json")
    known = [time for step in steps for time in (step.start_ms, step.stop_ms) if time is not None]
    began, ended = run.get("started_ns"), run.get("ended_ns")
    start = began // _MS if isinstance(began, int) else min(known, default=None)
    stop = ended // _MS if isinstance(ended, int) else max(known, default=start)
    return start, stop


def _object(path: Path) -> Mapping[str, object]:
    """The keys of a JSON document; none if it is missing, damaged or something else."""
    try:
        content = read_json(path)
    except BadEvidence:
        return {}
    return content if isinstance(content, dict) else {}


def _uuid(loaded: Loaded, folder: Path) -> str:
    """The same for the same evidence, wherever it lies: its seal. A bundle without one counts by its place."""
    try:
        own = read_manifest(folder).own_sha256 if (folder / MANIFEST).is_file() else None
    except BadEvidence:
        own = None
    return str(uuid5(NAMESPACE_URL, own or f"{loaded.summary.seed}/{folder.resolve()}"))


def _full_name(scenario: str) -> str:
    return f"durability.gate#{clean(scenario)}"


def _history(scenario: str) -> str:
    """Allure's id of the history of a scenario. It has no release in it, so that releases are compared."""
    return md5(_full_name(scenario).encode(), usedforsecurity=False).hexdigest()

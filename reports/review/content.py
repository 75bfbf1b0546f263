"""The texts of the page: incidents, doubts, untested promises, and a section for each scenario."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from harness.evidence.documents import read_json
from harness.evidence.gate import ScenarioResult
from harness.model.documents.steps import Step, Steps
from harness.model.doubt_names import DoubtOrigin
from harness.model.errors import BadEvidence
from harness.model.finding import Finding, FindingKind, Kind
from harness.model.verdict import Status, Verdict
from reports.notation import kafka_notation
from reports.review.loaded import Loaded
from reports.review.timeline import steps_of
from reports.summary import (
    amount_of,
    began_lines,
    covered_by_none,
    durable_text,
    place_of,
    promised_lines,
    reason_of,
    time_of,
    try_lines,
)

RANGES_SHOWN: Final = 20
TEXTS_SHOWN: Final = 3
INCIDENTS_SHOWN: Final = 200
NOT_JUDGED: Final = "NOT JUDGED"
PERMITTED_WITH_PAGE: Final = 20  # those that break no promise are many in a large gate
_SAFE: Final = re.compile(r"[A-Za-z0-9_-]+")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_]+")
_STEM_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Findings of one kind in one partition during one step of a scenario.

    amount, where, when: sentences of their union. ranges: the first of the single findings. reasons: why they are
    permitted, or how the client caused them; () = they condemn. span_ns: the first and the last time, if known.
    members: all of them.
    """

    scenario: str
    kind: str
    meaning: str
    amount: str
    where: str
    when: str
    count: int
    findings: int
    ranges: tuple[str, ...]
    details: tuple[str, ...]
    promises: tuple[str, ...]
    reasons: tuple[str, ...]
    place: str
    span_ns: tuple[int, int] | None
    step: str
    members: tuple[Finding, ...]

    @property
    def stem(self) -> str:
        """The name of its page without a suffix, safe in file names; the same each time the evidence is judged.

        Names may differ in other characters alone, or in capital letters; the digest tells them apart.
        """
        parts = [self.scenario, self.kind, self.place, self.step]
        key = json.dumps([*parts, bool(self.reasons)]).encode("ascii")
        readable = "-".join(_UNSAFE.sub("_", part) for part in parts if part)[:_STEM_MAX]
        return f"incident-{readable}-{hashlib.sha256(key).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtLine:
    """Doubts of one name in one scenario. texts: what happened, each once."""

    scenario: str
    name: str
    origin: str
    meaning: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTested:
    """Faults, promises and scenarios that were not tested.

    by_none: covered by no scenario. by_some: with the number of scenarios that do not cover it. others: reasons why
    scenarios have no verdict, each with their names.
    """

    by_none: tuple[str, ...]
    by_some: tuple[tuple[str, int], ...]
    others: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLine:
    """One step. start, healed: such as "3.20 s", since the start of the timeline; took: "0.20 s"; empty = unknown."""

    name: str
    do: str
    is_fault: bool
    start: str
    took: str
    healed: str
    effect: str
    proved: bool | None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One scenario.

    anchor: its id in the page. look: class of its status. played: its steps, if there is a steps.json; else `steps` are
    those of the verdict. missing: the parts that its evidence lacks, a sentence each. flaky: its tries have different
    verdicts.
    """

    name: str
    anchor: str
    status: str
    look: str
    title: str
    promise: str
    facts: tuple[str, ...]
    tries: tuple[str, ...]
    played: Steps
    steps: tuple[StepLine, ...]
    not_covered: tuple[str, ...]
    notes: tuple[str, ...]
    bundle: Path | None
    missing: tuple[str, ...]
    flaky: bool = False


def incidents(verdicts: Mapping[str, Verdict], *, condemning: bool) -> list[Incident]:
    """Findings grouped by scenario, kind, partition and step: the worst kind first, then the largest count."""
    groups: defaultdict[tuple[object, ...], list[Finding]] = defaultdict(list)
    for name, verdict in verdicts.items():
        for finding in verdict.findings:
            if finding.condemns is condemning:
                groups[name, finding.kind, finding.topic, finding.partition, finding.step].append(finding)
    kinds = {name: [finding.kind for finding in found] for name, found in groups.items()}
    made = [(kinds[key][0], _incident(str(key[0]), found)) for key, found in groups.items()]
    return [one for _, one in sorted(made, key=lambda pair: (_severity(pair[0]), -pair[1].count, pair[1].scenario))]


def with_page(condemning: Sequence[Incident], permitted: Sequence[Incident]) -> list[Incident]:
    """The incidents that get a page each: at most INCIDENTS_SHOWN, those that condemn first."""
    most = min(PERMITTED_WITH_PAGE, max(0, INCIDENTS_SHOWN - len(condemning)))
    return [*condemning[:INCIDENTS_SHOWN], *permitted[:most]]


def _severity(kind: FindingKind) -> int:
    """`Kind` lists lost records first. Kinds of plugins come before all others, since their weight is not known."""
    return list(Kind).index(kind) if isinstance(kind, Kind) else -1


def _incident(scenario: str, found: Sequence[Finding]) -> Incident:
    whole = _union(found)
    return Incident(
        scenario=scenario,
        kind=whole.kind.value,
        meaning=whole.kind.meaning,
        amount=amount_of(whole),
        where=place_of(whole).removeprefix(" of ").removeprefix(", seen by "),
        when=time_of(whole).removeprefix(", "),
        count=whole.count,
        findings=len(found),
        ranges=tuple(
            f"{amount_of(one)}{place_of(one)}{time_of(one)}" for one in found[:RANGES_SHOWN] if len(found) > 1
        ),
        details=_first(kafka_notation(one.detail) for one in found),
        promises=_first(kafka_notation(one.contract) for one in found),
        reasons=_first(reason_of(one) for one in found if not one.condemns),
        place="" if whole.topic is None else f"{whole.topic}-{whole.partition}",
        span_ns=_span_ns(found),
        step=whole.step or "",
        members=tuple(found),
    )


def _span_ns(found: Sequence[Finding]) -> tuple[int, int] | None:
    times = [t for one in found for t in (one.first_ns, one.last_ns) if t is not None]
    return (min(times), max(times)) if times else None


def _union(found: Sequence[Finding]) -> Finding:
    """One finding with the sum of the counts, and the least and the greatest of offsets and times.

    Where a finding counts records of ranges that are not listed, neither is known of all of them.
    """
    if len(found) == 1:
        return found[0]
    listed = () if len({one.offset_first is None for one in found}) > 1 else found
    offsets = [o for one in listed for o in (one.offset_first, one.offset_last) if o is not None]
    times = [t for one in listed for t in (one.first_ns, one.last_ns) if t is not None]
    readers = {one.reader for one in found}
    return replace(
        found[0],
        count=sum(one.count for one in found),
        offset_first=min(offsets, default=None),
        offset_last=max(offsets, default=None),
        first_ns=min(times, default=None),
        last_ns=max(times, default=None),
        stream=None,
        reader=found[0].reader if len(readers) == 1 else None,
    )


def _first(texts: Iterable[str]) -> tuple[str, ...]:
    """The first different texts, and how many more there are."""
    known = [text for text in dict.fromkeys(texts) if text]
    rest = len(known) - TEXTS_SHOWN
    return (*known[:TEXTS_SHOWN], *([f"and {rest} more in verdict.json"] if rest > 0 else []))


def doubts(verdicts: Mapping[str, Verdict]) -> list[DoubtLine]:
    """Doubts by scenario and name. Those about the release come first, as another try cannot remove them."""
    groups: defaultdict[tuple[str, str, DoubtOrigin], list[str]] = defaultdict(list)
    for name, verdict in verdicts.items():
        for doubt in verdict.doubts:
            groups[name, doubt.name, doubt.origin or DoubtOrigin.RELEASE].append(kafka_notation(doubt.text))
    lines = [
        DoubtLine(
            scenario=scenario,
            name=name,
            origin=origin.value,
            meaning=origin.meaning,
            texts=tuple(dict.fromkeys(texts)),
        )
        for (scenario, name, origin), texts in groups.items()
    ]
    return sorted(lines, key=lambda line: (line.origin != DoubtOrigin.RELEASE.value, line.origin, line.scenario))


def not_tested(loaded: Loaded) -> NotTested:
    """Collects `not_covered` of all verdicts, and the scenarios without a verdict."""
    summary, verdicts = loaded.summary, list(loaded.verdicts.values())
    by_none = covered_by_none(verdicts)
    counts = Counter(what for v in verdicts for what in v.not_covered if what not in by_none)
    others = [(name, f"not run: {why}") for name, why in summary.not_run.items()]
    others += [(name, f"not applicable: {why}") for name, why in summary.not_applicable.items()]
    others += [(name, "left out with --without") for name in summary.left_out]
    others += [(r.name, f"harness error: {r.error}") for r in summary.results if r.status is None]
    others += [(folder, f"not judged: {why}") for folder, why in loaded.without.items()]
    others += [(folder, "not judged: gate.json does not name it; run durability verify") for folder in loaded.unnamed]
    named = {name for name, _ in others}
    why = "not asked for" if summary.part else "not reached: the gate ended before it"
    others += [(name, why) for name in summary.missing if name not in named]
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for name, reason in others:
        by_reason[reason].append(name)
    return NotTested(
        by_none=tuple(by_none),
        by_some=tuple(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))),
        others=tuple((reason, tuple(names)) for reason, names in by_reason.items()),
    )


def sections(loaded: Loaded) -> list[Section]:
    """A section for each scenario that ran, the worst first, and for each folder without a verdict."""
    shown = sorted(loaded.summary.results, key=lambda r: -(_status(r, loaded) or Status.INCONCLUSIVE).severity)
    made = [_section(number, result, loaded) for number, result in enumerate(shown)]
    known = {one.bundle for one in made}
    folders = {name: loaded.folder(name) for name in loaded.without}
    left = [(name, folder) for name, folder in folders.items() if folder not in known]
    return made + [
        _unjudged(number, name, folder if folder.is_dir() else None, loaded.without[name])
        for number, (name, folder) in enumerate(left, len(made))
    ]


def _status(result: ScenarioResult, loaded: Loaded) -> Status | None:
    """The status that gate.json has; None if it has none, or its bundle does not prove it. A FAIL stays."""
    unproven = result.bundle in loaded.without and result.status is not Status.FAIL
    return None if unproven else result.status


def _section(number: int, result: ScenarioResult, loaded: Loaded) -> Section:
    verdict, bundle = loaded.verdicts.get(result.name), loaded.bundles.get(result.name)
    missing = [*_lacking(result, loaded)]
    played = _played(bundle, missing)
    title, promise = described(bundle)
    known = _status(result, loaded)
    status = NOT_JUDGED if known is None else known.name
    return Section(
        name=result.name,
        anchor=anchor_of(number, result.name),
        status=status,
        look=status.lower().replace(" ", "-"),
        title=title,
        promise=promise,
        facts=() if verdict is None else _figures(verdict),
        tries=tuple(text.strip() for text, _ in try_lines(result)),
        played=played,
        steps=() if verdict is None else _judged(verdict),
        not_covered=() if verdict is None else verdict.not_covered,
        notes=() if verdict is None else tuple(map(kafka_notation, verdict.notes)),
        bundle=bundle if bundle is not None and bundle.is_dir() else None,
        missing=tuple(missing),
        flaky=result.flaky,
    )


def _unjudged(number: int, name: str, bundle: Path | None, why: str) -> Section:
    missing = [why]
    title, promise = described(bundle)
    return Section(
        name=name,
        anchor=anchor_of(number, name),
        status=NOT_JUDGED,
        look="not-judged",
        title=title,
        promise=promise,
        facts=(),
        tries=(),
        played=_played(bundle, missing),
        steps=(),
        not_covered=(),
        notes=(),
        bundle=bundle,
        missing=tuple(missing),
    )


def _lacking(result: ScenarioResult, loaded: Loaded) -> Iterable[str]:
    if result.error:
        yield f"The harness failed: {result.error}"
    bundle = loaded.bundles.get(result.name)
    if bundle is not None and not bundle.is_dir():
        yield f"The bundle {bundle.name} is not beside gate.json, so the timeline and the findings are missing."
    if bundle is not None and bundle.name in loaded.without:
        yield loaded.without[bundle.name]


def _figures(verdict: Verdict) -> tuple[str, ...]:
    """Counts of records. They are those of verdict.json."""
    figures = [text.strip() for text, _ in began_lines(verdict)]
    if (records := verdict.facts.records) is not None:
        figures.append(
            f"{records.attempted:,} records sent: {records.acked:,} acknowledged, {records.refused:,} refused, "
            f"{records.unknown:,} of unknown outcome"
        )
    figures += promised_lines([verdict])
    figures.append(durable_text(verdict))
    if (score := verdict.score) is not None:
        unknown = f"; of {score.episodes_unknown:,} it is unknown" if score.episodes_unknown else ""
        figures.append(
            f"{score.episodes_with_loss:,} of {score.episodes:,} fault episodes lost promised records{unknown}"
        )
    if verdict.facts.negative_control:
        figures.append(f"negative control: {verdict.facts.negative_control}")
    return tuple(figures)


def _played(bundle: Path | None, missing: list[str]) -> Steps:
    """The steps of steps.json; () without one."""
    try:
        return steps_of(bundle) if bundle is not None and bundle.is_dir() else ()
    except BadEvidence as damage:
        missing.append(f"{damage}.")
        return ()


def _judged(verdict: Verdict) -> tuple[StepLine, ...]:
    """The steps of a verdict, which have no times."""
    return tuple(
        StepLine(
            name=one.name,
            do=one.do,
            is_fault=one.is_fault,
            start="",
            took="",
            healed="",
            effect=kafka_notation((one.effect.because if one.effect else None) or ""),
            proved=one.effect.held if one.effect else None,
            error="",
        )
        for one in verdict.facts.steps
    )


def step_lines(steps: Sequence[Step], start_ns: int) -> tuple[StepLine, ...]:
    """The steps with times. start_ns: the start of the timeline, epoch nanoseconds."""

    def since(at_ns: int | None) -> str:
        return "" if at_ns is None else f"{(at_ns - start_ns) / 1e9:.2f} s"

    return tuple(
        StepLine(
            name=step.name,
            do=step.do,
            is_fault=step.is_fault,
            start=since(step.started_ns) or "did not begin",
            took="" if step.started_ns is None or step.ended_ns is None else _lasted(step.started_ns, step.ended_ns),
            healed=since(step.healed_ns),
            effect=kafka_notation((step.effect.because if step.effect else None) or ""),
            proved=step.effect.held if step.effect else None,
            error=kafka_notation(step.error or ""),
        )
        for step in steps
    )


def _lasted(from_ns: int, to_ns: int) -> str:
    return f"{(to_ns - from_ns) / 1e9:.2f} s"


def described(bundle: Path | None) -> tuple[str, str]:
    """Title and property of the scenario, as far as its scenario.json can be read."""
    try:
        content = read_json(bundle / "scenario.json") if bundle is not None else None
    except BadEvidence:
        return "", ""
    said = content if isinstance(content, dict) else {}
    title, promise = said.get("title"), said.get("property")
    return title if isinstance(title, str) else "", promise if isinstance(promise, str) else ""


def anchor_of(number: int, name: str) -> str:
    """An id that is safe in HTML and in an address."""
    return f"scenario-{name}" if _SAFE.fullmatch(name) else f"scenario-{number}"

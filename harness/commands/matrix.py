"""The matrix of contracts: each cell is a configuration at an event, played on brokers and judged.

A scenario with a [matrix] table plays one event on several topics, each with its own configuration. The result of a
topic is read from the verdict of the run and compared with the promise for its settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from harness import scenarios
from harness.commands import gate
from harness.commands.matrix_settings import OF_LATE_READERS, OF_OFFSETS, OF_RESETS, row_of, settings_at, settings_of
from harness.commands.options import GateOptions, GateResult
from harness.evidence import Bundle
from harness.evidence.matrix import MATRIX_VERSION, MatrixCell, PlayedMatrix, write_matrix
from harness.evidence.verdicts import VERDICT, read_verdict
from harness.model.contract.effects import Effect, Event, Promise, reported
from harness.model.contract.promises import promises
from harness.model.documents.verdict_facts import Availability, ByPlace, VerdictFacts
from harness.model.errors import BadInput
from harness.model.excuse import COMPACTION, SHARE_ARCHIVED, TIER_METADATA_LOST, TIER_OBJECTS_DELETED
from harness.model.exits import Exit, worst
from harness.model.finding import Finding, FindingKind, Kind
from harness.model.hints import hint
from harness.model.scenario.scenario import Matrix, Scenario
from harness.model.verdict import Status, Verdict
from harness.run.progress import Progress

TAG: Final = "contract"
# An unavailable topic gives no acknowledgement for most of a fault. An available one may give none while its leader or
# ISR changes, which is much shorter than a fault of the matrix.
UNAVAILABLE_SHARE: Final = 0.5
# Every other kind of finding counts as lost, even if the record was not acknowledged.
_SEEN: Final[Mapping[FindingKind, Effect]] = {
    Kind.DUPLICATED: Effect.DUPLICATED,
    Kind.REORDERED: Effect.REORDERED,
    Kind.REREAD: Effect.DUPLICATED,
    Kind.SKIPPED_READ: Effect.SKIPPED,
    Kind.ABORTED_READ: Effect.SHOWN,
    Kind.UNAVAILABLE: Effect.UNAVAILABLE,
}
# Figures of a verdict, by partition, that show an effect without a finding.
Figures = Mapping[Effect, Callable[[VerdictFacts], ByPlace]]
_COUNTED: Final[Figures] = {
    Effect.DUPLICATED: lambda facts: facts.redelivered,
    Effect.SHOWN: lambda facts: facts.shown_undecided,
    Effect.RETURNED: lambda facts: facts.returned,
    Effect.DELETED: lambda facts: facts.deleted,
}
_UNANSWERED: Final[Figures] = {Effect.UNKNOWN: lambda facts: facts.unknown_outcomes}
_OF_LATE_READERS: Final[Figures] = {Effect.DELETED: lambda facts: facts.missed}
_OF_RESETS: Final[Figures] = {
    Effect.DUPLICATED: lambda facts: facts.redelivered,
    **_OF_LATE_READERS,
    Effect.STOPPED: lambda facts: facts.stopped,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One configuration at one event.

    seen: effects with their number of records, or of seconds; empty = kept. status: of the scenario that played it;
    None = no verdict. evidence: the folder of its bundle. exactly: the number of records that the worst effect must
    have; None = the steps do not determine it.
    """

    scenario: str
    event: Event
    topic: str
    row: str
    promised: Promise
    status: Status | None
    seen: Mapping[Effect, float]
    silent_s: float
    evidence: str | None = None
    exactly: int | None = None
    settings: Mapping[str, object] = field(default_factory=dict)  # of topic and clients, as plain JSON types

    @property
    def holds(self) -> bool:
        """Whether the scenario passed and the effects are exactly the promised ones."""
        promised = self.promised.effects
        as_many = self.exactly is None or self.counted == self.exactly
        return self.status is Status.PASS and self._worst is promised[0] and set(self.seen) <= set(promised) and as_many

    @property
    def counted(self) -> float:
        """The number of records, or of seconds, of the worst effect."""
        return self.seen.get(self._worst, 0)

    @property
    def _worst(self) -> Effect:
        return next((effect for effect in Effect if effect in self.seen), Effect.KEPT)

    @property
    def text(self) -> str:
        """The result as text."""
        if self.status is None:
            return f"not played (promised: {', '.join(self.promised.effects)})"
        words = reported(self.seen, self.silent_s)
        if self.holds:
            return words
        exactly = "" if self.exactly is None else f" {self.exactly:,}"
        return f"{words} ({self.status.name}; promised:{exactly} {', '.join(self.promised.effects)})"

    @property
    def document(self) -> MatrixCell:
        """The cell as contracts.json has it."""
        return MatrixCell(
            scenario=self.scenario,
            event=self.event.name,
            happens=self.event.happens,
            topic=self.topic,
            configuration=self.row,
            settings=self.settings,
            promised=tuple(self.promised.effects),
            exactly=self.exactly,
            seen=self.seen,
            without_acks_s=self.silent_s,
            status=self.status,
            holds=self.holds,
            text=self.text,
            which=self.promised.which,
            why=self.promised.why,
            source=self.promised.source,
            fix=tuple(self.promised.fix),
            evidence=self.evidence,
        )


def played_now(result: GateResult, cells: Sequence[Cell]) -> PlayedMatrix:
    """The matrix of a run that has just ended."""
    summary = result.summary
    asked = tuple(dict.fromkeys(cell.scenario for cell in cells))
    return PlayedMatrix(
        format_version=MATRIX_VERSION,
        release=str(summary.release.version),
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        seed=summary.seed,
        backends=summary.backends,
        took_s=summary.took_s,
        only=() if set(asked) >= set(matrix_scenarios()) else asked,
        records=summary.records,
        cells=tuple(cell.document for cell in cells),
    )


def matrix_scenarios() -> dict[str, Scenario]:
    """Built-in scenarios of the matrix by name; those that can share a cluster are adjacent."""
    return {scenario.name: scenario for scenario in scenarios.tagged([TAG])}


def chosen(only: Sequence[str], tags: Sequence[str] = ()) -> tuple[str, ...]:
    """Names of scenarios of the matrix: all, or those chosen by scenario, event or tag. BadInput for an unknown one."""
    every = matrix_scenarios()
    by_event: dict[str, list[str]] = {}
    for name, scenario in every.items():
        assert scenario.matrix is not None
        for event in {scenario.matrix.at(topic): None for topic in scenario.matrix.topics}:
            by_event.setdefault(event, []).append(name)
    names: list[str] = []
    for one in only:
        if one not in every and one not in by_event:
            raise BadInput(f"the matrix has no event or scenario {one!r}{hint(one, [*every, *by_event])}")
        names += [one] if one in every else by_event[one]
    for tag in tags:
        tagged = [name for name, scenario in every.items() if tag in scenario.tags]
        if not tagged:
            raise BadInput(f"no scenario of the matrix has the tag {tag!r}{hint(tag, _tags(every))}")
        names += tagged
    return tuple(name for name in every if not (only or tags) or name in names)


def _tags(every: Mapping[str, Scenario]) -> set[str]:
    return {tag for scenario in every.values() for tag in scenario.tags}


def play(options: GateOptions, progress: Progress) -> tuple[GateResult, list[Cell]]:
    """Plays the scenarios that `options.only` names, and writes the matrix beside their evidence."""
    result = gate.gate(options, progress)
    return result, write(result)


def write(result: GateResult) -> list[Cell]:
    """Writes the matrix of a gate that has just ended beside its evidence: contracts.json."""
    cells = list(cells_of(result))
    write_matrix(result.out, played_now(result, cells))
    return cells


def exit_of(result: GateResult, cells: Sequence[Cell]) -> Exit:
    """The gate's own, and INCONCLUSIVE where a cell shows less than what was promised to happen there."""
    played = [cell for cell in cells if cell.status is not None]
    shown = bool(played) and all(cell.holds for cell in played)
    return worst([result.exit, Exit.PASS if shown else Exit.INCONCLUSIVE])


def cells_of(result: GateResult) -> Iterator[Cell]:
    """A cell of each topic of each column, also of those that nothing on this machine could play."""
    every = matrix_scenarios()
    version = str(result.summary.release.version)
    for name in result.summary.not_run:
        yield from _cells(every[name], None, version)
    for one in result.summary.results:
        path = result.out / one.bundle if one.bundle else None
        judged = path is not None and (path / VERDICT).is_file()
        yield from _cells(every[one.name], path if judged else None, version)


def declared_cells(scenario: Scenario, version: str) -> Iterator[Cell]:
    """The cells that a scenario has on a release, not played."""
    return _cells(scenario, None, version)


def _cells(scenario: Scenario, bundle: Path | None, version: str) -> Iterator[Cell]:
    matrix = scenario.matrix
    assert matrix is not None
    verdict = read_verdict(bundle) if bundle else None
    open_s = _open_s(bundle, matrix.fault) if bundle else 0.0
    for topic in matrix.topics:
        settings, client = settings_of(scenario, topic, version)
        event = matrix.at(topic)
        settings = settings_at(event, scenario, settings)
        promise = next((p for p in promises(settings, client) if p.event.name == event), None)
        if promise is None:
            raise BadInput(f"scenario {scenario.name}: matrix: {event} does not concern topic {topic}")
        silent_s = _silent_s(verdict, matrix, topic) if verdict else 0.0
        yield Cell(
            scenario=scenario.name,
            event=promise.event,
            topic=topic,
            row=row_of(scenario, topic, settings, client),
            promised=promise,
            status=verdict.status if verdict else None,
            seen=_seen(verdict, topic, promise, silent_s, open_s) if verdict else {},
            silent_s=silent_s,
            evidence=bundle.name if bundle else None,
            exactly=exactly_of(scenario, topic),
            settings={"topic": asdict(settings), "client": asdict(client)},
        )


def exactly_of(scenario: Scenario, topic: str) -> int | None:
    """The number of records that must show the effect on a topic; None if the steps do not determine it."""
    assert scenario.matrix is not None
    lost = [loss.count for loss in scenario.allowed_anomalies.exact_losses if loss.topic == topic]
    return scenario.matrix.exactly.get(topic, sum(lost) if lost else None)


def _seen(verdict: Verdict, topic: str, promise: Promise, silent_s: float, open_s: float) -> dict[Effect, float]:
    """The effects on a topic that a verdict shows.

    Records of unknown outcome count only where that is the promise; elsewhere they break no promise. A group that goes
    back to an earlier commit shows in its redelivered records.
    """
    seen: dict[Effect, float] = {}
    for finding in verdict.findings:
        if finding.topic == topic and finding.explained_by is None and not _of_no_record(finding):
            effect = _SEEN.get(finding.kind, Effect.LOST)
            excuse = _excuse_of(finding)
            if excuse == COMPACTION:
                if promise.event.name in OF_LATE_READERS:
                    continue  # read before it was removed, or missed
                effect = Effect.DELETED
            if excuse == SHARE_ARCHIVED:
                effect = Effect.ARCHIVED
            if excuse == TIER_METADATA_LOST:
                effect = Effect.LOST  # whichever finding shows it
            counts = finding.kind is Kind.LOST or (
                finding.kind in _SEEN and effect not in (Effect.DELETED, Effect.LOST)
            )
            seen[effect] = seen.get(effect, 0) + (finding.count if counts else 0)
    figures: Figures = {**_COUNTED, **(_UNANSWERED if Effect.UNKNOWN in promise.effects else {})}
    if promise.event.name in OF_RESETS:
        figures = _OF_RESETS
    if promise.event.name in OF_LATE_READERS:
        figures = _OF_LATE_READERS
    for effect, figure in figures.items():
        for place, count in figure(verdict.facts).items():
            if place.rpartition("/")[0] == topic:
                seen[effect] = seen.get(effect, 0) + count
    if open_s and silent_s >= UNAVAILABLE_SHARE * open_s:
        seen[Effect.UNAVAILABLE] = silent_s
    return {effect: seen[effect] for effect in Effect if effect in seen}


def _of_no_record(finding: Finding) -> bool:
    """Findings about state beside the records: its loss shows in the records, or breaks no promise."""
    by_hand = _excuse_of(finding) == TIER_OBJECTS_DELETED and finding.kind is Kind.TIER_OBJECT
    return by_hand or finding.kind is Kind.COMMIT_REGRESSED


def _excuse_of(finding: Finding) -> str | None:
    return finding.excuse.name if finding.excuse else None


def _silent_s(verdict: Verdict, matrix: Matrix, topic: str) -> float:
    """The longest time without an acknowledgement of any partition of a topic during the fault, in seconds.

    For events about offsets: the longest time without a commit of its group.
    """
    known = verdict.facts.availability or Availability()
    by_fault = known.without_commits_s if matrix.at(topic) in OF_OFFSETS else known.without_acks_s
    silent = by_fault.get(matrix.fault, {})
    return max((s for place, s in silent.items() if place.rpartition("/")[0] == topic), default=0.0)


def _open_s(bundle: Path, fault: str) -> float:
    """How long a fault was active, in seconds; 0 without one."""
    for step in Bundle.open(bundle).documents.steps:
        if step.name == fault and step.started_ns is not None and step.healed_ns is not None:
            return (step.healed_ns - step.started_ns) / 1e9
    return 0.0

"""A known bug as a proof of the harness: releases with the bug must FAIL because of it, those without it must PASS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from harness import clusters, scenarios
from harness.commands import gate
from harness.commands.options import OUT_DEFAULT, GateOptions, GateResult
from harness.evidence.documents import write_json
from harness.evidence.verdicts import VERDICT, read_verdict
from harness.kafka.release.cache import default_cache
from harness.model.errors import BadInput
from harness.model.exits import Exit, worst
from harness.model.hints import hint
from harness.model.scenario.scenario import Regression, Scenario
from harness.model.verdict import Status
from harness.run.progress import Progress

SUMMARY: Final = "regression.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The run of one release.

    bad: the release has the bug. kinds: kinds of findings that count. out: the folder of its run.
    exit: PASS when the verdict is the one that the release must have.
    """

    release: str
    bad: bool
    status: str | None
    kinds: tuple[str, ...]
    out: str
    exit: Exit

    @property
    def line(self) -> str:
        """The verdict on one release, and whether it is the required one."""
        status = self.status or "no verdict"
        found = f"{status} with {', '.join(self.kinds)}" if self.kinds else status
        if self.exit is Exit.PASS:
            rating = "as it must"
        elif self.bad and self.status == Status.FAIL.name:
            rating = "but not with the findings of this bug"
        else:
            rating = f"and it must {'FAIL' if self.bad else 'PASS'}"
        return f"{self.release}: {found}, {rating}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The runs of all releases, in their order."""

    issue: str
    out: Path
    played: tuple[Played, ...]

    @property
    def document(self) -> dict[str, object]:
        """The runs as plain JSON types."""
        return document_of(self.issue, self.played)

    @property
    def exit(self) -> Exit:
        """PASS when each release has the verdict that it must have. A bad one that does not FAIL is INCONCLUSIVE."""
        return worst(one.exit for one in self.played)


def issues() -> dict[str, Scenario]:
    """Scenarios that provoke a known bug in one release and not in another, by the number of the bug."""
    every = scenarios.every().values()
    return {s.regression.issue: s for s in every if s.regression is not None}


def scenario_of(issue: str) -> Scenario:
    """The scenario of a known bug; BadInput where there is none."""
    known = issues()
    if issue not in known:
        raise BadInput(f"no scenario compares releases with and without the bug {issue!r}{hint(issue, known)}")
    return known[issue]


def play(issue: str, options: GateOptions, progress: Progress) -> Outcome:
    """Runs the bug's scenario on each release that it names, and on the tested one; each run leaves its evidence."""
    scenario = scenario_of(issue)
    known = scenario.regression
    assert known is not None
    out = options.out or OUT_DEFAULT / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{issue}"
    played: list[Played] = []
    asks = [*_asked(known, options.kafka)]
    for asked, bad in asks[:]:  # a release that cannot be had is reported before any of them runs
        found = clusters.find_release(asked, maven_repo=options.maven_repo, cache=default_cache(), progress=progress)
        if asked is None and str(found.version) in (*known.bad, *known.fixed):
            asks.remove((asked, bad))  # the newest release is one of those that the scenario names
    for asked, bad in asks:
        progress.line(f"{issue} on {asked or 'the newest release'}, which must {'FAIL' if bad else 'PASS'}")
        name = "tested" if asked == options.kafka else str(asked)
        part = replace(options, kafka=asked, only=(scenario.name,), out=out / name)
        played.append(_played(gate.gate(part, progress), known, bad=bad))
        _write(out, issue, played)
    return Outcome(issue=issue, out=out, played=tuple(played))


def _asked(known: Regression, tested: str | None) -> Iterator[tuple[str | None, bool]]:
    """Each release, and whether it has the bug. The tested release must not have it; of the newest one nothing is known
    while no release has the fix."""
    yield from ((version, True) for version in known.bad)
    yield from ((version, False) for version in known.fixed)
    if tested not in (*known.bad, *known.fixed) and (known.fixed or tested is not None):
        yield tested, False


def _played(result: GateResult, known: Regression, *, bad: bool) -> Played:
    bundles = [bundle for bundle in result.bundles if (bundle / VERDICT).is_file()]
    findings = [finding for bundle in bundles for finding in read_verdict(bundle).findings if finding.condemns]
    kinds = tuple(sorted({finding.kind.value for finding in findings}))
    code = result.exit
    if bad and code in (Exit.PASS, Exit.FAIL):
        code = Exit.PASS if code is Exit.FAIL and set(known.expect) <= set(kinds) else Exit.INCONCLUSIVE
    (one,) = result.summary.results
    return Played(
        release=str(result.summary.release.version),
        bad=bad,
        status=one.status.name if one.status is not None else None,
        kinds=kinds,
        out=result.out.name,
        exit=code,
    )


def document_of(issue: str, played: Sequence[Played]) -> dict[str, object]:
    """The content of regression.json."""
    return {"issue": issue, "releases": [asdict(one) | {"exit": int(one.exit)} for one in played]}


def _write(out: Path, issue: str, played: list[Played]) -> None:
    write_json(out / SUMMARY, document_of(issue, played))

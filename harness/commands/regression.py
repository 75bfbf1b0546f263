"""A known bug as a proof of the harness: releases that have it must be convicted of it, those rid of it acquitted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from harness import clusters, scenarios
from harness.commands import gate
from harness.commands.options import OUT_DEFAULT, GateOptions, GateResult, Progress
from harness.evidence.documents import write_json
from harness.evidence.verdicts import VERDICT, read_verdict
from harness.kafka.release.cache import default_cache
from harness.model.errors import BadInput
from harness.model.exits import Exit, worst
from harness.model.scenario.scenario import Regression, Scenario
from harness.model.scenario.toml import hint
from harness.model.verdict import Status

SUMMARY: Final = "regression.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One release: what it was to come to, and what it came to. `out` is the folder of its run."""

    release: str
    bad: bool
    status: str | None
    kinds: tuple[str, ...]
    out: str
    exit: Exit

    @property
    def line(self) -> str:
        """For a reader of the terminal."""
        came = self.status or "no verdict"
        what = f"{came} with {', '.join(self.kinds)}" if self.kinds else came
        word = "as it must" if self.exit is Exit.PASS else f"and it must {'FAIL' if self.bad else 'PASS'}"
        if self.bad and self.exit is not Exit.PASS and self.status == Status.FAIL.name:
            word = "but not with what the bug does"
        return f"{self.release}: {what}, {word}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """All of them, in the order in which they ran."""

    issue: str
    out: Path
    played: tuple[Played, ...]

    @property
    def exit(self) -> Exit:
        """PASS when each came to what it must. A bad release that is not convicted proves nothing: INCONCLUSIVE."""
        return worst(one.exit for one in self.played)


def issues() -> dict[str, Scenario]:
    """Scenarios that provoke a known bug, by its number."""
    every = scenarios.builtin().values()
    return {s.regression.issue: s for s in every if s.regression is not None}


def scenario_of(issue: str) -> Scenario:
    """BadInput on a bug that no scenario provokes in one release and finds mended in another."""
    known = issues()
    if issue not in known:
        raise BadInput(f"no scenario shows {issue!r} come and go{hint(issue, known)}")
    return known[issue]


def play(issue: str, options: GateOptions, progress: Progress) -> Outcome:
    """Runs the bug's scenario on each release that it names, and on the one asked for; each run leaves its evidence."""
    scenario = scenario_of(issue)
    known = scenario.regression
    assert known is not None
    out = options.out or OUT_DEFAULT / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{issue}"
    played: list[Played] = []
    for asked, _ in _asked(known, options.kafka):  # what cannot be had is said before time is spent on the others
        clusters.find_release(asked, maven_repo=options.maven_repo, cache=default_cache(), progress=progress)
    for asked, bad in _asked(known, options.kafka):
        progress.line(f"{issue} on {asked or 'the newest release'}, which must {'FAIL' if bad else 'PASS'}")
        name = "tested" if asked == options.kafka else str(asked)
        part = replace(options, kafka=asked, only=(scenario.name,), out=out / name)
        played.append(_came_to(gate.gate(part, progress), known, bad=bad))
        _write(out, issue, played)
    return Outcome(issue=issue, out=out, played=tuple(played))


def _asked(known: Regression, tested: str | None) -> Iterator[tuple[str | None, bool]]:
    """Each release with whether it has the bug. Of the tested one nobody knows: it must not."""
    yield from ((version, True) for version in known.bad)
    yield from ((version, False) for version in known.fixed)
    if tested not in (*known.bad, *known.fixed):
        yield tested, False


def _came_to(result: GateResult, known: Regression, *, bad: bool) -> Played:
    bundles = [bundle for bundle in result.bundles if (bundle / VERDICT).is_file()]
    findings = [finding for bundle in bundles for finding in read_verdict(bundle).findings if finding.condemns]
    kinds = tuple(sorted({finding.kind.value for finding in findings}))
    code = result.exit
    if bad and code in (Exit.PASS, Exit.FAIL):
        code = Exit.PASS if code is Exit.FAIL and set(known.expect) <= set(kinds) else Exit.INCONCLUSIVE
    (one,) = result.summary.results
    return Played(
        release=str(result.summary.release.get("version")),
        bad=bad,
        status=one.status.name if one.status is not None else None,
        kinds=kinds,
        out=result.out.name,
        exit=code,
    )


def _write(out: Path, issue: str, played: list[Played]) -> None:
    rows: list[dict[str, Any]] = [asdict(one) | {"exit": int(one.exit)} for one in played]
    write_json(out / SUMMARY, {"issue": issue, "releases": rows})

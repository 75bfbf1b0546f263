"""gate.json: which scenarios a gate requires, which of them ran, and their verdicts. It lies in the --out folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from harness.evidence.documents import read_json, with_rights, write_json
from harness.evidence.manifest import MANIFEST, RELEASE
from harness.evidence.shapes import Many, misfit
from harness.model.errors import BadEvidence
from harness.model.exits import Exit, worst
from harness.model.verdict import Status, exit_of, overall

GATE: Final = "gate.json"
MATRIX: Final = "contracts.json"  # in the same folder, if events of the matrix were played
MATRIX_VERSION: Final = 2  # of contracts.json; 1 had other words for effects, and `mend` for `fix`

_FORM: Final = {
    "required": ["string"],
    "scenarios": [
        {
            "name": "string",
            "status?": tuple(status.name for status in Status),
            "bundle?": "string",
            "error?": "string",
            "earlier": ["string"],
        }
    ],
    "release": RELEASE,
    "seed?": "int",
    "not_run?": Many("string"),
    "backends?": ["string"],
    "took_s?": "number",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    """One scenario of a gate. status: None if the harness itself failed; then `error` says how, in one sentence.

    bundle: its folder, relative to the --out folder; None if there was nothing to save. earlier: bundles of the
    attempts before this one, which ended INCONCLUSIVE; a FAIL is never tried again.
    """

    name: str
    status: Status | None
    bundle: str | None = None
    error: str | None = None
    earlier: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSummary:
    """required: the scenarios of a whole gate, in order. results: those that ran. release: version, commit, source.

    not_run: required scenarios that could not run on that machine, each with the reason as a sentence. backends: on
    which it ran. took_s: how long all of it took, judging included. Older files lack `backends` and `took_s`.
    """

    required: tuple[str, ...]
    results: tuple[ScenarioResult, ...]
    release: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    not_run: Mapping[str, str] = field(default_factory=dict)
    backends: tuple[str, ...] = ()
    took_s: float | None = None

    @property
    def ran(self) -> tuple[str, ...]:
        """Names of the scenarios that have a verdict."""
        return tuple(r.name for r in self.results if r.status is not None)

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of required scenarios that have no verdict."""
        return tuple(name for name in self.required if name not in self.ran)

    @property
    def status(self) -> Status:
        """The worst status of the scenarios that ran. One in which the harness failed counts as INCONCLUSIVE."""
        return overall(Status.INCONCLUSIVE if r.status is None else r.status for r in self.results)

    @property
    def exit(self) -> Exit:
        """The exit code, by the scenarios that ran."""
        return worst(Exit.HARNESS if r.status is None else exit_of(r.status) for r in self.results)

    @property
    def subset(self) -> str | None:
        """ "PASS of 3 of 14 scenarios" if some required scenario has no verdict; else None."""
        if not self.missing:
            return None
        known = [name for name in self.ran if name in self.required]
        return f"{self.status.name} of {len(known)} of {len(self.required)} scenarios"

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types, for gate.json."""
        rows = [{**asdict(r), "status": None if r.status is None else r.status.name} for r in self.results]
        return {
            "verdict": self.status.name,
            "subset": self.subset,
            "required": list(self.required),
            "ran": list(self.ran),
            "missing": list(self.missing),
            "not_run": dict(self.not_run),
            "scenarios": rows,
            "release": dict(self.release),
            "seed": self.seed,
            "backends": list(self.backends),
            "took_s": self.took_s,
        }


def write_gate(out: Path, summary: GateSummary) -> None:
    """Writes gate.json atomically. It is written again after each scenario, so that a crash leaves those before it."""
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / GATE, summary.as_dict())


def read_gate(out: Path) -> GateSummary:
    """The gate.json of an --out folder. BadEvidence if it is missing or something else.

    It has no format version: its keys have meant the same since format version 1.
    """
    plain = read_json(out / GATE)
    if wrong := misfit(plain, _FORM):
        raise BadEvidence(f"{out / GATE} is not the summary of a gate: {wrong}; give the folder of a gate")
    results = tuple(
        ScenarioResult(
            name=row["name"],
            status=Status[row["status"]] if row.get("status") else None,
            bundle=row.get("bundle"),
            error=row.get("error"),
            earlier=tuple(row["earlier"]),
        )
        for row in plain["scenarios"]
    )
    return GateSummary(
        required=tuple(plain["required"]),
        results=results,
        release=plain["release"],
        seed=plain.get("seed"),
        not_run=plain.get("not_run") or {},
        backends=tuple(plain.get("backends") or ()),
        took_s=plain.get("took_s"),
    )


def on_and_for(reported: Mapping[str, Any]) -> str:
    """ ", on processes, in 35 min 12 s", from `backends` and `took_s` if they are there."""
    words, took_s = " and ".join(reported.get("backends") or ()), reported.get("took_s")
    minutes, seconds = divmod(round(took_s or 0), 60)
    lasted = "" if took_s is None else f", in {f'{minutes} min ' if minutes else ''}{seconds} s"
    return (f", on {words}" if words else "") + lasted


def is_bundle(path: Path) -> bool:
    """Whether a folder claims to be an evidence bundle, complete or not. A folder that may not be read counts as
    one.
    """
    try:
        return (path / MANIFEST).is_file() or (path / "scenario.json").is_file()
    except PermissionError:
        return True


def bundles_in(path: Path) -> list[Path]:
    """The bundles in a path that a user gave: the folder itself, or those in an --out folder. BadEvidence if none."""
    if is_bundle(path):
        return [path]
    if not path.is_dir():
        raise BadEvidence(f"there is no folder {path}; give an evidence bundle or the --out folder of a gate")
    with with_rights(path, "judge it as a user who may read all of it"):
        found = sorted(child for child in path.iterdir() if child.is_dir() and is_bundle(child))
    if not found:
        raise BadEvidence(f"{path} holds no evidence bundle; give a bundle or the --out folder of a gate")
    return found


def rejudged(summary: GateSummary, verdicts: Mapping[str, tuple[str, Status]]) -> GateSummary:
    """The summary with new verdicts: (scenario, status) by the name of the bundle's folder. Other results stay.

    Bundles that the summary does not name are added: their gate died before it wrote them down.
    """
    named = {name for r in summary.results for name in (r.bundle, *r.earlier)}
    results = [_rejudged(r, verdicts) for r in summary.results]
    results += [
        ScenarioResult(name=scenario, status=status, bundle=bundle)
        for bundle, (scenario, status) in verdicts.items()
        if bundle not in named
    ]
    return replace(summary, results=tuple(results))


def _rejudged(result: ScenarioResult, verdicts: Mapping[str, tuple[str, Status]]) -> ScenarioResult:
    if result.bundle is None or result.bundle not in verdicts:
        return result
    return ScenarioResult(
        name=result.name, status=verdicts[result.bundle][1], bundle=result.bundle, earlier=result.earlier
    )


def summary_of(bundles: Sequence[Path], verdicts: Sequence[tuple[str, Status]]) -> GateSummary:
    """A summary of bundles that no gate.json describes. All of them, and no others, count as required."""
    results = tuple(
        ScenarioResult(name=name, status=status, bundle=bundle.name)
        for bundle, (name, status) in zip(bundles, verdicts, strict=True)
    )
    return GateSummary(required=tuple(r.name for r in results), results=results)

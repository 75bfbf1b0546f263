"""gate.json: which scenarios a gate requires, which ran, and the result of each. It lies in OUT, beside the bundles."""

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
    "part?": "bool",
    "left_out?": ["string"],
    "not_run?": Many("string"),
    "not_applicable?": Many("string"),
    "backends?": ["string"],
    "took_s?": "number",
}

_REMEDY: Final = "take the folder from its source again, or judge its bundles one by one"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    """One scenario of a gate. status: None if the harness itself failed; then `error` says how, in one sentence.

    bundle: its folder, relative to OUT; None when there was nothing to save. earlier: bundles of the other
    attempts, which do not decide. If an attempt FAILs, one of them can be a later attempt.
    """

    name: str
    status: Status | None
    bundle: str | None = None
    error: str | None = None
    earlier: tuple[str, ...] = ()

    @property
    def attempts(self) -> tuple[str, ...]:
        """The bundles of all attempts, the one that decides first."""
        return (() if self.bundle is None else (self.bundle,)) + self.earlier


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSummary:
    """required: the scenarios of a whole gate, in order. results: of those that ran. release: version, commit, source.

    part: the user asked for some scenarios only (--only), so that those which did not run are not missed.
    left_out: names of `required` that --without leaves out. not_applicable: scenarios that need a newer Kafka than the
    tested one. not_run: scenarios that could not be played. Each of the two has a sentence by name, which says why.
    backends: on which it ran. took_s: the duration, judging included. Older summaries lack both.
    """

    required: tuple[str, ...]
    results: tuple[ScenarioResult, ...]
    release: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    part: bool = False
    left_out: tuple[str, ...] = ()
    not_run: Mapping[str, str] = field(default_factory=dict)
    not_applicable: Mapping[str, str] = field(default_factory=dict)
    backends: tuple[str, ...] = ()
    took_s: float | None = None

    @property
    def ran(self) -> tuple[str, ...]:
        """Names of the scenarios that have a verdict."""
        return tuple(r.name for r in self.results if r.status is not None)

    @property
    def missing(self) -> tuple[str, ...]:
        """Names that a whole gate runs and that have no verdict here, for whatever reason."""
        return tuple(name for name in self.required if name not in self.ran)

    @property
    def lacking(self) -> tuple[str, ...]:
        """The missing ones that the user did not leave out and that apply to the release: they make it INCONCLUSIVE."""
        if self.part:
            return ()
        return tuple(name for name in self.missing if name not in self.left_out and name not in self.not_applicable)

    @property
    def status(self) -> Status:
        """The worst result. A scenario without a verdict proved nothing."""
        without = [r.name for r in self.results if r.status is None] + list(self.lacking)
        return overall(
            [*(r.status for r in self.results if r.status is not None), *(Status.INCONCLUSIVE for _ in without)]
        )

    @property
    def exit(self) -> Exit:
        """The exit code: that of the status, and HARNESS where the harness failed and nothing else is worse."""
        failed = [Exit.HARNESS for r in self.results if r.status is None]
        return worst([exit_of(self.status), *failed])

    @property
    def subset(self) -> str | None:
        """Of how many scenarios the verdict is, such as "PASS of 3 of 14 scenarios"; None when it is of all.

        It names the scenarios that are left out on purpose, and those that do not apply to the release.
        """
        if not self.missing:
            return None
        known = [name for name in self.ran if name in self.required]
        reasons = {"left out with --without": self.left_out, "not applicable to this release": self.not_applicable}
        named = {why: [n for n in names if n in self.missing] for why, names in reasons.items()}
        without = "; ".join(f"{', '.join(names)} ({why})" for why, names in named.items() if names)
        count = f"{self.status.name} of {len(known)} of {len(self.required)} scenarios"
        return f"{count}, without {without}" if without else count

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types, for gate.json."""
        rows = [{**asdict(r), "status": None if r.status is None else r.status.name} for r in self.results]
        return {
            "verdict": self.status.name,
            "subset": self.subset,
            "required": list(self.required),
            "ran": list(self.ran),
            "missing": list(self.missing),
            "part": self.part,
            "left_out": list(self.left_out),
            "not_run": dict(self.not_run),
            "not_applicable": dict(self.not_applicable),
            "scenarios": rows,
            "release": dict(self.release),
            "seed": self.seed,
            "backends": list(self.backends),
            "took_s": self.took_s,
        }


def write_gate(out: Path, summary: GateSummary) -> None:
    """Writes OUT/gate.json atomically. It may be written again as results arrive: a crash leaves those before it."""
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
    if wrong := _contradiction(results):
        raise BadEvidence(
            f"{out / GATE} {wrong}; take the folder from its source again, or judge its bundles one by one"
        )
    return GateSummary(
        required=tuple(plain["required"]),
        results=results,
        release=plain["release"],
        seed=plain.get("seed"),
        part=bool(plain.get("part")),
        left_out=tuple(plain.get("left_out") or ()),
        not_run=plain.get("not_run") or {},
        not_applicable=plain.get("not_applicable") or {},
        backends=tuple(plain.get("backends") or ()),
        took_s=plain.get("took_s"),
    )


def _contradiction(results: Sequence[ScenarioResult]) -> str | None:
    """Why these results prove nothing: each verdict needs a bundle of its own, in this folder."""
    bundles = [name for result in results for name in result.attempts]
    if outside := [name for name in bundles if name in ("", ".", "..") or Path(name).name != name]:
        return f"names the bundle {outside[0]!r}, which is no folder beside it"
    if twice := [name for name in bundles if bundles.count(name) > 1]:
        return f"names the bundle {twice[0]} twice"
    if bare := [result.name for result in results if result.status is not None and result.bundle is None]:
        return f"has a verdict on {bare[0]} without a bundle"
    return None


def backends_and_duration(reported: Mapping[str, Any]) -> str:
    """ ", on processes, in 35 min 12 s", from `backends` and `took_s`, as far as they are known."""
    words, took_s = " and ".join(reported.get("backends") or ()), reported.get("took_s")
    minutes, seconds = divmod(round(took_s or 0), 60)
    lasted = "" if took_s is None else f", in {f'{minutes} min ' if minutes else ''}{seconds} s"
    return (f", on {words}" if words else "") + lasted


def is_bundle(path: Path) -> bool:
    """Whether a folder claims to be an evidence bundle, complete or not. One that cannot be looked into may be one."""
    try:
        return (path / MANIFEST).is_file() or (path / "scenario.json").is_file()
    except PermissionError:
        return True


def bundles_in(path: Path) -> list[Path]:
    """The bundles at a path: the folder itself, or those in an OUT folder. BadEvidence when there are none."""
    if is_bundle(path):
        return [path]
    if not path.is_dir():
        raise BadEvidence(f"there is no folder {path}; give an evidence bundle or the --out folder of a gate")
    with with_rights(path, "judge it as a user with the right to read all of it"):
        found = sorted(child for child in path.iterdir() if child.is_dir() and is_bundle(child))
    if not found:
        raise BadEvidence(f"{path} holds no evidence bundle; give a bundle or the --out folder of a gate")
    return found


def rejudged(summary: GateSummary, verdicts: Mapping[str, tuple[str, Status]]) -> GateSummary:
    """The summary with new verdicts: (scenario, status) by the name of the bundle's folder. Other results stay.

    Bundles that it does not name are from a gate that died before it could name them; they are added. BadEvidence for
    a bundle of another scenario than the summary says.
    """
    named = {name for r in summary.results for name in r.attempts}
    results = [_rejudged(r, verdicts) for r in summary.results]
    results += [
        ScenarioResult(name=scenario, status=status, bundle=bundle)
        for bundle, (scenario, status) in verdicts.items()
        if bundle not in named
    ]
    return replace(summary, results=tuple(results))


def _rejudged(result: ScenarioResult, verdicts: Mapping[str, tuple[str, Status]]) -> ScenarioResult:
    judged = {bundle: verdicts[bundle] for bundle in result.attempts if bundle in verdicts}
    if other := [bundle for bundle, (scenario, _) in judged.items() if scenario != result.name]:
        raise BadEvidence(
            f"{GATE} names the bundle {other[0]} for {result.name}, and it is of {judged[other[0]][0]}; {_REMEDY}"
        )
    failed = [bundle for bundle, (_, status) in judged.items() if status is Status.FAIL]
    decides = failed[0] if failed else result.bundle
    if decides is None or decides not in judged:
        return result
    earlier = tuple(bundle for bundle in result.attempts if bundle != decides)
    return ScenarioResult(name=result.name, status=judged[decides][1], bundle=decides, earlier=earlier)


def summary_of(bundles: Sequence[Path], verdicts: Sequence[tuple[str, Status]]) -> GateSummary:
    """A summary of bundles that no gate.json describes: it requires what is there."""
    results = tuple(
        ScenarioResult(name=name, status=status, bundle=bundle.name)
        for bundle, (name, status) in zip(bundles, verdicts, strict=True)
    )
    return GateSummary(required=tuple(r.name for r in results), results=results)

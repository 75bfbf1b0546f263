"""gate.json: which scenarios a gate requires, which ran, and the result of each. It lies in OUT, beside the bundles."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Final

from msgspec import field
from msgspec.structs import asdict, replace

from harness.evidence.documents import read_json, with_rights, write_json
from harness.evidence.manifest import MANIFEST
from harness.evidence.parsing import MisfitError, converted
from harness.model.documents.manifest import NamedRelease
from harness.model.documents.record import Record, meaning
from harness.model.doubt_names import DoubtOrigin
from harness.model.errors import BadEvidence
from harness.model.exits import Exit, worst
from harness.model.known_findings import KnownFinding
from harness.model.limits import Limits
from harness.model.verdict import Status, Verdict, exit_of, overall

GATE: Final = "gate.json"

PASS_WITH_KNOWN: Final = "PASS WITH KNOWN FINDINGS"  # the word of a gate, and no status

AGAIN: Final = "-again"  # ends the folder of the second try of a scenario

_REMEDY: Final = "take the folder from its source again, or judge its bundles one by one"


class Try(Record, frozen=True, kw_only=True):
    """One run of a scenario."""

    if_said: ClassVar[Collection[str]] = ("error", "thinned")
    bundle: Annotated[str, meaning("its folder, in OUT")]
    status: Annotated[Status | None, meaning("its own verdict; null = it could not be judged")] = field(
        name="verdict", default=None
    )
    origins: Annotated[tuple[DoubtOrigin, ...], meaning("the origins of its doubts")] = ()
    error: Annotated[str | None, meaning("why it could not be judged, in one sentence")] = None
    thinned: Annotated[
        bool, meaning("its evidence was thinned after this verdict, a PASS, and cannot be judged again")
    ] = False

    @property
    def may_be_followed(self) -> bool:
        """Whether a later try may count in place of this one: it says nothing about the release."""
        return self.status is not None and DoubtOrigin.RELEASE not in self.origins


class ScenarioResult(Record, frozen=True, kw_only=True):
    """One scenario of a gate."""

    if_said: ClassVar[Collection[str]] = ("earlier",)
    name: Annotated[str, meaning("its name")]
    status: Annotated[Status | None, meaning("its verdict; null = the harness itself failed")] = None
    bundle: Annotated[
        str | None, meaning("the folder of the try that decides, in OUT; null = there was nothing to save")
    ] = None
    error: Annotated[str | None, meaning("how the harness failed, in one sentence")] = None
    tries: Annotated[
        tuple[Try, ...],
        meaning(
            "its runs, in their order. The first FAIL decides; else a try without a verdict; else the first one with a "
            "doubt of the origin `release`; else the last one"
        ),
    ] = ()
    earlier: Annotated[
        tuple[str, ...],
        meaning("bundles of the other tries, in place of `tries`; gates of before November 2026 have it"),
    ] = ()

    @property
    def bundles(self) -> tuple[str, ...]:
        """The bundles of all tries, in their order."""
        named = [one.bundle for one in self.tries]
        return tuple(named) if named or self.bundle is None else (self.bundle,)

    @property
    def flaky(self) -> bool:
        """Whether its tries, all on one release, have different verdicts. A try that could not be judged has none."""
        return len({one.status for one in self.tries if one.status is not None}) > 1


def try_of(bundle: str, verdict: Verdict | None, error: str | None = None, *, thinned: bool = False) -> Try:
    """One try with its verdict, or with the reason why it has none."""
    if verdict is None:
        return Try(bundle=bundle, error=error)
    return Try(bundle=bundle, status=verdict.status, origins=origins_of(verdict), thinned=thinned)


def origins_of(verdict: Verdict) -> tuple[DoubtOrigin, ...]:
    """The origins of the doubts of a verdict."""
    return tuple(sorted({doubt.origin or DoubtOrigin.RELEASE for doubt in verdict.doubts}))


def decided(name: str, tries: Sequence[Try]) -> ScenarioResult:
    """The result of a scenario that was tried at least once. What the release did in any try stays in it."""
    failed = [one for one in tries if one.status is Status.FAIL]
    unknown = [one for one in tries if one.status is None]
    doubted = [one for one in tries if not one.may_be_followed]
    decides = [*failed, *unknown, *doubted, tries[-1]][0]
    return ScenarioResult(
        name=name, status=decides.status, bundle=decides.bundle, error=decides.error, tries=tuple(tries)
    )


class KnownMatch(Record, frozen=True, kw_only=True):
    """Findings of one try that an entry covers."""

    entry: Annotated[KnownFinding, meaning("the entry")]
    bundle: Annotated[str, meaning("the folder of the try, in OUT")]
    records: Annotated[int, meaning("the sum of the counts of these findings")]
    findings: Annotated[int, meaning("how many findings they are")]


class KnownUnused(Record, frozen=True, kw_only=True):
    """An entry that covers nothing, or not everything that it names."""

    entry: Annotated[KnownFinding, meaning("the entry")]
    why: Annotated[str, meaning("why, in one sentence")]


class KnownApplied(Record, frozen=True, kw_only=True):
    """A file of known findings, and what it covers in a gate."""

    file: Annotated[str, meaning("the file as it was given; `shipped` is that of the harness")]
    sha256: Annotated[str, meaning("of the file")]
    day: Annotated[str, meaning("the day on which it was applied, in UTC")]
    matched: Annotated[tuple[KnownMatch, ...], meaning("the findings that entries cover")]
    unused: Annotated[tuple[KnownUnused, ...], meaning("the entries that cover nothing, or not everything")]
    results: Annotated[
        Mapping[str, Status],
        meaning("the status of each FAIL without its findings, by scenario, where all of them are known ones"),
    ]


# A night is PASS when so many of 100 episodes proved something.
PROVED_PERCENT: Final = 90


class NightRule(Record, frozen=True, kw_only=True):
    """The rule that decides on a night of generated episodes, in place of the worst result."""

    if_said: ClassVar[Collection[str]] = ("planted",)
    planted: Annotated[
        tuple[str, ...],
        meaning("episodes in which the harness planted a loss: each must be FAIL, and they count nowhere else"),
    ] = ()


class GateSummary(Record, frozen=True, kw_only=True):
    """Which scenarios a gate requires, and the results of those that ran."""

    if_said: ClassVar[Collection[str]] = ("known", "limits", "night", "records", "scenario_files", "tier_storage")
    required: Annotated[tuple[str, ...], meaning("the scenarios of a whole gate, in order")]
    results: Annotated[tuple[ScenarioResult, ...], meaning("results of the scenarios that ran")] = field(
        name="scenarios"
    )
    release: Annotated[NamedRelease, meaning("the tested release")]
    seed: Annotated[int | None, meaning("from which all random choices follow")] = None
    records: Annotated[
        int | None,
        meaning(
            "--records: the total of a whole gate, of which each scenario got its part by weight; of a night, that of "
            "each episode; null = unknown"
        ),
    ] = None
    limits: Annotated[Limits | None, meaning("of each node in a container; null = none was given")] = None
    scenario_files: Annotated[
        Mapping[str, str], meaning("absolute paths of the scenarios that the user wrote, by their names")
    ] = field(default_factory=dict)
    tier_storage: Annotated[
        str | None, meaning("the absolute path of the file of --tier-storage; null = none was given")
    ] = None
    part: Annotated[
        bool,
        meaning(
            "the user asked for some scenarios only (--only); else the gate is INCONCLUSIVE while a scenario of "
            "`missing` is in neither `left_out` nor `not_applicable`"
        ),
    ] = False
    left_out: Annotated[tuple[str, ...], meaning("names of `required` that --without leaves out")] = ()
    not_run: Annotated[Mapping[str, str], meaning("why that machine could not run a scenario, by its name")] = field(
        default_factory=dict
    )
    not_applicable: Annotated[Mapping[str, str], meaning("why a scenario does not apply here, by its name")] = field(
        default_factory=dict
    )
    backends: Annotated[tuple[str, ...], meaning("on which it ran")] = ()
    took_s: Annotated[float | None, meaning("how long it took, judging included")] = None
    known: Annotated[
        KnownApplied | None, meaning("the known findings that were given (--known); they change no verdict")
    ] = None
    night: Annotated[
        NightRule | None,
        meaning(
            "the scenarios are episodes of a night, which is PASS if no episode is FAIL, each has a verdict, 90 of 100 "
            "proved something (PASS or FAIL), and no doubt of an episode has the origin `release`; null = the worst "
            "result decides"
        ),
    ] = None

    @property
    def ran(self) -> tuple[str, ...]:
        """Names of the scenarios that have a verdict."""
        return tuple(r.name for r in self.results if r.status is not None)

    @property
    def flaky(self) -> tuple[str, ...]:
        """Names of the scenarios with tries of different verdicts."""
        return tuple(r.name for r in self.results if r.flaky)

    @property
    def missing(self) -> tuple[str, ...]:
        """Names that a whole gate runs and that have no verdict here, for whatever reason."""
        ran = set(self.ran)
        return tuple(name for name in self.required if name not in ran)

    @property
    def lacking(self) -> tuple[str, ...]:
        """The missing ones that the user did not leave out and that apply to the release: they make it INCONCLUSIVE."""
        if self.part:
            return ()
        return tuple(name for name in self.missing if name not in self.left_out and name not in self.not_applicable)

    @property
    def status(self) -> Status:
        """The worst result; for a night, the result of its rule. A scenario without a verdict proved nothing."""
        return self._overall([_of_planted(r) if self._is_planted(r) else r.status for r in self.results])

    @property
    def proved(self) -> tuple[int, int]:
        """How many episodes of a night proved something, and of how many; planted ones count in neither."""
        episodes = [r for r in self.results if not self._is_planted(r)]
        return sum(r.status in (Status.PASS, Status.FAIL) for r in episodes), len(episodes)

    @property
    def proved_percent(self) -> float:
        """The share of the episodes that proved something; 0 without any."""
        proved, of = self.proved
        return 100 * proved / of if of else 0.0

    @property
    def not_failed(self) -> tuple[str, ...]:
        """Planted episodes that are no FAIL: failures may not have reached the page."""
        return tuple(r.name for r in self.results if self._is_planted(r) and r.status is not Status.FAIL)

    @property
    def without_verdict(self) -> tuple[str, ...]:
        """Episodes of a night on which the harness failed: a finding may be in what it did not judge."""
        return tuple(r.name for r in self.results if self.night is not None and r.status is None)

    @property
    def thinned(self) -> tuple[str, ...]:
        """Scenarios whose verdict is one from before their evidence was thinned."""
        return tuple(r.name for r in self.results if any(one.thinned for one in r.tries))

    @property
    def with_release_doubts(self) -> tuple[str, ...]:
        """Episodes of a night with a doubt of the origin `release`."""
        doubted = [r for r in self.results if any(DoubtOrigin.RELEASE in one.origins for one in r.tries)]
        return tuple(r.name for r in doubted if not self._is_planted(r))

    def _is_planted(self, result: ScenarioResult) -> bool:
        return self.night is not None and result.name in self.night.planted

    def _overall(self, results: Sequence[Status | None]) -> Status:
        if self.night is not None:
            if Status.FAIL in results:
                return Status.FAIL
            enough = self.proved_percent >= PROVED_PERCENT
            against = self.with_release_doubts or self.not_failed or self.without_verdict
            return Status.PASS if enough and not against else Status.INCONCLUSIVE
        without = [None for status in results if status is None] + [None for _ in self.lacking]
        return overall([*(status for status in results if status is not None), *(Status.INCONCLUSIVE for _ in without)])

    def status_after(self, result: ScenarioResult) -> Status | None:
        """The status of a result without its known findings and planted losses; only that of a FAIL may be
        another one."""
        if self._is_planted(result):
            return _of_planted(result)
        if self.known is None or result.status is not Status.FAIL:
            return result.status
        return self.known.results.get(result.name, result.status)

    @property
    def outcome(self) -> Status:
        """The status without known findings. Where none were given, it is the status."""
        return self._overall([self.status_after(r) for r in self.results])

    @property
    def word(self) -> str:
        """The word of the gate: its outcome, which names known findings where they were met."""
        known_only = self.outcome is Status.PASS and self.status is not Status.PASS
        return PASS_WITH_KNOWN if known_only else self.outcome.value

    @property
    def exit(self) -> Exit:
        """The exit code: that of the outcome, and HARNESS where the harness failed and nothing else is worse."""
        failed = [Exit.HARNESS for r in self.results if r.status is None]
        return worst([exit_of(self.outcome), *failed])

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
        count = f"{self.word} of {len(known)} of {len(self.required)} scenarios"
        return f"{count}, without {without}" if without else count

    @property
    def document(self) -> GateDocument:
        """The summary as gate.json has it."""
        return GateDocument(
            **asdict(self),
            verdict=self.status,
            word=self.word,
            subset=self.subset,
            ran=self.ran,
            missing=self.missing,
            unlike_tries=self.flaky,
        )


def _of_planted(result: ScenarioResult) -> Status | None:
    """The status of a planted episode: PASS if it is FAIL, as it must be."""
    if result.status is None:
        return None
    return Status.PASS if result.status is Status.FAIL else Status.INCONCLUSIVE


class GateDocument(GateSummary, frozen=True, kw_only=True):
    """The whole document: the summary, and what follows from it."""

    verdict: Annotated[
        Status, meaning("the worst result, or that of `night`; a scenario without a verdict proved nothing")
    ]
    word: Annotated[
        str, meaning("the word of the gate, which decides the exit code: `verdict` without what `known` covers")
    ]
    subset: Annotated[
        str | None,
        meaning('`"PASS of 3 of 14 scenarios"`, or null if every required one has a verdict'),
    ]
    ran: Annotated[tuple[str, ...], meaning("the scenarios that have a verdict")]
    missing: Annotated[tuple[str, ...], meaning("the scenarios of `required` that have none")]
    unlike_tries: Annotated[
        tuple[str, ...],
        meaning("the FLAKY ones: their tries have different verdicts. It changes no verdict"),
    ] = field(name="flaky", default=())


def write_gate(out: Path, summary: GateSummary) -> None:
    """Writes OUT/gate.json atomically. It may be written again as results arrive: a crash leaves those before it."""
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / GATE, summary.document)


def read_gate(out: Path) -> GateSummary:
    """The gate.json of an --out folder. BadEvidence if it is missing or something else.

    It has no format version: its keys have meant the same since format version 1.
    """
    try:
        summary = converted(read_json(out / GATE), GateSummary)
    except MisfitError as wrong:
        raise BadEvidence(f"{out / GATE} is not the summary of a gate: {wrong}; give the folder of a gate") from None
    if contradiction := _contradiction(summary.results):
        raise BadEvidence(
            f"{out / GATE} {contradiction}; take the folder from its source again, or judge its bundles one by one"
        )
    return replace(summary, results=tuple(_with_tries(result) for result in summary.results))


def _with_tries(result: ScenarioResult) -> ScenarioResult:
    """A result of an older harness, in today's form. It has no verdict on the tries that do not decide."""
    if result.tries or result.bundle is None or result.status is None:
        return replace(result, earlier=())
    others = [Try(bundle=b, status=Status.INCONCLUSIVE, origins=(DoubtOrigin.RELEASE,)) for b in result.earlier]
    tries = [*others, Try(bundle=result.bundle, status=result.status)]
    return replace(result, earlier=(), tries=tuple(sorted(tries, key=lambda one: one.bundle.endswith(AGAIN))))


def _contradiction(results: Sequence[ScenarioResult]) -> str | None:
    """Why these results prove nothing: each verdict needs a bundle of its own, in this folder."""
    bundles = [name for result in results for name in (*result.bundles, *result.earlier)]
    if outside := [name for name in bundles if name in ("", ".", "..") or Path(name).name != name]:
        return f"names the bundle {outside[0]!r}, which is no folder beside it"
    if twice := [name for name in bundles if bundles.count(name) > 1]:
        return f"names the bundle {twice[0]} twice"
    names = [result.name for result in results]
    if again := [name for name in names if names.count(name) > 1]:
        return f"has two results of the scenario {again[0]}"
    if at_odds := [result.name for result in results if not _agrees(result)]:
        return f"has a result of {at_odds[0]} that does not follow from its tries"
    if bare := [result.name for result in results if result.status is not None and result.bundle is None]:
        return f"has a verdict on {bare[0]} without a bundle"
    return None


def _agrees(result: ScenarioResult) -> bool:
    if not result.tries:
        return True
    follows = decided(result.name, result.tries)
    return (follows.status, follows.bundle) == (result.status, result.bundle)


def backends_and_duration(backends: Sequence[str], took_s: float | None) -> str:
    """ ", on processes, in 35 min 12 s", as far as they are known."""
    words = " and ".join(backends)
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


def rejudged(
    summary: GateSummary, verdicts: Mapping[str, Verdict], thinned: Collection[str] = frozenset()
) -> GateSummary:
    """The summary with new verdicts, by the name of the bundle's folder. Other results stay.

    thinned: those of `verdicts` that are from before their evidence was thinned.
    Bundles that it does not name are from a gate that died before it could name them; they are added. BadEvidence for
    a bundle of another scenario than the summary says.
    """
    named = {name for r in summary.results for name in r.bundles}
    new = {bundle: try_of(bundle, verdict, thinned=bundle in thinned) for bundle, verdict in verdicts.items()}
    results = {r.name: _rejudged(summary, r, verdicts, new) for r in summary.results}
    for bundle, verdict in verdicts.items():
        if bundle not in named:
            results[verdict.scenario] = _with_unnamed(results.get(verdict.scenario), new[bundle], verdict)
    return replace(summary, results=tuple(results.values()))


def _with_unnamed(known: ScenarioResult | None, one: Try, verdict: Verdict) -> ScenarioResult:
    """The result with one more try. Only the names of folders say which of two unnamed ones was the first."""
    if known is None:
        return decided(verdict.scenario, [one])
    tries = sorted([*known.tries, one], key=lambda one: one.bundle.endswith(AGAIN))
    if [one.bundle for one in tries] != [known.name, f"{known.name}{AGAIN}"]:
        raise BadEvidence(f"{GATE} has a result of {known.name}, and does not name its bundle {one.bundle}; {_REMEDY}")
    return decided(known.name, tries)


def _rejudged(
    summary: GateSummary, result: ScenarioResult, verdicts: Mapping[str, Verdict], new: Mapping[str, Try]
) -> ScenarioResult:
    judged = {bundle: verdicts[bundle] for bundle in result.bundles if bundle in verdicts}
    if other := [bundle for bundle, verdict in judged.items() if verdict.scenario != result.name]:
        raise BadEvidence(
            f"{GATE} names the bundle {other[0]} for {result.name}, and it is of {judged[other[0]].scenario}; {_REMEDY}"
        )
    for bundle, verdict in judged.items():
        _check_origin(summary, bundle, verdict)
    if not judged:
        return result
    before = result.tries or [Try(bundle=bundle, error=result.error) for bundle in result.bundles]
    tries = [new[one.bundle] if one.bundle in judged else one for one in before]
    return decided(result.name, tries)


def _check_origin(summary: GateSummary, bundle: str, verdict: Verdict) -> None:
    """BadEvidence for a bundle of another release or another gate than the summary is about."""
    release, seed = verdict.facts.release or NamedRelease(), verdict.facts.seed
    pairs = (
        ("release", summary.release.version, release.version),
        ("commit", summary.release.commit, release.commit),
        ("seed", summary.seed, seed),
    )
    for what, named, played in pairs:
        if named is not None and played is not None and named != played:
            raise BadEvidence(f"{GATE} is about the {what} {named}, and the bundle {bundle} has {played}; {_REMEDY}")


def summary_of(verdicts: Mapping[str, Verdict], thinned: Collection[str] = frozenset()) -> GateSummary:
    """A summary of bundles that no gate.json describes: it requires what is there. thinned: see `rejudged`."""
    results = tuple(
        decided(verdict.scenario, [try_of(bundle, verdict, thinned=bundle in thinned)])
        for bundle, verdict in verdicts.items()
    )
    return GateSummary(required=tuple(r.name for r in results), results=results, release=NamedRelease())

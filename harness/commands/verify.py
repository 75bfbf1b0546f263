"""Judging evidence that is on disk: one bundle, or all bundles of a gate."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from msgspec import structs

from harness.commands.spark_archive import spark_archive
from harness.commands.tracebacks import first_line, save_traceback
from harness.evidence import Bundle
from harness.evidence.documents import is_there, plain, read_json
from harness.evidence.gate import (
    GATE,
    GateSummary,
    Try,
    bundles_in,
    decided,
    is_bundle,
    read_gate,
    rejudged,
    summary_of,
    write_gate,
)
from harness.evidence.known import with_known
from harness.evidence.manifest import MANIFEST
from harness.evidence.thinned import JUDGED_BEFORE, is_thinned, kept_verdict
from harness.evidence.verdicts import VERDICT, read_verdict
from harness.kafka.release.cache import Cache, default_cache
from harness.kafka.release.java import Java, home_for_spark, spark_java, spark_java_home
from harness.model.errors import BadEvidence, BadInput, HarnessError
from harness.model.exits import Exit, worst
from harness.model.known_findings import KnownFile
from harness.model.plugin import active
from harness.model.schemas import REQUIRED_DOCUMENTS, TABLES
from harness.model.verdict import Status, Verdict, overall
from harness.run.progress import Progress

_SAID_MAX: Final = 200
_SPARK: Final = "pip install 'kafka-durability[spark]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchVerdicts:
    """The verdict on each bundle, by its path, or one sentence why there is none.

    refused: what is wrong with the bundle. crashed: how the harness failed on it. thinned: bundles of a night whose
    verdict is from before their evidence was thinned.
    """

    verdicts: Mapping[Path, Verdict] = field(default_factory=dict)
    thinned: frozenset[Path] = frozenset()
    refused: Mapping[Path, str] = field(default_factory=dict)
    crashed: Mapping[Path, str] = field(default_factory=dict)

    @property
    def without_verdict(self) -> dict[str, str]:
        """The sentences, by the name of the bundle."""
        return {bundle.name: sentence for bundle, sentence in {**self.refused, **self.crashed}.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The result of `verify`. summary: of the bundles that were judged. single: given was one bundle, not a folder."""

    summary: GateSummary
    each: BatchVerdicts
    single: bool = False

    @property
    def bundles(self) -> tuple[Path, ...]:
        return tuple(self.each.verdicts)

    @property
    def exit(self) -> Exit:
        """The worst counts: a damaged bundle does not hide the FAIL of another, and a PASS does not hide the damage."""
        refused, crashed = (Exit.USAGE for _ in self.each.refused), (Exit.HARNESS for _ in self.each.crashed)
        return worst([self.summary.exit, *refused, *crashed])

    def as_dict(self) -> dict[str, object]:
        """The verdict on the one bundle; else that on each and on all, which is no PASS while a bundle has none."""
        verdicts = {bundle.name: plain(verdict) for bundle, verdict in self.each.verdicts.items()}
        if self.single:
            known = self.summary.known
            of_known = {} if known is None else {"word": self.summary.word, "known": plain(known)}
            return {**next(iter(verdicts.values())), **of_known}
        without = self.each.without_verdict
        whole = overall([self.summary.status, *(Status.INCONCLUSIVE for _ in without)])
        return {
            **plain(self.summary.document),
            "verdict": whole.name,
            "verdicts": verdicts,
            "thinned": sorted(bundle.name for bundle in self.each.thinned),
            "refused": {bundle.name: sentence for bundle, sentence in self.each.refused.items()},
            "crashed": {bundle.name: sentence for bundle, sentence in self.each.crashed.items()},
        }


def judge_again(evidence: Path, master: str | None, progress: Progress, known: KnownFile | None = None) -> Judged:
    """Judges a bundle, or every bundle of an --out folder. known: findings that are accepted; None = none are.

    An error about the one bundle that is given is raised; one about a bundle of a folder is part of the answer.
    A thinned episode keeps the verdict that it has: its evidence is no longer there.
    """
    if is_bundle(evidence):
        _refuse_thinned(evidence)
        (verdict,) = judge_bundles([_open(evidence)], master, progress)
        each = BatchVerdicts(verdicts={evidence: verdict})
        return Judged(summary=_summary(evidence, each, known), each=each, single=True)
    found = bundles_in(evidence)
    links = [path for path in found if path.is_symlink()]
    kept, unkept = _kept(evidence, [path for path in found if path not in links and is_thinned(path)])
    others = [path for path in found if path not in links and not is_thinned(path)]
    bundles, refused = _opened(others)
    refused |= unkept
    refused |= {path: f"{path} is a link to evidence elsewhere; give that folder, or put a copy here" for path in links}
    refused |= _lost(evidence)
    if not bundles and not kept and len(refused) == 1:
        raise BadEvidence(next(iter(refused.values())))
    if kept:
        progress.line(f"{JUDGED_BEFORE}: {len(kept)} of {len(found)} episodes; `durability replay` plays one again")
    each = judge_batch(bundles, master, progress)
    each = replace(
        each, verdicts={**kept, **each.verdicts}, thinned=frozenset(kept), refused={**refused, **each.refused}
    )
    return Judged(summary=_summary(evidence, each, known), each=each)


def judge_each(paths: Sequence[Path], progress: Progress) -> BatchVerdicts:
    """Judges the bundles of a gate on this machine. An error about one of them is part of the answer."""
    bundles, refused = _opened(paths)
    each = judge_batch(bundles, None, progress)
    return replace(each, refused={**refused, **each.refused})


def damaged(evidence: Path) -> dict[str, str]:
    """The bundles whose files are not those that were sealed, or whose verdict.json is no verdict, by their folders,
    with a sentence each.

    BadEvidence if the evidence is such a bundle itself.
    """
    if is_bundle(evidence):
        if is_thinned(evidence):
            kept_verdict(evidence)
        else:
            _undamaged(evidence)
        return {}
    if (evidence / GATE).is_file():
        _check_night(evidence, read_gate(evidence))
    paths = sorted(path for path in evidence.iterdir() if is_bundle(path)) if evidence.is_dir() else []
    thinned = [path for path in paths if is_thinned(path)]
    _, refused = _opened([path for path in paths if path not in thinned], _undamaged)
    _, unkept = _kept(evidence, thinned)
    return {path.name: sentence for path, sentence in {**refused, **unkept}.items()}


def _refuse_thinned(bundle: Path) -> None:
    """BadEvidence for a thinned bundle: it cannot be judged again."""
    if is_thinned(bundle):
        kept_verdict(bundle)
        raise BadEvidence(
            f"{bundle} cannot be judged again: its night judged it PASS and thinned its evidence; play it again with: "
            f"durability replay {bundle} --out DIR"
        )


def _kept(out: Path, thinned: Sequence[Path]) -> tuple[dict[Path, Verdict], dict[Path, str]]:
    """The verdicts of thinned bundles from before; and why one cannot be taken."""
    results = read_gate(out).results if thinned and (out / GATE).is_file() else ()
    reported = {one.bundle: one.status for result in results for one in result.tries}
    kept: dict[Path, Verdict] = {}
    refused: dict[Path, str] = {}
    for path in thinned:
        try:
            kept[path] = _kept_one(path, reported.get(path.name, Status.PASS))
        except BadEvidence as sentence:
            refused[path] = str(sentence)
    return kept, refused


def _kept_one(path: Path, reported: Status | None) -> Verdict:
    """The verdict on a thinned episode. reported: by gate.json. BadEvidence if it does not stand for this judgement."""
    verdict = kept_verdict(path)
    if verdict.scenario != path.name:
        raise BadEvidence(f"{path / VERDICT} is about {verdict.scenario}; take the folder from its source again")
    if reported is not Status.PASS:
        said = "without a verdict" if reported is None else reported.value
        raise BadEvidence(f"{path} is {said} in {GATE} and PASS in its {VERDICT}; take it from its source again")
    if lacking := [one.name for one in active() if one.checks and one.used not in verdict.facts.plugins]:
        raise BadEvidence(
            f"{path} cannot be judged by the plugin {lacking[0]}: its evidence was thinned; play it again with: "
            f"durability replay {path} --out DIR"
        )
    return verdict


def _lost(out: Path) -> dict[Path, str]:
    """Folders that once were bundles, by gate.json or by their content, and no longer are; with a sentence each."""
    results = read_gate(out).results if (out / GATE).is_file() else ()
    named = {out / name for result in results for name in result.bundles}
    parts = (*REQUIRED_DOCUMENTS, *TABLES)
    others = [child for child in out.iterdir() if child.is_dir() and not is_bundle(child)]
    left = {child for child in others if any((child / part).exists() for part in parts)}
    why = {
        True: f"is no longer an evidence bundle: it lacks {MANIFEST}",
        False: f"is named in {GATE} and does not exist",
    }
    return {
        path: f"{path} {why[path.is_dir()]}; take the bundle from its source again"
        for path in sorted(named | left)
        if not is_bundle(path)
    }


def _unchanged(path: Path) -> Bundle:
    """The bundle; BadEvidence if its files are not those that were sealed."""
    return Bundle.open(path, allow_unfinished=True)


def _undamaged(path: Path) -> Bundle:
    """The bundle; BadEvidence if its files are not those that were sealed, or it has a verdict that cannot be read."""
    if is_there(path / VERDICT):
        read_verdict(path)
    return _unchanged(path)


def _open(path: Path) -> Bundle:
    if not os.access(path, os.W_OK):
        raise BadEvidence(f"{path} is not writable, and its verdict is written into it; judge a copy of it")
    return _unchanged(path)


def _opened(paths: Sequence[Path], open_one: Callable[[Path], Bundle] = _open) -> tuple[list[Bundle], dict[Path, str]]:
    """Opens every bundle before Spark starts, which takes a while: a damaged file is reported at once."""
    bundles: list[Bundle] = []
    refused: dict[Path, str] = {}
    for path in paths:
        try:
            bundles.append(open_one(path))
        except BadEvidence as sentence:
            refused[path] = str(sentence)
    return bundles, refused


def judge_batch(bundles: Sequence[Bundle], master: str | None, progress: Progress) -> BatchVerdicts:
    """Judges all bundles at once, which is much faster; one by one where that fails, so that one costs no other.

    Raises what is wrong with no bundle: a Spark that does not start, a signal.
    """
    if not bundles:
        return BatchVerdicts()
    try:
        verdicts = judge_bundles(bundles, master, progress)
        return BatchVerdicts(verdicts={b.path: verdict for b, verdict in zip(bundles, verdicts, strict=True)})
    except Exception as error:
        if not _is_of_a_bundle(error):
            raise
        if len(bundles) == 1:
            return _without_verdict(bundles[0].path, error)
    return _one_by_one(bundles, master, progress)


def _one_by_one(bundles: Sequence[Bundle], master: str | None, progress: Progress) -> BatchVerdicts:
    each = []
    for bundle in bundles:
        progress(f"judging {bundle.path.name} separately")
        each.append(judge_batch([bundle], master, progress))
    return BatchVerdicts(
        verdicts={path: verdict for one in each for path, verdict in one.verdicts.items()},
        refused={path: sentence for one in each for path, sentence in one.refused.items()},
        crashed={path: sentence for one in each for path, sentence in one.crashed.items()},
    )


def _without_verdict(bundle: Path, error: Exception) -> BatchVerdicts:
    if isinstance(error, BadEvidence):
        return BatchVerdicts(refused={bundle: str(error)})
    where = save_traceback(error, bundle.with_name(f"{bundle.name}-traceback.txt"))
    said = first_line(error)[:_SAID_MAX]
    return BatchVerdicts(
        crashed={bundle: f"{bundle}: the harness failed on it: {type(error).__name__}: {said}; traceback: {where}"}
    )


def _is_of_a_bundle(error: BaseException) -> bool:
    """Whether the error is about one bundle, so that others can be judged. A Spark that does not start is not."""
    if isinstance(error, HarnessError) and not isinstance(error, BadEvidence):
        return False
    # The bridge to Spark's Java raises an ordinary error of its own when a signal interrupts it.
    before = error.__cause__ or error.__context__
    return isinstance(error, Exception) and (before is None or _is_of_a_bundle(before))


def judge_bundles(bundles: Sequence[Bundle], master: str | None, progress: Progress) -> list[Verdict]:
    """The verdict on each bundle, in their order, written into it. BadInput when this machine cannot run Spark."""
    try:
        from harness.verify import judge
    except ModuleNotFoundError as absent:
        raise BadInput(f"judging needs {absent.name}: {_SPARK}") from None
    java = use_fitting_java()
    return list(judge(bundles, master=master, progress=progress, java_flags=lambda: _archive_flags(java)))


def _archive_flags(java: Java) -> Sequence[str]:
    """Flags for a class-data archive of Spark; none where there cannot be one, which only costs time."""
    from pyspark.find_spark_home import _find_spark_home

    from harness.verify.engine.session import LASTING_FLAGS, ended_java

    try:
        cache = Cache(default_cache())
        return spark_archive(java, Path(_find_spark_home()), cache, LASTING_FLAGS, ended_java).java_flags()
    except (OSError, BadInput):
        return ()


def check_judge() -> None:
    """BadInput, before any broker starts, where this machine cannot judge the evidence afterwards."""
    if importlib.util.find_spec("pyspark") is None:
        raise BadInput(f"judging needs pyspark: {_SPARK}")
    spark_java_home(default_cache())


def use_fitting_java() -> Java:
    """Sets JAVA_HOME to a Java that PySpark runs with, and returns it: PySpark's launcher takes any Java that JAVA_HOME
    names."""
    java = spark_java()
    os.environ["JAVA_HOME"] = str(home_for_spark(java, default_cache()))
    return java


def _check_night(out: Path, summary: GateSummary) -> None:
    """BadEvidence if gate.json calls something a night that is none, or an episode planted whose plan is another: the
    rule of a night would ignore what a gate lacks, and the FAIL of a planted episode."""
    if summary.night is None:
        return
    from harness.chaos.plan import is_episode  # reads every fault, and only a night needs it

    for result in summary.results:
        if not is_episode(result.name):
            raise BadEvidence(
                f"{out / GATE} is that of a night, and its scenario {result.name} is no episode; take the folder from "
                "its source again"
            )
        if result.name in summary.night.planted and not all(_plants(out / name) for name in result.bundles):
            raise BadEvidence(
                f"{out / GATE} says that the harness planted a loss in {result.name}, and its scenario has no such "
                "step; take the folder from its source again"
            )


def _plants(bundle: Path) -> bool:
    """Whether a step of the scenario plants a loss."""
    from harness.faults.operations.plant_loss import PlantLoss

    document = read_json(bundle / "scenario.json")
    steps = document.get("steps") if isinstance(document, dict) else None
    return any(isinstance(step, dict) and step.get("do") == PlantLoss.do for step in steps or ())


def _summary(evidence: Path, each: BatchVerdicts, known: KnownFile | None) -> GateSummary:
    """The summary of what was judged. gate.json keeps the earlier result of a bundle that cannot be read any more."""
    judged = {path.name: verdict for path, verdict in each.verdicts.items()}
    without, thinned = each.without_verdict, {path.name for path in each.thinned}
    if not (evidence / GATE).is_file():
        return with_known(summary_of(judged, thinned), evidence, known, without)
    again = rejudged(read_gate(evidence), judged, thinned)
    _check_night(evidence, again)
    whole = with_known(_with_unjudged(again, without), evidence, known, without)
    write_gate(evidence, whole)
    # An earlier FAIL stands. An earlier PASS proves nothing any more.
    kept = [r for r in whole.results if r.bundle not in without or r.status is Status.FAIL]
    if whole.night is not None:
        return _with_unjudged(structs.replace(whole, results=tuple(kept)), without)
    return structs.replace(whole, results=tuple(kept))


def _with_unjudged(night: GateSummary, without: Mapping[str, str]) -> GateSummary:
    """The summary with the episodes that it does not name and that have no verdict: a night is no PASS without them."""
    if night.night is None:
        return night
    named = {name for result in night.results for name in (result.name, *result.bundles)}
    added = [decided(name, [Try(bundle=name, error=why)]) for name, why in without.items() if name not in named]
    return structs.replace(night, results=(*night.results, *added))

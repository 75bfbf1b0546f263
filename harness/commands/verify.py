"""Judging evidence that is on disk already: one bundle, or all that a gate left."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.commands.options import Progress
from harness.evidence import Bundle
from harness.evidence.gate import (
    GATE,
    GateSummary,
    bundles_in,
    is_bundle,
    read_gate,
    rejudged,
    summary_of,
    write_gate,
)
from harness.evidence.manifest import MANIFEST
from harness.kafka.release.cache import default_cache
from harness.kafka.release.java import spark_java_home
from harness.model.errors import BadEvidence, BadInput, HarnessError
from harness.model.exits import Exit, worst
from harness.model.schemas import REQUIRED_DOCUMENTS, TABLES
from harness.model.verdict import Status, Verdict, overall

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchVerdicts:
    """What became of each bundle. refused: what is wrong with it; crashed: how we broke on it, in one sentence each."""

    verdicts: Mapping[Path, Verdict] = field(default_factory=dict)
    refused: Mapping[Path, str] = field(default_factory=dict)
    crashed: Mapping[Path, str] = field(default_factory=dict)

    @property
    def without_verdict(self) -> dict[str, str]:
        """Why not, by the name of the bundle."""
        return {bundle.name: sentence for bundle, sentence in {**self.refused, **self.crashed}.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What `verify` came to. summary: of what was judged, and nothing else."""

    summary: GateSummary
    each: BatchVerdicts
    single: bool = False

    @property
    def bundles(self) -> tuple[Path, ...]:
        return tuple(self.each.verdicts)

    @property
    def exit(self) -> Exit:
        """The worst counts: a FAIL is not hidden by a damaged bundle beside it, nor that by a PASS."""
        refused, crashed = (Exit.USAGE for _ in self.each.refused), (Exit.HARNESS for _ in self.each.crashed)
        return worst([self.summary.exit, *refused, *crashed])

    def as_dict(self) -> dict[str, Any]:
        """The verdict of the one bundle, or of the whole with the verdict on each; no PASS while one has none."""
        verdicts = {bundle.name: verdict.as_dict() for bundle, verdict in self.each.verdicts.items()}
        if self.single:
            return next(iter(verdicts.values()))
        without = self.each.without_verdict
        whole = overall([self.summary.status, *(Status.INCONCLUSIVE for _ in without)])
        return {
            **self.summary.as_dict(),
            "verdict": whole.name,
            "verdicts": verdicts,
            "refused": {bundle.name: sentence for bundle, sentence in self.each.refused.items()},
            "crashed": {bundle.name: sentence for bundle, sentence in self.each.crashed.items()},
        }


def judge_again(evidence: Path, master: str | None, progress: Progress) -> Judged:
    """Judges a bundle, or every bundle of an OUT folder. BadEvidence when the only one cannot be opened."""
    single = is_bundle(evidence)
    paths = bundles_in(evidence)
    lost = {} if single else _lost(evidence)
    bundles, refused = _opened(paths)
    if not bundles and len(refused | lost) == 1:
        raise BadEvidence(next(iter(refused.values())))
    each = judge_batch(bundles, master, progress)
    each = replace(each, refused={**refused, **lost, **each.refused})
    return Judged(summary=_summary(evidence, each), each=each, single=single)


def _lost(out: Path) -> dict[Path, str]:
    """Folders that were bundles, as gate.json or what is left in them says, and cannot be known as such any more."""
    results = read_gate(out).results if (out / GATE).is_file() else ()
    named = {out / name for r in results for name in (r.bundle, *r.earlier) if name is not None}
    parts = (*REQUIRED_DOCUMENTS, *TABLES)
    others = [child for child in out.iterdir() if child.is_dir() and not is_bundle(child)]
    left = {child for child in others if any((child / part).exists() for part in parts)}
    why = {True: f"is no evidence bundle any more: it lacks {MANIFEST}", False: f"is named in {GATE} and is not there"}
    return {
        path: f"{path} {why[path.is_dir()]}; take the bundle from its source again"
        for path in sorted(named | left)
        if not is_bundle(path)
    }


def _opened(paths: list[Path]) -> tuple[list[Bundle], dict[Path, str]]:
    """Everything is opened before Spark starts: it takes a while, and a damaged file is known at once."""
    bundles: list[Bundle] = []
    refused: dict[Path, str] = {}
    for path in paths:
        try:
            if not os.access(path, os.W_OK):
                raise BadEvidence(f"{path} is not writable, and its verdict is written into it; judge a copy of it")
            bundles.append(Bundle.open(path, allow_unfinished=True))
        except BadEvidence as sentence:
            refused[path] = str(sentence)
    return bundles, refused


def judge_batch(bundles: Sequence[Bundle], master: str | None, progress: Progress) -> BatchVerdicts:
    """All at once, which is much faster; one by one when that breaks, for no verdict is lost to a neighbour.

    A bundle that is alone raises what is wrong with it.
    """
    if not bundles:
        return BatchVerdicts()
    try:
        verdicts = judge_bundles(bundles, master, progress)
        return BatchVerdicts(verdicts={b.path: verdict for b, verdict in zip(bundles, verdicts, strict=True)})
    except Exception as error:
        if len(bundles) == 1 or not _is_of_a_bundle(error):
            raise
    return _one_by_one(bundles, master, progress)


def _one_by_one(bundles: Sequence[Bundle], master: str | None, progress: Progress) -> BatchVerdicts:
    verdicts: dict[Path, Verdict] = {}
    refused: dict[Path, str] = {}
    crashed: dict[Path, str] = {}
    for bundle in bundles:
        progress(f"judging {bundle.path.name} by itself")
        try:
            (verdicts[bundle.path],) = judge_bundles([bundle], master, progress)
        except BadEvidence as sentence:
            refused[bundle.path] = str(sentence)
        except Exception as error:
            if not _is_of_a_bundle(error):
                raise
            log.exception("judging %s failed", bundle.path)
            said = next(iter(str(error).splitlines()), "")
            crashed[bundle.path] = f"{bundle.path}: the harness failed on it: {type(error).__name__}: {said}"[:300]
    return BatchVerdicts(verdicts=verdicts, refused=refused, crashed=crashed)


def _is_of_a_bundle(error: BaseException) -> bool:
    """Whether another bundle may fare better: not where Spark does not start, nor where a signal broke it off."""
    if isinstance(error, HarnessError) and not isinstance(error, BadEvidence):
        return False
    # The bridge to Spark's Java says in its own words, as an ordinary error, what a signal did to it.
    before = error.__cause__ or error.__context__
    return isinstance(error, Exception) and (before is None or _is_of_a_bundle(before))


def judge_bundles(bundles: Sequence[Bundle], master: str | None, progress: Progress) -> list[Verdict]:
    """The verdict on each bundle, in their order, written beside it. BadInput when this machine cannot run Spark."""
    try:
        from harness.verify import judge
    except ModuleNotFoundError as absent:
        raise BadInput(f"judging needs {absent.name}: pip install 'kafka-durability[spark]'") from None
    use_fitting_java()
    return list(judge(bundles, master=master, progress=progress))


def use_fitting_java() -> None:
    """Makes PySpark start on this machine: its launcher believes JAVA_HOME, and not every Java there fits it."""
    os.environ["JAVA_HOME"] = str(spark_java_home(default_cache()))


def _summary(evidence: Path, each: BatchVerdicts) -> GateSummary:
    """Of what was judged. In gate.json a bundle that was not keeps what it came to while it could be read."""
    judged = {path.name: (v.scenario, v.status) for path, v in each.verdicts.items()}
    if not (evidence / GATE).is_file():
        return summary_of(list(each.verdicts), list(judged.values()))
    whole = rejudged(read_gate(evidence), judged)
    write_gate(evidence, whole)
    without = each.without_verdict
    # A FAIL of then stays: nothing makes it unhappen. A PASS of then proves nothing now.
    kept = [r for r in whole.results if r.bundle not in without or r.status is Status.FAIL]
    return replace(whole, results=tuple(kept))

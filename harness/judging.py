"""Judging evidence that is on disk already: one bundle, or all that a gate left."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
from harness.kafka.cache import default_cache
from harness.kafka.java import spark_java_home
from harness.model.errors import BadEvidence, BadInput
from harness.model.exits import Exit, worst
from harness.model.verdict import Verdict
from harness.options import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Verdicts by bundle. refused: what is wrong with bundles that could not be opened."""

    summary: GateSummary
    verdicts: Mapping[Path, Verdict]
    refused: Mapping[Path, str] = field(default_factory=dict)
    single: bool = False

    @property
    def bundles(self) -> tuple[Path, ...]:
        return tuple(self.verdicts)

    @property
    def exit(self) -> Exit:
        """The worst counts: a FAIL is not hidden by a damaged bundle beside it, nor that by a PASS."""
        return worst([self.summary.exit, *(Exit.USAGE for _ in self.refused)])

    def as_dict(self) -> dict[str, Any]:
        """The verdict of the one bundle, or of the whole with the verdict on each."""
        verdicts = {bundle.name: verdict.as_dict() for bundle, verdict in self.verdicts.items()}
        if self.single:
            return next(iter(verdicts.values()))
        refused = {bundle.name: sentence for bundle, sentence in self.refused.items()}
        return {**self.summary.as_dict(), "verdicts": verdicts, "refused": refused}


def judge_again(evidence: Path, master: str | None, progress: Progress) -> Judged:
    """Judges a bundle, or every bundle of an OUT folder. BadEvidence when the only bundle, or all, cannot be opened."""
    paths = bundles_in(evidence)
    bundles, refused = _opened(paths)
    if not bundles:
        raise BadEvidence(next(iter(refused.values())))
    verdicts = {b.path: v for b, v in zip(bundles, judge_bundles(bundles, master, progress), strict=True)}
    return Judged(summary=_summary(evidence, verdicts), verdicts=verdicts, refused=refused, single=is_bundle(evidence))


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


def _summary(evidence: Path, verdicts: Mapping[Path, Verdict]) -> GateSummary:
    if (evidence / GATE).is_file():
        summary = rejudged(read_gate(evidence), {path.name: (v.scenario, v.status) for path, v in verdicts.items()})
        write_gate(evidence, summary)
        return summary
    return summary_of(list(verdicts), [(v.scenario, v.status) for v in verdicts.values()])

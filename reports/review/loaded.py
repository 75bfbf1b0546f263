"""The subject of a page: the summary of a gate with its verdicts, read from the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from harness.evidence.gate import GATE, GateSummary, bundles_in, is_bundle, read_gate, rejudged
from harness.evidence.known import with_known
from harness.evidence.manifest import MANIFEST, read_manifest
from harness.evidence.verdicts import VERDICT, read_verdict
from harness.model.documents.manifest import NamedRelease
from harness.model.errors import BadEvidence
from harness.model.known_findings import KnownFile
from harness.model.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A gate, or a single bundle as if it was one.

    verdicts, bundles: by scenario, those that decide. without: folders that prove nothing, each with the reason.
    unnamed: bundles beside gate.json which it does not name.
    """

    evidence: Path
    single: bool
    summary: GateSummary
    verdicts: Mapping[str, Verdict]
    bundles: Mapping[str, Path]
    without: Mapping[str, str]
    unnamed: tuple[str, ...] = ()

    def folder(self, name: str) -> Path:
        """The bundle with this name of its folder."""
        return self.evidence if self.single else self.evidence / name


def load(
    evidence: Path,
    summary: GateSummary | None = None,
    without: Mapping[str, str] | None = None,
    known: KnownFile | None = None,
) -> Loaded:
    """Reads a bundle or an --out folder. BadEvidence if it is neither, or its gate.json is damaged.

    summary, without: of a judgement that has just ended, if there was one. known: findings that are accepted, where
    there was none; those that an earlier gate accepted are not.
    """
    has_ended = summary is not None
    single = is_bundle(evidence)
    if summary is None and not single and (evidence / GATE).is_file():
        summary = read_gate(evidence)
    there = [evidence] if single else _there(evidence, summary)
    deciding = [r.bundle for r in summary.results if r.bundle is not None] if summary else [one.name for one in there]
    proves_nothing = dict(without or {})
    verdicts: dict[str, Verdict] = {}
    for name in (name for name in deciding if name not in proves_nothing):
        try:
            verdicts[name] = read_verdict(evidence if single else evidence / name)
        except BadEvidence as refusal:
            proves_nothing[name] = str(refusal)
    summary = _summary(verdicts) if summary is None else summary
    if not has_ended:
        summary = with_known(summary, evidence, known, proves_nothing)
    named = {name for r in summary.results for name in r.bundles} | proves_nothing.keys()
    chosen = {r.name: verdicts[r.bundle] for r in summary.results if r.bundle in verdicts}
    return Loaded(
        evidence=evidence,
        single=single,
        summary=_with_origin(summary, evidence) if single else summary,
        verdicts={v.scenario: v for v in chosen.values()},
        bundles={r.name: evidence if single else evidence / r.bundle for r in summary.results if r.bundle is not None},
        without=proves_nothing | _differing(summary, chosen),
        unnamed=tuple(one.name for one in there if one.name not in named),
    )


def _there(evidence: Path, summary: GateSummary | None) -> list[Path]:
    """The bundles of a folder. A gate that could play nothing has none."""
    try:
        return bundles_in(evidence)
    except BadEvidence:
        if summary is None:
            raise
        return []


def _summary(verdicts: Mapping[str, Verdict]) -> GateSummary:
    """A summary of bundles without a gate.json: it requires what is there, and each second try follows its first."""
    found = rejudged(GateSummary(required=(), results=(), release=NamedRelease()), verdicts)
    return replace(found, required=tuple(result.name for result in found.results))


def _differing(summary: GateSummary, verdicts: Mapping[str, Verdict]) -> dict[str, str]:
    """Bundles on which gate.json has another verdict than verdict.json, so that one of them was changed."""
    advice = "run `durability verify` on the folder"
    return {
        result.bundle: f"{GATE} says {result.status}, and its {VERDICT} {verdicts[result.name].status}; {advice}"
        for result in summary.results
        if result.bundle is not None
        and result.status is not None
        and result.name in verdicts
        and verdicts[result.name].status is not result.status
    }


def _with_origin(summary: GateSummary, bundle: Path) -> GateSummary:
    """The summary of one bundle, with release, seed and backend of its manifest, and the --records of its gate."""
    summary = replace(summary, records=_records(bundle))
    if not (bundle / MANIFEST).is_file():
        return summary
    try:
        manifest = read_manifest(bundle)
    except BadEvidence:
        return summary
    backends = (manifest.backend,) if manifest.backend else ()
    return replace(summary, release=manifest.release or summary.release, seed=manifest.seed, backends=backends)


def _records(bundle: Path) -> int | None:
    """The --records of the gate in the folder above; None if that has no gate.json, or one that does not name it."""
    try:
        gate = read_gate(bundle.absolute().parent)
    except BadEvidence:
        return None
    return gate.records if any(bundle.absolute().name in result.bundles for result in gate.results) else None

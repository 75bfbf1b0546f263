"""The scenario that a bundle played, and the kinds of findings in it: the beginning of a replay."""

from __future__ import annotations

from pathlib import Path

from harness import scenarios
from harness.evidence.documents import read_json
from harness.evidence.gate import is_bundle
from harness.evidence.manifest import MANIFEST, read_manifest
from harness.evidence.verdicts import VERDICT, read_verdict
from harness.faults.steps.registry import check_steps
from harness.model.errors import BadInput
from harness.model.scenario import toml
from harness.model.scenario.scenario import Scenario


def scenario_of(evidence: Path) -> tuple[Scenario, int | None]:
    """The scenario that a bundle played, and its seed; or the one of a scenario file. BadInput if it is neither."""
    if evidence.suffix == ".toml":
        return scenarios.load(str(evidence)), None
    if not is_bundle(evidence):
        raise BadInput(f"{evidence} is no evidence bundle and no scenario file; give the folder of one scenario")
    document = read_json(evidence / "scenario.json")
    if not isinstance(document, dict):
        raise BadInput(f"{evidence / 'scenario.json'} is no scenario; take the bundle from its source again")
    seed = read_manifest(evidence).seed if (evidence / MANIFEST).is_file() else None
    return toml.from_document(document, check_steps), seed


def kinds_of(evidence: Path) -> frozenset[str]:
    """The kinds of condemning findings of a bundle that was judged; none of any other."""
    if not (evidence / VERDICT).is_file():
        return frozenset()
    return frozenset(finding.kind.value for finding in read_verdict(evidence).findings if finding.condemns)

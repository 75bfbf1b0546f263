"""Thinned bundles: after a PASS, a night keeps only the documents and the verdict of an episode.

thinned.json marks such a bundle, and binds the verdict to the evidence that it is about. Without its tables nothing can
judge it again.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated, Final

from harness.evidence.documents import SOURCE_AGAIN, read_json, write_json
from harness.evidence.manifest import MANIFEST, check_digests, digest, read_manifest
from harness.evidence.parsing import MisfitError, converted
from harness.evidence.verdicts import FINDINGS, VERDICT, read_verdict
from harness.model.documents.manifest import Digest
from harness.model.documents.record import Record, meaning
from harness.model.errors import BadEvidence
from harness.model.verdict import Status, Verdict

THINNED: Final = "thinned.json"
JUDGED_BEFORE: Final = "judged before, evidence thinned"  # how every output names such an episode
_DOCUMENTS: Final = frozenset({"scenario.json", "run.json", "steps.json"})
_KEPT: Final = _DOCUMENTS | {THINNED, VERDICT, FINDINGS, MANIFEST}


class Thinned(Record, frozen=True, kw_only=True):
    """The content of thinned.json."""

    manifest: Annotated[str | None, meaning("`own_sha256` of the manifest of the evidence that was judged")]
    verdict: Annotated[Digest, meaning("of the verdict on it")]


def thin(bundle: Path) -> None:
    """Removes most of a bundle whose verdict is PASS. A kill in between leaves more files than needed."""
    sealed = read_manifest(bundle).own_sha256
    write_json(bundle / THINNED, Thinned(manifest=sealed, verdict=digest(bundle / VERDICT)))
    for path in bundle.iterdir():
        if path.name in _KEPT:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def is_thinned(bundle: Path) -> bool:
    """Whether a folder is marked as a thinned bundle."""
    return os.path.lexists(bundle / THINNED)


def kept_verdict(bundle: Path) -> Verdict:
    """The verdict from before the evidence was thinned. BadEvidence if it is no PASS, or about other evidence."""
    if not os.path.lexists(bundle / VERDICT):
        raise BadEvidence(f"the evidence of {bundle} was thinned, and its {VERDICT} is missing; {SOURCE_AGAIN}")
    mark, manifest, verdict = _mark(bundle), read_manifest(bundle), read_verdict(bundle)
    if mark.manifest != manifest.own_sha256:
        raise BadEvidence(f"{bundle / THINNED} is about the evidence of another run than {MANIFEST}; {SOURCE_AGAIN}")
    if mark.verdict != digest(bundle / VERDICT):
        raise BadEvidence(f"{bundle / VERDICT} is not the verdict of before the evidence was thinned; {SOURCE_AGAIN}")
    if verdict.status is not Status.PASS:
        raise BadEvidence(
            f"the evidence of {bundle} was thinned, and its verdict is {verdict.status.value}; only a PASS is thinned, "
            f"so {SOURCE_AGAIN}"
        )
    if manifest.scenario is not None and verdict.scenario != manifest.scenario:
        raise BadEvidence(
            f"{bundle / VERDICT} is about {verdict.scenario}, the evidence is of {manifest.scenario}; {SOURCE_AGAIN}"
        )
    if lost := sorted(name for name in _DOCUMENTS & manifest.files.keys() if not (bundle / name).is_file()):
        raise BadEvidence(f"{bundle / lost[0]} is missing, though thinning keeps it; {SOURCE_AGAIN}")
    check_digests(bundle, manifest, thinned=True)
    return verdict


def _mark(bundle: Path) -> Thinned:
    try:
        return converted(read_json(bundle / THINNED, SOURCE_AGAIN), Thinned)
    except MisfitError as wrong:
        raise BadEvidence(f"{bundle / THINNED} is no mark of a thinned bundle ({wrong}); {SOURCE_AGAIN}") from None

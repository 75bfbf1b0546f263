"""verdict.json of a bundle: the judge writes it, and reports read it. Only this file can lead to exit code 1."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from harness.evidence.documents import read_json, write_json
from harness.evidence.shapes import shown
from harness.model.errors import BadEvidence
from harness.model.excuse import excused_from_dict
from harness.model.finding import Finding, kind_of
from harness.model.schemas import FORMAT_VERSION
from harness.model.verdict import Doubt, Score, Status, Verdict

VERDICT: Final = "verdict.json"
FINDINGS: Final = "findings.parquet"


def write_verdict(bundle: Path, verdict: Verdict) -> Path:
    """Writes verdict.json into the folder of the bundle, atomically."""
    path = bundle / VERDICT
    write_json(path, verdict.as_dict())
    return path


def read_verdict(bundle: Path) -> Verdict:
    """The verdict on a bundle. BadEvidence if it has not been judged yet, or the file is not a verdict."""
    path = bundle / VERDICT
    if not path.is_file():
        raise BadEvidence(f"{bundle} has no {VERDICT} yet; run `durability verify {bundle}`")
    plain = read_json(path)
    version = plain.get("format_version") if isinstance(plain, dict) else None
    if version != FORMAT_VERSION:
        raise BadEvidence(
            f"{path} has format version {shown(version)}, and this harness reads version {FORMAT_VERSION}; run "
            f"`durability verify {bundle}`"
        )
    try:
        return verdict_from_dict(plain)
    except (KeyError, TypeError, ValueError) as foreign:
        raise BadEvidence(f"{path} is not a verdict ({foreign!r}); run `durability verify {bundle}`") from None


def verdict_from_dict(plain: Mapping[str, Any]) -> Verdict:
    """The inverse of `Verdict.as_dict`. KeyError, TypeError or ValueError on any other shape."""
    fields = {name: value for name, value in plain.items() if name != "format_version"}
    fields["status"] = Status[fields.pop("verdict")]
    own = {word: said for p in plain["facts"].get("plugins") or () for word, said in p["kinds"].items()}
    fields["findings"] = tuple(_finding(row, own) for row in plain["findings"])
    fields["doubts"] = tuple(Doubt(**row) for row in plain["doubts"])
    fields["notes"] = tuple(plain["notes"])
    fields["not_covered"] = tuple(plain["not_covered"])
    fields["score"] = Score(**plain["score"]) if plain["score"] else None
    return Verdict(**fields)


def _finding(row: Mapping[str, Any], own: Mapping[str, str]) -> Finding:
    """Verdicts of earlier harnesses have no `excuse`."""
    excuse = row.get("excuse")
    kind = kind_of(row["kind"], own)
    return Finding(**{**row, "kind": kind, "excuse": None if excuse is None else excused_from_dict(excuse)})

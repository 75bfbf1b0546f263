"""verdict.json of a bundle: written by the judge, read by everything that shows it. Only this file makes an exit 1."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from harness.evidence.documents import read_json, write_json
from harness.model.errors import BadEvidence
from harness.model.finding import Finding, Kind
from harness.model.verdict import Doubt, Score, Status, Verdict

VERDICT: Final = "verdict.json"
FINDINGS: Final = "findings.parquet"


def write_verdict(bundle: Path, verdict: Verdict) -> Path:
    """Writes verdict.json beside the evidence, atomically."""
    path = bundle / VERDICT
    write_json(path, verdict.as_dict())
    return path


def read_verdict(bundle: Path) -> Verdict:
    """The verdict on a bundle; BadEvidence when nobody has judged it yet, or the file is not a verdict."""
    path = bundle / VERDICT
    if not path.is_file():
        raise BadEvidence(f"{bundle} has no {VERDICT} yet; run `durability verify {bundle}`")
    try:
        return verdict_from_dict(read_json(path))
    except (KeyError, TypeError, ValueError) as foreign:
        raise BadEvidence(f"{path} is not a verdict ({foreign!r}); run `durability verify {bundle}`") from None


def verdict_from_dict(plain: Mapping[str, Any]) -> Verdict:
    """The inverse of `Verdict.as_dict`; KeyError, TypeError or ValueError on a foreign shape."""
    fields = dict(plain)
    fields["status"] = Status[fields.pop("verdict")]
    fields["findings"] = tuple(Finding(**{**row, "kind": Kind(row["kind"])}) for row in plain["findings"])
    fields["doubts"] = tuple(Doubt(**row) for row in plain["doubts"])
    fields["notes"] = tuple(plain["notes"])
    fields["not_covered"] = tuple(plain["not_covered"])
    fields["score"] = Score(**plain["score"]) if plain["score"] else None
    return Verdict(**fields)

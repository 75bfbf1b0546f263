"""Sealing of evidence that this harness did not write, or that somebody edited: marked as such, fully checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as pj

from harness.evidence.bundle import Bundle, documents_of
from harness.evidence.columns import arrow_schema
from harness.evidence.documents import read_json
from harness.evidence.manifest import MANIFEST, write_manifest
from harness.evidence.parts import write_parquet
from harness.evidence.values import check_lines_by_hand, fitting
from harness.evidence.verdicts import VERDICT
from harness.model.errors import BadEvidence
from harness.model.schemas import TABLES

HAND = "hand"


def seal_directory(path: Path) -> Bundle:
    """Digests every file of a bundle made or edited by hand, and opens it. BadEvidence names what is missing.

    Tables may be JSON lines; they become Parquet here. What an earlier manifest says of release, seed and versions is
    kept. A verdict on the evidence as it was before is removed: it is not about this evidence.
    """
    if not path.is_dir():
        raise BadEvidence(f"{path} is not a folder; give the folder of the evidence")
    documents_of(path)
    for table in TABLES:
        if table != "reservations":
            for lines in sorted((path / table).glob("*.jsonl")):
                _to_parquet(lines, table)
    facts = _facts(path)
    (path / MANIFEST).unlink(missing_ok=True)
    (path / VERDICT).unlink(missing_ok=True)
    write_manifest(path, facts, sealed_by=HAND)
    try:
        return Bundle.open(path)
    except BadEvidence:
        (path / MANIFEST).unlink()  # what cannot be judged must not look sealed
        raise


def _facts(path: Path) -> dict[str, Any]:
    """Release, seed and so on from an earlier manifest, else what the documents say themselves."""
    if (path / MANIFEST).is_file():
        earlier = read_json(path / MANIFEST)
        if isinstance(earlier, dict):
            return {k: v for k, v in earlier.items() if k not in ("format_version", "sealed_by", "files")}
    scenario = read_json(path / "scenario.json")
    name = scenario.get("name") if isinstance(scenario, dict) else None
    release = {"version": "unknown", "commit": "unknown", "source": "evidence sealed by hand"}
    return {"release": release, "scenario": name or path.name, "seed": None, "versions": {}, "clock": {}}


def _to_parquet(lines: Path, table: str) -> None:
    schema = arrow_schema(table)
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    try:
        rows = pj.read_json(lines, parse_options=options).select(schema.names)
    except (pa.ArrowException, KeyError) as misfit:
        check_lines_by_hand(lines, table)  # it knows the line; Arrow does not
        raise BadEvidence(f"{lines} does not fit the columns of {table}: {misfit}") from None
    if not fitting(rows, table):
        check_lines_by_hand(lines, table)
    write_parquet(rows, lines.with_suffix(".parquet"))
    lines.unlink()

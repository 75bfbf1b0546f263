"""Evidence of format versions 1 and 2 as that of version 3, so that versions of the judge can be compared.

Between versions 1 and 2 only words differ: keys of documents, two columns, names of steps and of one finding. Version 3
added the facts of steps, which follow from their names. The translation is for this comparison alone; the product
refuses evidence of earlier versions.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias, cast

import pyarrow.parquet as pq

from harness.evidence.documents import plain
from harness.evidence.manifest import MANIFEST, OWN_DIGEST, digest, own_digest
from harness.model.schemas import FORMAT_VERSION
from suites.differential.facts_of_steps import facts_of_step

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

FORMATS_BEFORE: Final = (1, 2)
# Keys of any document.
_KEYS: Final[Mapping[str, str]] = {
    "weakening": "negative_control",
    "weakened": "negative_control",
    "guards": "property",
    "permits": "allowed_anomalies",
    "bite": "effect",
    "lone": "isolated_client",
    "things": "entities",
}
# A key that means something else in a shape of the cluster or in a list of groups.
_TOP_LEVEL_KEYS: Final[Mapping[str, Mapping[str, str]]] = {"scenario.json": {"share": "load_weight"}}
# Words that stand as whole values: names of steps, of links' parties, of findings and doubts.
WORDS: Final[Mapping[str, str]] = {
    "wait_elsewhere": "wait_failover",
    "wait_forgotten": "wait_producer_expired",
    "wait_id_forgotten": "wait_transactional_id_expired",
    "wait_bite": "wait_effect",
    "meddle": "corrupt_metadata",
    "wait_ended": "wait_transaction_ended",
    "displaced": "wrong_ack_offset",
    "no_bite": "no_effect",
    "unread": "not_read",
    "copy_unread": "copy_not_read",
    "tier_unread": "tier_not_read",
    "lone": "isolated_client",
    "lone_client": "isolated_client",
}
# In the sentences of run.json about steps without an effect. The judge repeats what a run said in other words.
_WITHOUT_EFFECT: Final = (" did not bite: ", " had no effect: ")
_COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "probes": {"told": "reported"},
    "epoch_ends": {"told_epoch": "reported_epoch"},
}


def translate(bundle: Path, target: Path) -> None:
    """Copies a bundle of an earlier version to `target` as one of this version, without its verdict."""
    target.mkdir(parents=True)
    for entry in sorted(bundle.iterdir()):
        if entry.name in ("verdict.json", "findings.parquet", "junit.xml", MANIFEST):
            continue
        if entry.is_dir():
            _table(entry, target / entry.name)
        else:
            _document(entry, target / entry.name)
    if not (bundle / MANIFEST).is_file():  # the run died half way
        return
    manifest = json.loads((bundle / MANIFEST).read_text(encoding="utf-8"))
    assert manifest["format_version"] in FORMATS_BEFORE, f"{bundle} is no evidence of the versions {FORMATS_BEFORE}"
    files = {name: plain(digest(target / name)) for name in manifest["files"]}
    translated = {**manifest, "format_version": FORMAT_VERSION, "files": files}
    scenario = json.loads((target / "scenario.json").read_text(encoding="utf-8"))
    if "scenario" in manifest and "name" in scenario:
        translated["scenario"] = scenario["name"]  # some words for faults were names of scenarios, too
    _write(target / MANIFEST, {**translated, OWN_DIGEST: own_digest(translated)})


def translated(value: Json) -> Json:
    """A JSON value with every key and every whole word of version 1 replaced."""
    if isinstance(value, dict):
        return {_KEYS.get(key, key): translated(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [translated(inner) for inner in value]
    return WORDS.get(value, value) if isinstance(value, str) else value


def _document(source: Path, target: Path) -> None:
    content: Json = json.loads(source.read_text(encoding="utf-8"))
    top = _TOP_LEVEL_KEYS.get(source.name, {})
    if isinstance(content, dict):
        content = {top.get(key, key): inner for key, inner in content.items()}
    content = translated(content)
    if source.name == "run.json" and isinstance(content, dict):
        content["format_version"] = FORMAT_VERSION
        content["doubts"] = [_with_its_sentence(row) for row in objects(content.get("doubts") or [])]
    if source.name == "steps.json" and isinstance(content, list):
        content = [_with_facts(row) for row in objects(content)]
    _write(target, content)


def objects(value: Json) -> list[dict[str, Json]]:
    """A list of JSON objects."""
    assert isinstance(value, list)
    rows = [row for row in value if isinstance(row, dict)]
    assert len(rows) == len(value)
    return rows


def _with_its_sentence(doubt: dict[str, Json]) -> Json:
    return {**doubt, "text": str(doubt["text"]).replace(*_WITHOUT_EFFECT)}


def _with_facts(row: dict[str, Json]) -> Json:
    return {**row, "facts": cast(Json, [plain(fact) for fact in facts_of_step(row)])}


def _table(source: Path, target: Path) -> None:
    shutil.copytree(source, target)
    if source.name not in _COLUMNS:
        return
    for part in target.glob("*.parquet"):
        table = pq.read_table(part)
        names = [_COLUMNS[source.name].get(name, name) for name in table.column_names]
        pq.write_table(table.rename_columns(names), part)


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")

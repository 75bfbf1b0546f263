"""A bundle opens when it is what was sealed; anything else is one sentence with the file, the cause and the remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.evidence import Bundle, BundleWriter
from harness.evidence.seal import seal_directory
from harness.model.errors import BadEvidence
from harness.model.schemas import TABLES
from suites.unit.evidence_examples import FORMAT, write_example


@pytest.fixture
def example(tmp_path: Path) -> Path:
    return write_example(tmp_path / "by_hand")


@pytest.fixture
def sealed(example: Path) -> Path:
    seal_directory(example)
    return example


def test_the_example_of_the_format_opens(sealed: Path) -> None:
    bundle = Bundle.open(sealed)
    assert bundle.complete
    assert bundle.document("manifest")["sealed_by"] == "hand"
    assert bundle.document("run.json") == bundle.document("run")
    ledger = pq.read_table(bundle.table_files("ledger")[0]).to_pylist()
    assert [(row["seq"], row["offset"], row["error"]) for row in ledger] == [(0, 0, None), (1, 1, None), (2, 2, None)]
    assert [file.name for file in bundle.table_files("reservations")] == ["app.jsonl"]
    assert bundle.table_files("transactions") == []


def test_the_format_documents_every_column() -> None:
    for table, columns in TABLES.items():
        section = re.search(rf"^### {table}\b(.*?)^##", FORMAT, re.MULTILINE | re.DOTALL)
        assert section, table
        documented = set()
        for row in re.findall(r"^\| ([\w, ]+) \| [\w?, ]+ \|", section[1], re.MULTILINE):
            documented |= {name.strip() for name in row.split(",")}
        assert documented - {"column"} == set(columns), table


def _rewrite(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text()))


def _flip_last_byte(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (lambda b: b.rename(b.with_name("elsewhere")), "is not a folder"),
    "manifest is not JSON": (lambda b: (b / "manifest.json").write_text("{"), "cannot be read as JSON"),
    "foreign manifest": (lambda b: (b / "manifest.json").write_text('{"name": "app"}'), "is not the manifest"),
    "other version": (
        lambda b: _rewrite(b / "manifest.json", lambda t: t.replace('"format_version": 1', '"format_version": 99')),
        "format version 99",
    ),
    "truncated": (lambda b: (b / "ledger/app.parquet").write_bytes(b"PAR1"), "has 4 bytes"),
    "one byte flipped": (lambda b: _flip_last_byte(b / "ledger/app.parquet"), "was changed after it was sealed"),
    "part removed": (lambda b: (b / "ledger/app.parquet").unlink(), "is missing, though the manifest lists it"),
    "part added": (lambda b: (b / "ledger/more.parquet").write_bytes(b""), "was added after"),
    "document edited": (lambda b: _rewrite(b / "run.json", lambda t: t.replace("orders", "Orders", 1)), "was changed"),
    "document removed": (lambda b: (b / "steps.json").unlink(), "steps.json is missing"),
    "never sealed": (lambda b: (b / "manifest.json").unlink(), "was never sealed"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_one_sentence(sealed: Path, damage: str) -> None:
    harm, said = DAMAGE[damage]
    harm(sealed)
    with pytest.raises(BadEvidence) as refusal:
        Bundle.open(sealed)
    sentence = str(refusal.value)
    assert said in sentence
    assert str(sealed) in sentence
    assert "\n" not in sentence


def test_a_foreign_folder_is_not_taken_for_an_unfinished_bundle(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(BadEvidence, match="not an evidence bundle"):
        Bundle.open(tmp_path, allow_unfinished=True)


def _columns(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(path)), path)


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "column missing": (
        lambda b: _columns(b / "ledger/app.parquet", lambda t: t.drop(["outcome"])),
        "columns outcome are missing",
    ),
    "column too many": (
        lambda b: _columns(b / "ledger/app.parquet", lambda t: t.append_column("note", pa.nulls(3))),
        "columns note are unknown",
    ),
    "wrong type": (
        lambda b: _columns(b / "ledger/app.parquet", lambda t: t.set_column(1, "seq", pa.array(["0", "1", "2"]))),
        "column seq is string and must be int64",
    ),
    "nulls": (
        lambda b: _columns(b / "ledger/app.parquet", lambda t: t.set_column(1, "seq", pa.array([0, None, 2]))),
        "column seq has 1 nulls",
    ),
    "not Parquet": (lambda b: (b / "ledger/app.parquet").write_text("hello"), "is not a whole Parquet file"),
    "run without contract": (lambda b: (b / "run.json").write_text('{"finished": true}'), "has no 'contract'"),
    "document missing": (lambda b: (b / "cluster.json").unlink(), "cluster.json is missing"),
    "document not JSON": (lambda b: (b / "steps.json").write_text("["), "cannot be read as JSON"),
    "reservation torn in the middle": (
        lambda b: (b / "reservations/app.jsonl").write_text('{"stream": 1\n{}\n'),
        "line 1 is not JSON",
    ),
    "reservation of other columns": (
        lambda b: (b / "reservations/app.jsonl").write_text('{"stream": 1}\n'),
        "line 1 has no 'producer'",
    ),
    "JSON lines that do not fit": (
        lambda b: (b / "ledger/more.jsonl").write_text('{"stream": "x"}\n'),
        'more.jsonl line 1: stream is "x" and must be a whole number',
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_sealing_refuses_what_could_not_be_judged(sealed: Path, wrong: str) -> None:
    harm, said = WRONG[wrong]
    harm(sealed)
    with pytest.raises(BadEvidence) as refusal:
        seal_directory(sealed)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)
    with pytest.raises(BadEvidence):
        Bundle.open(sealed)


def test_sealing_again_marks_the_edit_keeps_the_release_and_drops_the_old_verdict(tmp_path: Path) -> None:
    folder = write_example(tmp_path / "b")
    seal_directory(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    release = {"version": "4.3.1", "commit": "c", "source": "s"}
    (folder / "manifest.json").write_text(json.dumps({**manifest, "sealed_by": "harness", "release": release}))
    (folder / "verdict.json").write_text("{}")
    _rewrite(folder / "run.json", lambda t: t.replace('"finished": true', '"finished": false'))
    bundle = seal_directory(folder)
    assert bundle.document("manifest")["sealed_by"] == "hand"
    assert bundle.document("manifest")["release"] == release
    assert not (folder / "verdict.json").exists()
    assert not bundle.complete


def test_a_run_that_died_opens_when_asked_for(tmp_path: Path) -> None:
    writer = BundleWriter(tmp_path)
    writer.document("scenario", {"name": "s"})
    writer.document("run", {"finished": False, "contract": {"topics": {}, "producers": {}, "exact_losses": []}})
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "p-0.parquet.tmp").write_bytes(b"half")
    (tmp_path / "reservations").mkdir()
    (tmp_path / "reservations" / "p.jsonl").write_text('{"stream": 1, "prod')
    with pytest.raises(BadEvidence, match="was never sealed"):
        Bundle.open(tmp_path)
    bundle = Bundle.open(tmp_path, allow_unfinished=True)
    assert not bundle.complete
    assert bundle.table_files("ledger") == []
    assert bundle.document("steps") == []
    assert bundle.document("reads") == []


def test_a_sealed_bundle_of_a_run_that_died_may_lack_what_it_had_not_come_to(example: Path) -> None:
    _rewrite(example / "run.json", lambda t: t.replace('"finished": true', '"finished": false'))
    (example / "reads.json").unlink()
    bundle = seal_directory(example)
    assert not bundle.complete
    assert bundle.document("reads") == []


def test_what_a_judge_writes_beside_the_evidence_does_not_break_the_seal(sealed: Path) -> None:
    (sealed / "verdict.json").write_text("{}")
    (sealed / "findings.parquet").write_bytes(b"x")
    assert Bundle.open(sealed).complete

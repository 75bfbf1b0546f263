"""A bundle opens if it is unchanged since its seal; else one sentence names the file, the cause and the remedy."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import convert

from harness.evidence import Bundle, BundleWriter, seal
from harness.evidence.columns import arrow_schema
from harness.evidence.manifest import OWN_DIGEST, own_digest
from harness.evidence.parsing import converted
from harness.evidence.seal import seal_directory
from harness.model.documents.manifest import NamedRelease
from harness.model.documents.run import Run
from harness.model.errors import BadEvidence
from harness.model.schemas import OPTIONAL_COLUMNS, TABLES
from suites.unit.evidence_examples import FORMAT, write_example

DIED = converted({"finished": False, "contract": {"topics": {}, "producers": {}, "exact_losses": []}}, Run)


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
    assert bundle.manifest.sealed_by == "hand"
    assert [read.position for read in bundle.documents.reads] == [3]
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


def _manifest(**keys: object) -> Callable[[Path], object]:
    def harm(bundle: Path) -> None:
        _rewrite(bundle / "manifest.json", lambda text: json.dumps(json.loads(text) | keys))

    return harm


def _folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (lambda b: b.rename(b.with_name("elsewhere")), "is not a folder"),
    "manifest is not JSON": (lambda b: (b / "manifest.json").write_text("{"), "cannot be read as JSON"),
    "foreign manifest": (lambda b: (b / "manifest.json").write_text('{"name": "app"}'), "is not the manifest"),
    "other version": (
        lambda b: _rewrite(b / "manifest.json", lambda t: t.replace('"format_version": 3', '"format_version": 99')),
        "format version 99",
    ),
    "no version": (_manifest(format_version=True), "is not the manifest of an evidence bundle: format_version is true"),
    "release is a number": (_manifest(release=1), "manifest.json: release is 1 and must be an object"),
    "release is a list": (_manifest(release=[1]), "manifest.json: release is [1] and must be an object"),
    "version is a number": (_manifest(release={"version": 4}), "release.version is 4 and must be text"),
    "digest is text": (_manifest(files={"run.json": "x"}), 'files.run.json is "x" and must be an object'),
    "digest is null": (_manifest(files={"run.json": None}), "files.run.json is null and must be an object"),
    "no digest": (_manifest(files={"run.json": {"bytes": 1}}), "files.run.json has no 'sha256'"),
    "manifest is a folder": (lambda b: _folder(b / "manifest.json"), "manifest.json is a folder"),
    "manifest without an end": (lambda b: (b / "manifest.json").write_text("[" * 100_000), "cannot be read as JSON"),
    "truncated": (lambda b: (b / "ledger/app.parquet").write_bytes(b"PAR1"), "has 4 bytes"),
    "one byte flipped": (lambda b: _flip_last_byte(b / "ledger/app.parquet"), "was changed after it was sealed"),
    "part removed": (lambda b: (b / "ledger/app.parquet").unlink(), "is missing, though the manifest lists it"),
    "part added": (lambda b: (b / "ledger/more.parquet").write_bytes(b""), "was added after"),
    "document edited": (lambda b: _rewrite(b / "run.json", lambda t: t.replace("orders", "Orders", 1)), "was changed"),
    "document removed": (lambda b: (b / "steps.json").unlink(), "steps.json is missing"),
    "never sealed": (lambda b: (b / "manifest.json").unlink(), "was never sealed"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_reported_in_one_sentence(sealed: Path, damage: str) -> None:
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


def _garble(path: Path) -> None:
    """Overwrites everything except the footer, which still describes sound pages."""
    content = path.read_bytes()
    footer = 8 + int.from_bytes(content[-8:-4], "little")
    path.write_bytes(content[:4] + bytes(len(content) - 4 - footer) + content[-footer:])


def _loop(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    path.symlink_to(path.name)


def _named(old: str, new: str) -> Callable[[Path], object]:
    def harm(bundle: Path) -> None:
        (bundle / new).parent.mkdir(exist_ok=True)
        (bundle / old).rename(bundle / new)

    return harm


def _line(text: str) -> Callable[[Path], object]:
    return lambda bundle: (bundle / "ledger" / "more.jsonl").write_text(text + "\n")


_PART = "ledger/app.parquet"

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
    "nulls without a count": (
        lambda b: pq.write_table(
            pq.read_table(b / _PART).set_column(1, "seq", pa.array([0, None, 2])), b / _PART, write_statistics=False
        ),
        "column seq has 1 nulls",
    ),
    "column twice": (
        lambda b: _columns(b / _PART, lambda t: t.append_column("seq", t["seq"])),
        "columns seq are there twice",
    ),
    "garbled": (lambda b: _garble(b / _PART), "app.parquet is not a whole Parquet file"),
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
    "only reservation with a typo": (
        lambda b: (b / "reservations/app.jsonl").write_text('{"stream": 1\n'),
        "app.jsonl line 1 is not JSON; correct it",
    ),
    "line is null": (_line("null"), "more.jsonl line 1 is null and must be an object"),
    "line is a list": (_line("[]"), "more.jsonl line 1 is [] and must be an object"),
    "two values in a line": (_line("{} null"), "more.jsonl line 1 is not JSON"),
    "line without an end": (_line('{"a":' * 100_000), "more.jsonl line 1 is not JSON"),
    "no line": (_line(""), "more.jsonl has no rows"),
    "both": (
        lambda b: (b / "ledger/app.jsonl").write_text("{}\n"),
        "ledger/app.jsonl would become app.parquet, which is there already",
    ),
    "table misspelt": (
        _named("ledger", "ledgers"),
        "ledgers is no file or folder of a bundle (did you mean 'ledger'?)",
    ),
    "table with a capital": (_named("ledger", "Ledger"), "(did you mean 'ledger'?)"),
    "file beside the tables": (
        lambda b: (b / "app.jsonl").write_text("{}"),
        "app.jsonl is no file or folder of a bundle",
    ),
    "part of another kind": (_named(_PART, "ledger/app.csv"), "app.csv is no part of ledger"),
    "ending in capitals": (_named(_PART, "ledger/app.JSONL"), "(did you mean 'app.jsonl'?)"),
    "packed": (_named(_PART, "ledger/app.jsonl.gz"), "app.jsonl.gz is no part of ledger"),
    "part in a folder": (_named(_PART, "ledger/sub/app.parquet"), "ledger/sub is no part of ledger"),
    "reservations as Parquet": (
        _named("reservations/app.jsonl", "reservations/app.parquet"),
        "app.parquet is no part of reservations; its parts are <writer>.jsonl",
    ),
    "part is a folder": (lambda b: _folder(b / "ledger/more.jsonl"), "more.jsonl is a folder"),
    "verdict is a folder": (lambda b: _folder(b / "verdict.json"), "verdict.json is a folder"),
    "document is a loop": (lambda b: _loop(b / "run.json"), "run.json is no file that can be read"),
    "table is a loop": (lambda b: _loop(b / "ledger"), "ledger is not a folder"),
    "logs are a file": (lambda b: (b / "logs").write_text("x"), "logs is not a folder"),
    "manifest of a number": (_manifest(release=1), "manifest.json: release is 1"),
    "JSON lines that do not fit": (
        lambda b: (b / "ledger/more.jsonl").write_text('{"stream": "x"}\n'),
        'more.jsonl line 1: stream is "x" and must be a whole number',
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_sealing_refuses_evidence_that_could_not_be_judged(sealed: Path, wrong: str) -> None:
    harm, said = WRONG[wrong]
    (sealed / "verdict.json").write_text("{}")
    harm(sealed)
    before = _content(sealed)
    with pytest.raises(BadEvidence) as refusal:
        seal_directory(sealed)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert _content(sealed) == before


@pytest.mark.parametrize(
    ("table", "column"),
    # Reservations are JSON lines, and those of the example lack the column.
    [(t, c) for t, columns in OPTIONAL_COLUMNS.items() for c in sorted(columns) if t != "reservations"],
)
def test_a_parquet_table_may_leave_out_each_optional_column(sealed: Path, table: str, column: str) -> None:
    parts = Bundle.open(sealed).table_files(table)
    part = parts[0] if parts else sealed / table / "app.parquet"
    part.parent.mkdir(exist_ok=True)
    whole = pq.read_table(part) if parts else arrow_schema(table).empty_table()
    pq.write_table(whole.drop_columns([column]), part)
    assert seal_directory(sealed).complete
    (row,) = re.findall(rf"^\| [\w, ]*\b{column}\b[\w, ]* \|.*$", _section(table), re.MULTILINE)
    assert re.search(r"columns? may be left out", row)


def _section(table: str) -> str:
    """The part of FORMAT.md about a table."""
    return FORMAT.split(f"\n### {table}: ", 1)[1].split("\n###", 1)[0]


def _content(bundle: Path) -> dict[str, bytes | None]:
    """Every file with its content."""
    return {
        found.relative_to(bundle).as_posix(): found.read_bytes() if found.is_file() else None
        for found in bundle.rglob("*")
    }


@pytest.mark.parametrize("broken_off", ["_to_parquet", "manifest_of", "write_json"])
@pytest.mark.parametrize("how", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_interrupted_seal_changes_nothing(
    example: Path, monkeypatch: pytest.MonkeyPatch, broken_off: str, how: BaseException
) -> None:
    before = _content(example)
    monkeypatch.setattr(seal, broken_off, _breaking(getattr(seal, broken_off), how))
    with pytest.raises((KeyboardInterrupt, BadEvidence)):
        seal_directory(example)
    assert _content(example) == before
    monkeypatch.undo()
    assert seal_directory(example).complete


def _breaking(well: Callable[..., Any], how: BaseException) -> Callable[..., Any]:
    """Raises after the function has worked; for the manifest before it, because the seal holds once it is written."""

    def breaks(*given: Any, **more: Any) -> None:
        if well.__name__ != "write_json":
            well(*given, **more)
        raise how

    return breaks


@pytest.mark.parametrize("opening", [seal_directory, Bundle.open])
@pytest.mark.parametrize("name", ["run.json", "ledger/app.parquet", "reservations/app.jsonl"])
def test_missing_rights_are_one_sentence(
    sealed: Path, monkeypatch: pytest.MonkeyPatch, opening: Callable[[Path], Bundle], name: str
) -> None:
    well = Path.open

    def refuses(path: Path, *given: Any, **more: Any) -> Any:
        if path == sealed / name:
            raise PermissionError(13, "Permission denied", str(path))
        return well(path, *given, **more)

    monkeypatch.setattr(Path, "open", refuses)
    with pytest.raises(BadEvidence, match=rf"{name} cannot be read.*\(Permission denied\); "):
        opening(sealed)


def test_files_that_are_no_evidence_are_ignored(example: Path) -> None:
    (example / ".DS_Store").write_bytes(b"x")
    (example / "ledger" / "._app.parquet").write_bytes(b"x")
    (example / "logs" / "node").mkdir(parents=True)
    (example / "logs" / "node" / "server.log").write_text("x")
    (example / "report").mkdir()
    for name in ("findings.parquet", "junit.xml", "report/index.html"):
        (example / name).write_bytes(b"x")
    names = seal_directory(example).manifest.files.keys()
    assert [name for name in names if "._" in name or "log" in name] == ["logs/node/server.log"]
    assert len(Bundle.open(example).table_files("ledger")) == 1


def test_a_file_name_need_not_be_utf_8(example: Path) -> None:
    (example / "ledger" / "app.jsonl").rename(example / "ledger" / os.fsdecode(b"a\xff.jsonl"))
    seal_directory(example)
    assert len(Bundle.open(example).table_files("ledger")) == 1


def test_a_line_ends_with_its_line_break_only(example: Path) -> None:
    _rewrite(
        example / "ledger/app.jsonl", lambda text: text.replace('"returned_ns"', '"error": "a\u2028b", "returned_ns"')
    )
    ledger = pq.read_table(seal_directory(example).table_files("ledger")[0])
    assert ledger["error"].to_pylist() == ["a\u2028b"] * 3


def _resealed(bundle: Path) -> None:
    """As the harness seals: with today's facts and digest."""
    content = json.loads((bundle / "manifest.json").read_text())
    (bundle / "manifest.json").write_text(json.dumps(content | {OWN_DIGEST: own_digest(content)}))


def test_every_key_of_a_manifest_is_under_its_own_digest(tmp_path: Path) -> None:
    folder = write_example(tmp_path / "b")
    seal_directory(folder)
    release = {"version": "4.3.1", "commit": "c", "source": "s"}
    _manifest(release=release, seed=7, sealed_by="harness", versions={"python": "3.11"})(folder)
    _resealed(folder)
    sound = json.loads((folder / "manifest.json").read_text())
    assert Bundle.open(folder).manifest.release == convert(release, NamedRelease)
    changes: dict[str, object] = {
        "release": {**release, "version": "4.3.0"},
        "scenario": None,
        "seed": 6,
        "sealed_by": "hand",
        "versions": {},
        "added": 1,
        OWN_DIGEST: "0" * 64,
    }
    for key, value in changes.items():
        (folder / "manifest.json").write_text(json.dumps(sound | {key: value}))
        with pytest.raises(BadEvidence, match=r"manifest\.json was changed after it was sealed \(its own digest"):
            Bundle.open(folder)
    (folder / "manifest.json").write_text(json.dumps(dict(reversed(sound.items()))))  # the order says nothing
    assert Bundle.open(folder).manifest.seed == 7


def test_a_manifest_without_its_own_digest_is_of_an_older_harness(tmp_path: Path) -> None:
    folder = write_example(tmp_path / "b")
    seal_directory(folder)
    content = json.loads((folder / "manifest.json").read_text())
    del content[OWN_DIGEST]
    (folder / "manifest.json").write_text(json.dumps(content))
    assert Bundle.open(folder).manifest.own_sha256 is None


def test_a_seal_of_another_scenario_is_refused(tmp_path: Path) -> None:
    folder = write_example(tmp_path / "b")
    seal_directory(folder)
    _manifest(scenario="calm")(folder)
    _resealed(folder)
    with pytest.raises(BadEvidence, match=r"of the scenario 'by_hand' by scenario\.json, and of 'calm' by manifest"):
        Bundle.open(folder)
    assert seal_directory(folder).manifest.scenario == "by_hand"
    Bundle.open(folder)


def test_sealing_again_marks_the_edit_keeps_the_release_and_drops_the_old_verdict(tmp_path: Path) -> None:
    folder = write_example(tmp_path / "b")
    seal_directory(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    release = {"version": "4.3.1", "commit": "c", "source": "s"}
    (folder / "manifest.json").write_text(json.dumps({**manifest, "sealed_by": "harness", "release": release}))
    (folder / "verdict.json").write_text("{}")
    _rewrite(folder / "run.json", lambda t: t.replace('"finished": true', '"finished": false'))
    bundle = seal_directory(folder)
    assert bundle.manifest.sealed_by == "hand"
    assert bundle.manifest.release == convert(release, NamedRelease)
    assert not (folder / "verdict.json").exists()
    assert not bundle.complete


def _as_version_1(bundle: Path) -> None:
    """The documents of format version 1: other keys, and no version in run.json."""
    _rewrite(bundle / "run.json", lambda t: t.replace('"negative_control"', '"weakened"'))
    _rewrite(bundle / "scenario.json", lambda t: t.replace('"property"', '"guards"'))


def test_a_bundle_that_version_1_sealed_is_refused(sealed: Path) -> None:
    _as_version_1(sealed)
    _manifest(format_version=1)(sealed)
    expected = (
        r"manifest\.json has format version 1, and this harness reads version 3; judge the bundle with the harness"
    )
    with pytest.raises(BadEvidence, match=expected):
        Bundle.open(sealed)
    before = _content(sealed)
    with pytest.raises(BadEvidence, match=expected):
        seal_directory(sealed)
    assert _content(sealed) == before


@pytest.mark.parametrize("version", [None, 1, 2, 4, "3"])
def test_an_unsealed_bundle_needs_the_current_version_in_run_json(tmp_path: Path, version: object) -> None:
    """A harness that is killed leaves no manifest, so run.json alone says which words its evidence uses."""
    writer = BundleWriter(tmp_path)
    writer.document("scenario", {"name": "s"})
    writer.document("run", DIED)
    assert not Bundle.open(tmp_path, allow_unfinished=True).complete
    run = json.loads((tmp_path / "run.json").read_text())
    del run["format_version"]
    (tmp_path / "run.json").write_text(json.dumps(run if version is None else {"format_version": version, **run}))
    said = r"run\.json has (no format_version, and|format version \S+, and) "
    with pytest.raises(BadEvidence, match=said) as refusal:
        Bundle.open(tmp_path, allow_unfinished=True)
    assert "\n" not in str(refusal.value)


FORMER_WORDS: dict[str, Callable[[Any], object]] = {
    "run.json: weakened": lambda run: run.update(weakened=None),
    "steps.json: bite": lambda steps: steps.append({"bite": None}),
    "scenario.json: guards": lambda scenario: scenario.update(guards="acks=all"),
    "scenario.json: weakening": lambda scenario: scenario.update(weakening=None),
    "scenario.json: permits": lambda scenario: scenario.update(permits={}),
    "scenario.json: share": lambda scenario: scenario.update(share=1.0),
    "scenario.json: lone": lambda scenario: scenario.update(shape={"lone": True}),
    "scenario.json: things": lambda scenario: scenario.update(admin=[{"name": "a", "things": 3}]),
}


@pytest.mark.parametrize("former", FORMER_WORDS)
def test_a_folder_written_by_hand_with_a_key_of_version_1_is_not_sealed(example: Path, former: str) -> None:
    name, word = former.split(": ")
    content = json.loads((example / name).read_text())
    FORMER_WORDS[former](content)
    (example / name).write_text(json.dumps(content))
    with pytest.raises(
        BadEvidence, match=rf"{name} has the key '{word}' of format version 1, which is '\w+' in version 3"
    ):
        seal_directory(example)


def test_a_folder_written_by_hand_may_say_the_current_version_and_no_other(example: Path) -> None:
    _rewrite(example / "run.json", lambda t: t.replace("{", '{"format_version": 1, ', 1))
    with pytest.raises(BadEvidence, match=r"run\.json has format version 1, and this harness reads version 3"):
        seal_directory(example)
    _rewrite(example / "run.json", lambda t: t.replace('"format_version": 1', '"format_version": 3'))
    assert seal_directory(example).complete


def test_a_run_that_died_opens_when_asked_for(tmp_path: Path) -> None:
    writer = BundleWriter(tmp_path)
    writer.document("scenario", {"name": "s"})
    writer.document("run", DIED)
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "p-0.parquet.tmp").write_bytes(b"half")
    (tmp_path / "reservations").mkdir()
    (tmp_path / "reservations" / "p.jsonl").write_text('{"stream": 1, "prod')
    with pytest.raises(BadEvidence, match="was never sealed"):
        Bundle.open(tmp_path)
    bundle = Bundle.open(tmp_path, allow_unfinished=True)
    assert not bundle.complete
    assert bundle.table_files("ledger") == []
    assert bundle.documents.steps == ()
    assert bundle.documents.reads == ()


def test_a_sealed_bundle_of_a_run_that_died_may_lack_later_documents(example: Path) -> None:
    _rewrite(example / "run.json", lambda t: t.replace('"finished": true', '"finished": false'))
    (example / "reads.json").unlink()
    bundle = seal_directory(example)
    assert not bundle.complete
    assert bundle.documents.reads == ()


def test_files_that_the_judge_writes_do_not_break_the_seal(sealed: Path) -> None:
    (sealed / "verdict.json").write_text("{}")
    (sealed / "findings.parquet").write_bytes(b"x")
    assert Bundle.open(sealed).complete

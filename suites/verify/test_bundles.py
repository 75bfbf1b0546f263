"""Bundles on disk: several in one judgement, and what is written next to them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from harness.evidence import Bundle
from harness.evidence.parsing import too_large
from harness.evidence.seal import seal_directory
from harness.evidence.verdicts import FINDINGS, VERDICT, read_verdict
from harness.model.errors import BadEvidence
from harness.model.schemas import TABLES
from harness.model.verdict import Status, Verdict
from harness.verify import judge
from suites.unit.evidence_examples import write_example
from suites.verify.history import History
from suites.verify.judging import few_queries, reported, verdicts


def example(folder: Path, *, whole: bool = False) -> Path:
    """FORMAT.md's three records, one of them lost; or none lost."""
    write_example(folder)
    drain = folder / "observations" / "drain.jsonl"
    if whole:
        row = json.loads(drain.read_text().splitlines()[0]) | {"offset": 1, "seq": 1}
        drain.write_text(drain.read_text().rstrip("\n") + "\n" + json.dumps(row) + "\n")
    return folder


def opened(folder: Path) -> Bundle:
    seal_directory(folder)
    return Bundle.open(folder)


LOSSY = "x+y"
NAMES = ("a b", "100%", LOSSY, "ü#", "plain", "torn")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> dict[str, tuple[Bundle, Verdict]]:
    """Bundles judged together, each with its verdict. Only LOSSY has a defect."""
    folder = tmp_path_factory.mktemp("bundles")
    paths = [example(folder / name, whole=name != LOSSY) for name in NAMES]
    with (folder / "torn" / "reservations" / "app.jsonl").open("a") as lines:
        lines.write('{"stream": 2, "produc')
    bundles = [opened(path) for path in paths]
    return dict(zip(NAMES, zip(bundles, judge(bundles), strict=True), strict=True))


def test_bundles_with_any_folder_name_are_kept_apart(judged: dict[str, tuple[Bundle, Verdict]]) -> None:
    assert {name: reported(v) for name, (_, v) in judged.items() if reported(v)} == {LOSSY: ["lost 1"]}
    assert [v.facts.records and v.facts.records.acked for _, v in judged.values()] == [3] * len(NAMES)


def test_verdict_and_records_are_written_next_to_the_evidence(judged: dict[str, tuple[Bundle, Verdict]]) -> None:
    (lossy, verdict), (clean, acquitted) = judged[LOSSY], judged["plain"]
    assert (verdict.status, acquitted.status) == (Status.FAIL, Status.PASS)
    assert read_verdict(lossy.path) == verdict
    records = pq.read_table(lossy.path / "findings.parquet").to_pylist()
    assert [(r["kind"], r["topic"], r["offset"], r["stream"], r["seq"]) for r in records] == [
        ("lost", "orders", 1, 1, 1)
    ]
    assert pq.read_table(clean.path / "findings.parquet").num_rows == 0


def test_an_incomplete_last_line_of_reservations_is_ignored(judged: dict[str, tuple[Bundle, Verdict]]) -> None:
    assert judged["torn"][1].status is Status.PASS


def test_bundles_judged_in_several_parts_get_the_verdicts_that_they_get_together(
    judged: dict[str, tuple[Bundle, Verdict]],
) -> None:
    bundles, together = zip(*judged.values(), strict=True)
    assert [verdict.status for verdict in together] == [Status.FAIL if name == LOSSY else Status.PASS for name in NAMES]
    for bundle in bundles:
        for written in (VERDICT, FINDINGS):
            (bundle.path / written).unlink()
    four = sum(part.stat().st_size for bundle in bundles[:4] for table in TABLES for part in bundle.table_files(table))
    assert judge(bundles, at_once_bytes=four) == list(together)
    assert [read_verdict(bundle.path) for bundle in bundles] == list(together)
    lost = {name: pq.read_table(bundle.path / FINDINGS).num_rows for name, (bundle, _) in judged.items()}
    assert lost == {name: int(name == LOSSY) for name in NAMES}


@pytest.mark.usefixtures("spark")
def test_a_read_only_bundle_can_be_judged_without_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few_queries(monkeypatch, "lost")
    bundle = opened(example(tmp_path / "b"))
    before = sorted(tmp_path.rglob("*"))
    (verdict,) = judge([bundle], write=False)
    assert verdict.status is Status.FAIL
    assert sorted(tmp_path.rglob("*")) == before


def test_a_document_that_lacks_something_is_named(tmp_path: Path) -> None:
    folder = example(tmp_path / "b")
    reads = json.loads((folder / "reads.json").read_text())
    del reads[0]["position"]
    (folder / "reads.json").write_text(json.dumps(reads))
    with pytest.raises(BadEvidence, match=r"b/reads\.json: \[0\] has no 'position'"):
        judge([opened(folder)])


def test_a_number_beyond_64_bits_is_refused_with_its_place(tmp_path: Path) -> None:
    folder = example(tmp_path / "b")
    reads = json.loads((folder / "reads.json").read_text())
    reads[0]["position"] = 2**63
    (folder / "reads.json").write_text(json.dumps(reads))
    with pytest.raises(BadEvidence, match=rf"b/reads\.json: reads\[0\]\.position is {2**63}, which does not fit"):
        judge([opened(folder)])


def test_the_largest_numbers_of_64_bits_are_accepted() -> None:
    fits = {"a": [2**63 - 1, 1 - 2**63, True, "9" * 30, None, {"b": 0.5}]}
    assert list(too_large(fits, "run")) == []
    assert list(too_large({"a": [1, {"b": -(2**63) - 1}]}, "run")) == [("run.a[1].b", -(2**63) - 1)]


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_a_history_with_a_number_beyond_64_bits_is_refused(spark: SparkSession, number: int) -> None:
    """As null it would mean that the log end is unknown, and every loss beyond it would become a doubt."""
    history = History("AAA").build()
    for log in history.drained["partitions"][0]["logs"]:
        log["log_end"] = number
    with pytest.raises(BadEvidence, match=rf"the evidence has the number {number}, which does not fit into 64 bits"):
        verdicts(spark, [history])


def test_no_bundles_start_no_spark() -> None:
    assert judge([]) == []


def test_a_process_has_one_session(spark: SparkSession) -> None:
    from harness.verify.engine.session import open_session

    assert open_session() is spark

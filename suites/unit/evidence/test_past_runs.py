"""The file of earlier gates: a run judged again replaces its row; a file that cannot be used is refused."""

from __future__ import annotations

import json
import multiprocessing
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.evidence.gate import GateSummary, Try, decided, read_gate, summary_of, write_gate
from harness.evidence.past_runs import SCHEMA_VERSION, append, check_past_runs, past_gates
from harness.model.documents.manifest import NamedRelease
from harness.model.documents.verdict_facts import AckTimes, Availability
from harness.model.doubt_names import DoubtOrigin
from harness.model.errors import BadInput
from harness.model.verdict import Status, Verdict
from suites.unit.evidence_examples import judged, lost, verdict

RELEASE = NamedRelease(version="4.3.1", commit="abc", source="here")


def bundle(folder: Path, given: Verdict, number: int) -> Path:
    """A judged folder with an identity of its own."""
    judged(folder, given)
    (folder / "manifest.json").write_text(json.dumps({"number": number}))
    return folder


def with_p99(given: Verdict, ms: float) -> Verdict:
    waited = Availability(ack_ms={"during": AckTimes(acks=9, p50=1, p99=ms)})
    return replace(given, facts=replace(given.facts, availability=waited))


def gate(out: Path, *statuses: Status, number: int = 0, release: NamedRelease = RELEASE) -> Path:
    """An --out folder; the scenario x was tried once for each status, and y is PASS."""
    names = ["x", "x-again"][: len(statuses)]
    for n, (name, status) in enumerate(zip(names, statuses, strict=True)):
        bundle(out / name, with_p99(verdict("x", status), 100 + n), number * 10 + n)
    bundle(out / "y", verdict("y", Status.PASS), number * 10 + 5)
    origins = (DoubtOrigin.SCENARIO,)
    tries = [Try(bundle=n, status=s, origins=origins) for n, s in zip(names, statuses, strict=True)]
    results = (decided("x", tries), decided("y", [Try(bundle="y", status=Status.PASS)]))
    write_gate(out, GateSummary(required=("x", "y"), results=results, release=release, seed=7, took_s=9.0))
    return out


def appended(file: Path, out: Path) -> None:
    append(file, out, read_gate(out))


def test_a_gate_is_read_back_as_it_was_judged(tmp_path: Path) -> None:
    out = gate(tmp_path / "out", Status.INCONCLUSIVE, Status.PASS)
    appended(tmp_path / "h", out)
    (read,) = past_gates(tmp_path / "h")
    assert (read.release, read.commit, read.seed, read.verdict, read.took_s) == ("4.3.1", "abc", 7, Status.PASS, 9.0)
    assert (read.required, read.with_verdict, read.evidence) == (2, 2, str(out))
    assert [(r.scenario, r.attempt, r.status, r.decides, r.doubts) for r in read.runs] == [
        ("x", 1, Status.INCONCLUSIVE, False, ("floor_after",)),
        ("x", 2, Status.PASS, True, ()),
        ("y", 1, Status.PASS, True, ()),
    ]
    assert [run.figures.get("ack_p99_during_ms") for run in read.runs] == [100.0, 101.0, None]
    assert {run.build for run in read.runs} == {("4.3.1", "abc", "here")}


def test_a_run_that_is_judged_again_replaces_its_row_wherever_it_lies(tmp_path: Path) -> None:
    file = tmp_path / "h"
    appended(file, gate(tmp_path / "out", Status.PASS))
    appended(file, gate(tmp_path / "copy", Status.INCONCLUSIVE))
    (read,) = past_gates(file)
    assert (read.verdict, read.evidence) == (Status.INCONCLUSIVE, str(tmp_path / "copy"))
    assert [(run.scenario, run.status) for run in read.runs] == [("x", Status.INCONCLUSIVE), ("y", Status.PASS)]
    appended(file, gate(tmp_path / "other", Status.PASS, number=1))
    assert [len(one.runs) for one in past_gates(file)] == [2, 2]


def test_a_bundle_that_is_judged_alone_replaces_its_run_and_keeps_its_gate(tmp_path: Path) -> None:
    file, out = tmp_path / "h", gate(tmp_path / "out", Status.PASS)
    appended(file, out)
    again = with_p99(verdict("x", Status.FAIL, lost()), 300)
    bundle(out / "x", again, 0)
    append(file, out / "x", summary_of({"x": again}))
    (read,) = past_gates(file)
    assert (read.required, read.verdict, read.evidence) == (2, Status.PASS, str(out))
    assert [(r.scenario, r.status, r.findings) for r in read.runs] == [("x", Status.FAIL, 1), ("y", Status.PASS, 0)]
    assert read.runs[0].figures == {"ack_p99_during_ms": 300.0, "longest_stall_s": 0.0}


def test_a_try_that_is_judged_alone_keeps_its_place_in_the_gate(tmp_path: Path) -> None:
    file, out = tmp_path / "h", gate(tmp_path / "out", Status.INCONCLUSIVE, Status.PASS)
    appended(file, out)
    append(file, out / "x-again", summary_of({"x-again": verdict("x", Status.PASS)}))
    append(file, out / "x", summary_of({"x": verdict("x", Status.INCONCLUSIVE)}))
    (read,) = past_gates(file)
    assert [(r.scenario, r.attempt, r.decides) for r in read.runs] == [("x", 1, False), ("x", 2, True), ("y", 1, True)]


def test_bundles_without_a_verdict_are_left_out(tmp_path: Path) -> None:
    file, out = tmp_path / "h", gate(tmp_path / "out", Status.PASS)
    (out / "x" / "verdict.json").unlink()
    appended(file, out)
    assert [run.scenario for run in past_gates(file)[0].runs] == ["y"]
    (out / "y" / "verdict.json").write_text("{")
    appended(tmp_path / "none", out)
    assert not (tmp_path / "none").exists()


def _append(file: Path, out: Path) -> None:
    append(file, out, read_gate(out))


def test_processes_that_append_at_once_lose_nothing(tmp_path: Path) -> None:
    outs = [gate(tmp_path / f"out{n}", Status.PASS, number=n) for n in range(6)]
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_append, args=(tmp_path / "h", out)) for out in outs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 6
    assert {one.evidence for one in past_gates(tmp_path / "h")} == {str(out) for out in outs}


def _text(file: Path) -> None:
    file.write_text("not a database, and longer than the header of one: " + "x" * 200)


def _cut(file: Path) -> None:
    appended(file, gate(file.with_name("for_cut"), Status.PASS))
    file.write_bytes(file.read_bytes()[:9000])


def _later(file: Path) -> None:
    appended(file, gate(file.with_name("for_later"), Status.PASS))
    with sqlite3.connect(file) as database:
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    database.close()


def _foreign(file: Path) -> None:
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE songs (name TEXT)")
    database.close()


def _odd_word(file: Path) -> None:
    appended(file, gate(file.with_name("for_word"), Status.PASS))
    with sqlite3.connect(file) as database:
        database.execute("UPDATE runs SET status = 'GOOD'")
    database.close()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_text, "is damaged or no SQLite database"),
        (_cut, "is damaged or no SQLite database"),
        (_later, f"has schema version {SCHEMA_VERSION + 1}"),
        (_foreign, "is a database of another program"),
        (Path.mkdir, "is not a file"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_and_left_as_it_was(
    tmp_path: Path, make: Callable[[Path], None], said: str
) -> None:
    file = tmp_path / "h"
    make(file)
    before = file.read_bytes() if file.is_file() else None
    with pytest.raises(BadInput, match=said):
        check_past_runs(file)
    with pytest.raises(BadInput):
        append(file, tmp_path / "out", read_gate(gate(tmp_path / "out", Status.PASS)))
    assert (file.read_bytes() if file.is_file() else None) == before


def test_a_row_with_an_unknown_verdict_is_damage(tmp_path: Path) -> None:
    _odd_word(tmp_path / "h")
    with pytest.raises(BadInput, match="is damaged"):
        past_gates(tmp_path / "h")


def test_a_file_that_can_be_made_is_not_made_by_the_check(tmp_path: Path) -> None:
    check_past_runs(tmp_path / "h")
    assert not (tmp_path / "h").exists()
    with pytest.raises(BadInput, match="there is no folder"):
        check_past_runs(tmp_path / "no" / "h")
    with pytest.raises(BadInput, match="there is no file"):
        past_gates(tmp_path / "h")
    (tmp_path / "h").touch()  # as `mktemp` makes it
    check_past_runs(tmp_path / "h")
    assert past_gates(tmp_path / "h") == ()
    appended(tmp_path / "h", gate(tmp_path / "out", Status.PASS))
    check_past_runs(tmp_path / "h")
    assert len(past_gates(tmp_path / "h")) == 1

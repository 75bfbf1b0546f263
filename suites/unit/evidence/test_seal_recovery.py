"""A `durability seal` that is killed is finished or undone by the next command that opens or seals the folder."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.evidence import Bundle
from harness.evidence.seal import seal_directory
from harness.evidence.seal_recovery import STAGED, sealing
from harness.model.errors import BadEvidence
from suites.unit.evidence_examples import write_example

# Kills the process at the moment when the named function is called for the n-th time, before or after it has worked.
KILLED = """
import os, signal, sys
from pathlib import Path
from harness.evidence import seal
folder, name, count, moment = sys.argv[1:]
owner = Path if hasattr(Path, name) else seal
real, calls = getattr(owner, name), 0
def killing(*given, **more):
    global calls
    calls += 1
    if calls == int(count) and moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    done = real(*given, **more)
    if calls == int(count):
        os.kill(os.getpid(), signal.SIGKILL)
    return done
setattr(owner, name, killing)
seal.seal_directory(Path(folder))
"""
# (function, call, moment, whether the seal holds): staging of two tables, the manifest, then two renames and removals.
MOMENTS = [
    ("_to_parquet", "1", "before", False),
    ("_to_parquet", "1", "after", False),
    ("_to_parquet", "2", "after", False),
    ("write_json", "1", "before", False),
    ("write_json", "1", "after", True),
    ("unlink", "1", "before", True),
    ("unlink", "1", "after", True),
    ("unlink", "2", "before", True),
]


def killed(folder: Path, name: str, count: str, moment: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), name, count, moment], cwd=Path(__file__).parents[3], check=False
    )
    assert child.returncode == -signal.SIGKILL


def names_in(folder: Path) -> set[str]:
    return {found.relative_to(folder).as_posix() for found in folder.rglob("*") if found.is_file()}


@pytest.fixture
def example(tmp_path: Path) -> Path:
    folder = write_example(tmp_path / "by_hand")
    (folder / "verdict.json").write_text("{}")
    return folder


@pytest.mark.parametrize(("name", "count", "moment", "holds"), MOMENTS)
@pytest.mark.parametrize("again", [seal_directory, Bundle.open], ids=["seal", "open"])
def test_a_killed_seal_is_finished_or_undone(
    example: Path, name: str, count: str, moment: str, holds: bool, again: Callable[[Path], Bundle]
) -> None:
    before = names_in(example)
    killed(example, name, count, moment)
    if again == Bundle.open and not holds:
        with pytest.raises(BadEvidence, match="was never sealed"):
            again(example)
        # The verdict was set aside for the seal, and can be made again.
        assert names_in(example) | {"verdict.json"} == before
        return
    bundle = again(example)
    assert bundle.complete
    assert not [found for found in names_in(example) if found.endswith(("app.jsonl.tmp", STAGED)) or "verdict" in found]
    assert not [*example.glob("ledger/*.jsonl"), *example.glob("observations/*.jsonl")]
    assert [row["seq"] for row in pq.read_table(bundle.table_files("ledger")[0]).to_pylist()] == [0, 1, 2]
    assert Bundle.open(example).complete


def test_lines_that_were_written_after_the_seal_are_never_removed(example: Path) -> None:
    lines = (example / "ledger/app.jsonl").read_text()
    seal_directory(example)
    (example / "ledger/app.jsonl").write_text(lines.replace('"acked"', '"unknown"'))
    for opening, said in ((Bundle.open, "was added after the bundle was sealed"), (seal_directory, "is there already")):
        with pytest.raises(BadEvidence, match=said):
            opening(example)
    assert '"unknown"' in (example / "ledger/app.jsonl").read_text()


def test_a_staged_part_that_the_seal_does_not_list_is_removed(example: Path) -> None:
    seal_directory(example)
    left = example / "ledger" / f"other.parquet{STAGED}"
    shutil.copy(example / "ledger/app.parquet", left)
    assert Bundle.open(example).complete
    assert not left.exists()


def test_a_manifest_that_is_damaged_does_not_keep_leftovers_from_being_removed(example: Path) -> None:
    seal_directory(example)
    left = example / "ledger" / f"app.parquet{STAGED}"
    left.write_bytes(b"half")
    for content in ("{", "[]", json.dumps({"files": 1, "sealed_from": [1]})):
        (example / "manifest.json").write_text(content)
        with pytest.raises(BadEvidence):
            Bundle.open(example)
        assert not left.exists()
        left.write_bytes(b"half")


def test_two_seals_at_once_are_refused_and_opening_leaves_the_other_one_alone(example: Path) -> None:
    seal_directory(example)
    with sealing(example):
        left = example / "ledger" / f"app.parquet{STAGED}"
        left.write_bytes(b"the other one is writing this")
        assert Bundle.open(example).complete
        assert left.exists()
        with pytest.raises(BadEvidence, match="another process is sealing"):
            seal_directory(example)
    assert Bundle.open(example).complete
    assert not left.exists()

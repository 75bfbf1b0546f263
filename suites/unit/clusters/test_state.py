"""Folders of runs as they are found: in the making, damaged, or no run's at all."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from harness.clusters import clean, sweep
from harness.clusters.state import ProcessId, default_root, load, new_run, runs
from harness.model.backend import CONTAINERS
from harness.model.errors import BadInput


def test_a_kept_run_in_the_making_is_nobodys_remains(tmp_path: Path) -> None:
    new_run(tmp_path, slot=0, release="9.9.9", kept=True)
    assert sweep(tmp_path) == []
    assert len(runs(tmp_path)) == 1


def test_remains_on_an_engine_that_does_not_answer_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody hears that nothing is left while containers are."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody")
    root = tmp_path / "runs"
    state = new_run(root, slot=0, release="9.9.9", kept=False, backend=CONTAINERS)
    replace(state, harness=ProcessId(state.harness.pid, "an earlier boot")).save()
    reported = f"left the remains of {state.run}: no container engine answers at unix://{tmp_path}/nobody"
    for look in (sweep, clean):
        (line,) = look(root=root)
        assert line.startswith(reported)
    assert state.directory.is_dir()


def test_a_damaged_state_is_nobodys_run(tmp_path: Path) -> None:
    (tmp_path / "run-0-x").mkdir()
    (tmp_path / "run-0-x" / "run-state.json").write_text("{")
    assert load(tmp_path / "run-0-x") is None
    assert sweep(tmp_path) == []
    assert (tmp_path / "run-0-x").is_dir()  # it may be in the making
    os.utime(tmp_path / "run-0-x", (0, 0))
    assert sweep(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "state",
    [
        "[]",
        "{}",
        "7",
        '{"harness": []}',
        '{"harness": {"pid": 1, "started": "x"}, "supervisor": null}',
        '{"harness": {"pid": 1, "started": "x"}, "supervisor": 7}',
        None,
    ],
)
def test_one_folder_of_anything_stops_no_sweep(tmp_path: Path, state: str | None) -> None:
    folder = tmp_path / "run-0-x"
    folder.mkdir()
    file = folder / "run-state.json"
    file.mkdir() if state is None else file.write_text(state)
    (tmp_path / "run-1-loop").symlink_to("run-1-loop")
    assert runs(tmp_path) == []
    assert sweep(tmp_path) == []
    assert folder.is_dir()


@pytest.mark.parametrize("in_the_way", ["file", "link"])
def test_a_root_that_is_no_directory_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_the_way: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    root = tmp_path / f"kafka-durability-{os.getuid()}"
    root.write_text("") if in_the_way == "file" else root.symlink_to("nothing")
    with pytest.raises(BadInput, match=rf"{root.name} cannot be had as a directory .*remove it, or set TMPDIR"):
        default_root()

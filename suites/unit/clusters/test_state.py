"""Directories of runs in every state: being made, damaged, of no run at all, on a full disk."""

from __future__ import annotations

import importlib
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harness.clusters import clean, sweep
from harness.clusters.processes.slots import take_slot
from harness.clusters.state import ProcessId, RunState, default_root, load, new_run, remove_directory, runs
from harness.model.backend import CONTAINERS, PROCESSES
from harness.model.errors import BadInput, HarnessFailure


def dead_run(root: Path, backend: str = PROCESSES) -> RunState:
    """A run of a harness from before the machine was rebooted."""
    state = new_run(root, slot=0, release="9.9.9", kept=False, backend=backend)
    replace(state, harness=ProcessId(state.harness.pid, "an earlier boot")).save()
    return state


def test_a_kept_run_that_is_being_made_is_not_swept(tmp_path: Path) -> None:
    new_run(tmp_path, slot=0, release="9.9.9", kept=True)
    assert sweep(tmp_path) == []
    assert len(runs(tmp_path)) == 1


def test_remains_on_an_engine_that_does_not_answer_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody")
    root = tmp_path / "runs"
    state = dead_run(root, backend=CONTAINERS)
    reported = f"left the remains of {state.run}: no container engine answers at unix://{tmp_path}/nobody"
    for look in (sweep, clean):
        (line,) = look(root=root)
        assert line.startswith(reported)
    assert state.directory.is_dir()


def test_a_folder_with_a_damaged_state_is_swept_when_it_is_old(tmp_path: Path) -> None:
    (tmp_path / "run-0-x").mkdir()
    (tmp_path / "run-0-x" / "run-state.json").write_text("{")
    assert load(tmp_path / "run-0-x") is None
    assert sweep(tmp_path) == []
    assert (tmp_path / "run-0-x").is_dir()  # another harness may be making it
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
def test_one_folder_with_a_bad_state_stops_no_sweep(tmp_path: Path, state: str | None) -> None:
    folder = tmp_path / "run-0-x"
    folder.mkdir()
    file = folder / "run-state.json"
    file.mkdir() if state is None else file.write_text(state)
    (tmp_path / "run-1-loop").symlink_to("run-1-loop")
    assert runs(tmp_path) == []
    assert sweep(tmp_path) == []
    assert folder.is_dir()


@pytest.mark.parametrize("in_the_way", ["file", "link"])
def test_a_file_in_place_of_the_root_is_reported_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_the_way: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    root = tmp_path / f"kafka-durability-{os.getuid()}"
    root.write_text("") if in_the_way == "file" else root.symlink_to("nothing")
    with pytest.raises(BadInput, match=rf"{root.name} cannot be used as a folder .*remove it, or set TMPDIR"):
        default_root()


def test_a_file_in_place_of_the_folder_of_runs_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    with pytest.raises(BadInput, match=rf"^{tmp_path}/runs cannot be written \(File exists\): .*set TMPDIR"):
        new_run(tmp_path / "runs", slot=0, release="9.9.9", kept=False)


@pytest.mark.parametrize("in_the_way", ["slots", "slots/0.lock"])
def test_something_in_place_of_the_lock_files_is_one_sentence(tmp_path: Path, in_the_way: str) -> None:
    if in_the_way == "slots":
        (tmp_path / in_the_way).touch()
    else:
        (tmp_path / "slots").mkdir()
        (tmp_path / in_the_way).symlink_to(tmp_path / "absent" / "file")
    with pytest.raises(BadInput, match=rf"^{tmp_path}/{in_the_way} cannot be used .*remove it, and it is made again$"):
        take_slot(tmp_path / "slots")


def test_a_run_that_cannot_be_removed_is_reported_and_stops_no_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = dead_run(tmp_path)

    def refuse(path: Path, **_: object) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    with monkeypatch.context() as during:
        during.setattr(shutil, "rmtree", refuse)
        with pytest.raises(HarnessFailure, match=r"cannot be removed .*Operation not permitted.*: durability clean$"):
            remove_directory(state.directory)
        (line,) = sweep(tmp_path)
    assert line.startswith(f"left the remains of {state.run}: {state.directory} cannot be removed")
    assert sweep(tmp_path) == [f"swept the remains of {state.run}"]


def test_every_kind_of_leftover_outside_of_runs_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[str] = []
    module = importlib.import_module("harness.clusters.sweep")  # the package has a function of this name
    kinds = tuple(lambda kind=kind: removed.append(kind) for kind in ("build", "memory"))
    monkeypatch.setattr(module, "OUTSIDE_OF_RUNS", kinds)
    sweep(tmp_path)
    assert removed == ["build", "memory"]

"""Failed starts of a cluster of processes. Only the supervisor is a real process."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.clusters.nodes.storage_format import Formatted
from harness.clusters.processes import backend as processes
from harness.clusters.processes.slots import take_slot
from harness.clusters.processes.supervision import Supervision
from harness.clusters.state import ProcessId, RunState
from harness.model.errors import BadInput
from harness.model.scenario.scenario import ClusterShape


class BrokenError(Exception):
    """Any error during a start."""


@pytest.fixture
def supervisors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Pids of the supervisors that `start` starts. Everything else that takes time is replaced."""
    pids: list[int] = []

    class Noted(Supervision):
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            pids.append(self.pid)

    monkeypatch.setattr(processes, "Supervision", Noted)
    monkeypatch.setattr(processes, "take_slot", lambda: take_slot(tmp_path / "slots"))
    monkeypatch.setattr(processes, "formatted", lambda *_: Formatted(tmp_path, tmp_path))
    for name in ("go_tool", "java_tool", "_start_toxiproxy", "java_fingerprint", "with_fast_start"):
        monkeypatch.setattr(processes, name, lambda *_: "")
    return pids


def start(tmp_path: Path) -> None:
    release: Any = SimpleNamespace(version="9.9.9", image=None, classpath=())
    java: Any = SimpleNamespace(note="", executable="java", version=None)
    processes.make_processes(
        release, ClusterShape(), root=tmp_path / "root", keep=True, progress=print, cache=tmp_path, java=java
    )


def failing(error: Exception) -> Callable[..., None]:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


@pytest.mark.parametrize("broken", ["Addresses.of", "_start_toxiproxy", "with_fast_start", "write_nodes"])
def test_a_failed_start_leaves_no_supervisor_and_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, supervisors: list[int], broken: str
) -> None:
    monkeypatch.setattr(f"harness.clusters.processes.backend.{broken}", failing(BrokenError()))
    with pytest.raises(BrokenError):
        start(tmp_path)
    assert [ProcessId.of(pid) for pid in supervisors] == [None]
    assert list((tmp_path / "root").iterdir()) == []


def test_a_start_that_cannot_save_its_supervisor_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, supervisors: list[int]
) -> None:
    save = RunState.save

    def save_first(state: RunState) -> None:
        if supervisors:
            raise BrokenError
        save(state)

    monkeypatch.setattr(RunState, "save", save_first)
    with pytest.raises(BrokenError):
        start(tmp_path)
    assert [ProcessId.of(pid) for pid in supervisors] == [None]
    assert list((tmp_path / "root").iterdir()) == []


@pytest.mark.parametrize("broken", ["_start_toxiproxy", "write_nodes"])
def test_a_disk_that_fills_up_during_a_start_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, supervisors: list[int], broken: str
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/tmp/run/nodes/b1/hosts")
    monkeypatch.setattr(processes, broken, failing(full))
    with pytest.raises(BadInput, match=r"^/tmp/run/nodes/b1/hosts cannot be written \(No space .*: free space there"):
        start(tmp_path)
    assert [ProcessId.of(pid) for pid in supervisors] == [None]
    assert list((tmp_path / "root").iterdir()) == []

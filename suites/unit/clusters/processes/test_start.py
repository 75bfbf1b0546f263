"""A start that fails, of processes, with nothing but the supervisor real."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.clusters.nodes.storage_format import Formatted
from harness.clusters.processes import backend as processes
from harness.clusters.processes.slots import take_slot
from harness.clusters.processes.supervision import Supervision
from harness.clusters.state import ProcessId, RunState
from harness.model.scenario.scenario import ClusterShape


class BrokenError(Exception):
    """Stands for whatever may go wrong."""


@pytest.mark.parametrize(
    "broken", ["Addresses.of", "_start_toxiproxy", "RunState.save", "with_fast_start", "write_nodes"]
)
def test_whatever_fails_on_the_way_no_supervisor_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    supervisors: list[int] = []

    class Noted(Supervision):
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            supervisors.append(self.pid)
            if broken == "RunState.save":
                monkeypatch.setattr(RunState, "save", fail)

    def fail(*_: Any, **__: Any) -> None:
        raise BrokenError

    monkeypatch.setattr(processes, "Supervision", Noted)
    monkeypatch.setattr(processes, "take_slot", lambda: take_slot(tmp_path / "slots"))
    monkeypatch.setattr(processes, "formatted", lambda *_: Formatted(tmp_path, tmp_path))
    for name in ("go_tool", "java_tool", "_start_toxiproxy", "machine_of", "with_fast_start"):
        monkeypatch.setattr(processes, name, lambda *_: "")
    if broken != "RunState.save":
        monkeypatch.setattr(f"harness.clusters.processes.backend.{broken}", fail)
    release: Any = SimpleNamespace(version="9.9.9", image=None, classpath=())
    java: Any = SimpleNamespace(note="", executable="java")
    root = tmp_path / "root"
    with pytest.raises(BrokenError):
        processes.start_processes(
            release, ClusterShape(), root=root, keep=True, progress=print, cache=tmp_path, java=java
        )
    assert [ProcessId.of(pid) for pid in supervisors] == [None]
    assert list(root.iterdir()) == []

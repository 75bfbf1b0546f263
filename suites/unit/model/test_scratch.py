"""Working folders of killed processes are found; those of running processes, and other folders, are not."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from harness.clusters import sweep
from harness.model.scratch import abandoned, scratch

KILLED = "import os; from harness.model.scratch import scratch; kept = scratch('judge'); os._exit(9)"


def test_the_folder_of_a_killed_judge_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "durability-judge-999999999-mine-or-not").mkdir()
    subprocess.run(
        [sys.executable, "-c", KILLED],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        cwd=Path(__file__).parents[3],
        check=False,
    )
    (left,) = abandoned()
    with scratch("judge") as folder:
        sweep(tmp_path / "runs")
        assert not left.exists()
        assert Path(folder).exists()
    assert (tmp_path / "durability-judge-999999999-mine-or-not").exists()

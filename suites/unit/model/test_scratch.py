"""Working folders: those of killed processes are found, and a file system that refuses gives one clear sentence."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.clusters import sweep
from harness.model.errors import BadInput, HarnessFailure
from harness.model.scratch import REMEDY, abandoned, scratch, writing_below

KILLED = "import os; from harness.model.scratch import scratch; kept = scratch('judge'); os._exit(9)"


def test_the_working_folder_of_a_killed_judge_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_file_in_place_of_the_temporary_folder_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    with pytest.raises(BadInput, match=r"/file/durability-judge-\S+ cannot be written \(Not a directory\): "):
        scratch("judge")


@pytest.mark.parametrize(
    ("refused", "path"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/tmp/durability-judge-1-x"), "/tmp/durability-judge-1-x"),
        (FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"), "a temporary folder"),
    ],
)
def test_a_full_disk_under_the_temporary_folder_is_one_sentence(
    refused: OSError, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise refused

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    with pytest.raises(BadInput) as raised:
        scratch("judge")
    assert str(raised.value) == f"{path} cannot be written ({refused.strerror}): {REMEDY}"


def _write_into_a_file(folder: Path) -> None:
    (folder / "file").touch()
    (folder / "file" / "log").write_text("x")


def _copy_over_a_link(folder: Path) -> None:
    (folder / "from").mkdir()
    (folder / "from" / "a").touch()
    (folder / "to").mkdir()
    (folder / "to" / "a").symlink_to(folder / "absent" / "file")
    shutil.copytree(folder / "from", folder / "to", dirs_exist_ok=True)


def _fill(_: Path) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")  # as a write of a buffered file, which names no path


@pytest.mark.parametrize(
    ("work", "path", "why"),
    [
        (_write_into_a_file, "/file/log", "Not a directory"),
        (_copy_over_a_link, "/to/a", "No such file"),
        (_fill, "", "No space left on device"),
    ],
)
@pytest.mark.parametrize("kind", [BadInput, HarnessFailure])
def test_files_that_cannot_be_written_are_one_sentence(
    work: Callable[[Path], None], path: str, why: str, kind: type[BadInput | HarnessFailure], tmp_path: Path
) -> None:
    with pytest.raises(kind) as raised, writing_below(tmp_path, kind):
        work(tmp_path)
    assert str(raised.value).startswith(f"{tmp_path}{path} cannot be written (")
    assert why in str(raised.value)
    assert str(raised.value).endswith(f": {REMEDY}")


def test_an_error_of_another_file_passes(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), writing_below(tmp_path):
        subprocess.run(["/no/such/program"], check=False)

"""One process writes a database. A killed one leaves no lock."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.audit.store import lock
from harness.audit.store.lock import locked, running
from harness.model.errors import BadInput

HOLDER = """
import sys, time
from pathlib import Path
from harness.audit.store.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_PATIENCE_S", 0.1)


def test_the_lock_names_its_process_and_ends_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    assert running(folder) is None
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert running(folder) == holder.pid
        with pytest.raises(BadInput, match=rf"in use by another auditor \(process {holder.pid}\)"), locked(folder):
            pass
        holder.kill()
    assert running(folder) is None
    with locked(folder):
        assert running(folder) is not None
    assert running(folder) is None


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadInput, match="cannot be written"), locked(tmp_path / "file" / "db"):
        pass

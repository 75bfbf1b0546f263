"""A database is read by others: while it is written, and without the right to write beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.audit.store.database import FILE, Database


def test_a_file_at_rest_is_read_without_the_right_to_write_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Database(tmp_path)
    writer.put_fact("name", "value")
    monkeypatch.setattr(os, "access", lambda *_: False)
    running = Database(tmp_path, read_only=True)  # the files of the writer are there
    assert running.fact("name") == "value"
    running.close()
    writer.close()
    before = sorted(path.name for path in tmp_path.iterdir())
    assert before == [FILE]
    at_rest = Database(tmp_path, read_only=True)
    assert at_rest.fact("name") == "value"
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    at_rest.close()

"""No test of the commands builds a server: that takes a minute and the network."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.commands import prepare


@pytest.fixture(autouse=True)
def no_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(prepare, "go_tool", lambda *_: tmp_path / "server")

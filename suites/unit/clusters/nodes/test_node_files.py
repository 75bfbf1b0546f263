"""The paths of a node's files."""

from __future__ import annotations

from pathlib import Path

from harness.clusters.nodes.node_files import NodeFiles


def test_paths_of_the_files_of_a_node(tmp_path: Path) -> None:
    files = NodeFiles(tmp_path)
    assert files.log_directories == (tmp_path / "data",)
    assert NodeFiles(tmp_path, log_dirs=3).log_directories == tuple(tmp_path / n for n in ("data", "data-2", "data-3"))
    assert files.server_log.parent == files.console.parent

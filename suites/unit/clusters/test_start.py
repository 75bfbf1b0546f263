"""A cluster that does not come up is stopped before its failure reaches the caller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import clusters
from harness.kafka.release.release import Release
from harness.model.errors import HarnessFailure
from harness.model.scenario.scenario import ClusterShape


class Cluster:
    def __init__(self, late: bool) -> None:
        self.stopped = 0
        self._late = late

    def bring_up(self) -> None:
        raise HarnessFailure("b1 ended before it had started")

    def stop(self) -> None:
        self.stopped += 1
        if self._late:
            raise HarnessFailure("a folder is left")


@pytest.mark.parametrize("late", [False, True])
def test_nothing_is_left_of_a_cluster_that_does_not_start(
    late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster: Any = Cluster(late)
    monkeypatch.setitem(clusters.BACKENDS, "processes", lambda *_, **__: cluster)
    release = Release("4.3.1", "c", "here", ())
    with pytest.raises(HarnessFailure, match="b1 ended before it had started") as failure:
        clusters.start(release, ClusterShape(), progress=print, root=tmp_path, cache=tmp_path)
    assert cluster.stopped == 1
    assert getattr(failure.value, "__notes__", []) == (["a folder is left"] if late else [])

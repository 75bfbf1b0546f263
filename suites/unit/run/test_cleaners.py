"""The wait for cleaners, without a broker: which replicas have segments to compact, and which have stalled."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.model.documents.run import CleanersAtRest
from harness.run import cleaners

COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.5"}
SIZE = 100


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaners, "DEADLINE_S", 0.2)


def at_rest(
    root: Path, bases: tuple[int, ...], cleaned: int | None, config: dict[str, str] | None = None
) -> CleanersAtRest | None:
    """Of broker 1 with segments of the same size that begin at these offsets."""
    replica = root / "t-0"
    replica.mkdir()
    for base in bases:
        (replica / f"{base:020}.log").write_bytes(bytes(SIZE))
    (root / "cleaner-offset-checkpoint").write_text(
        "" if cleaned is None else f"0\n1\nt 0 {cleaned}\n", encoding="utf-8"
    )
    cluster = SimpleNamespace(brokers=(1, 3), log_directories=lambda broker: [root] if broker == 1 else [])
    state = SimpleNamespace(topic="t", topic_id="T", partition=0, replicas=(1, 2, 3))
    admin = SimpleNamespace(
        topic_configs=lambda _: {"t": COMPACT | (config or {}), "plain": {"cleanup.policy": "delete"}},
        partitions=lambda names: [state] if names == ["t"] else [],
    )
    return cleaners.cleaners_at_rest(cast(Any, cluster), cast(Any, admin), ["t", "plain"])


@pytest.mark.parametrize(
    ("bases", "cleaned"),
    [
        ((0,), None),  # the active segment is never compacted
        ((0, 10, 20), 20),
        ((0, 10, 20), 10),  # half of the closed segments is not more than the ratio
        ((30, 40, 50), 50),
    ],
)
def test_what_is_compacted_or_not_yet_due_is_at_rest(
    tmp_path: Path, bases: tuple[int, ...], cleaned: int | None
) -> None:
    waited = at_rest(tmp_path, bases, cleaned)
    assert waited is not None
    assert (waited.ok, waited.behind) == (True, ())


@pytest.mark.parametrize(
    ("bases", "cleaned", "from_"),
    [
        ((0, 10), None, 0),  # a cleaner that has never compacted anything
        ((0, 10, 20, 30), 10, 10),
        ((30, 40, 50), 10, 30),  # its log has begun later since
    ],
)
def test_a_replica_of_which_nothing_is_compacted_is_behind(
    tmp_path: Path, bases: tuple[int, ...], cleaned: int | None, from_: int
) -> None:
    waited = at_rest(tmp_path, bases, cleaned)
    assert waited is not None
    (lag,) = waited.behind
    assert (lag.topic, lag.topic_id, lag.partition, lag.broker) == ("t", "T", 0, 1)
    assert (lag.cleaned_end, lag.closed_end) == (from_, bases[-1])
    assert f"t-0 of broker 1 is compacted up to {from_} of {bases[-1]}" in waited.last_seen


@pytest.mark.parametrize("config", [{"cleanup.policy": "delete"}, {"min.compaction.lag.ms": "1000"}])
def test_a_topic_that_need_not_be_compacted_at_once_is_not_waited_for(tmp_path: Path, config: dict[str, str]) -> None:
    assert at_rest(tmp_path, (0, 10), None, config) is None

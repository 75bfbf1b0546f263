"""A thread that fails by a defect ends the auditor, with one sentence, and never leaves it blind without a word."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from harness.audit.engine.auditor import Auditor, Sources
from harness.audit.engine.looker import Asked
from harness.audit.engine.source import Row
from harness.audit.feeds.feed import Portion
from harness.audit.look import PartitionLook
from harness.audit.rules.own_coverage import Blind, Overdue, RuleFailed
from harness.audit.store.database import Database
from harness.model.errors import HarnessFailure
from suites.unit.audit.engine.engine_examples import DrivenFeed
from suites.unit.model.history.logs import partition, topic


class BrokenFeed:
    name = "controllers a:1"

    def poll(self, wait_s: float) -> Portion | None:
        raise ZeroDivisionError("a defect")

    def close(self) -> None: ...


class BrokenLooker:
    def look(self, asked: Sequence[Asked]) -> Iterable[PartitionLook]:
        raise KeyError("a defect")

    def close(self) -> None: ...


class BrokenSource:
    covers = "groups"
    every_s = 0.1

    def poll(self) -> Iterable[Row]:
        raise ValueError("a defect")

    def close(self) -> None: ...


def fed() -> DrivenFeed:
    feed = DrivenFeed()
    feed.put(topic(), partition())
    return feed


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        (Sources(BrokenFeed()), "reading from controllers a:1 failed at poll:.*ZeroDivisionError: a defect"),
        (Sources(fed(), BrokenLooker()), "a look at partitions failed at look:.*KeyError: 'a defect'"),
        (Sources(fed(), others=[BrokenSource()]), "the source of groups failed at poll:.*ValueError: a defect"),
    ],
    ids=["feed", "looker", "source"],
)
def test_a_defect_in_a_thread_ends_the_auditor(sources: Sources, said: str, tmp_path: Path) -> None:
    auditor = Auditor(sources, Database(tmp_path), {rule.name: rule for rule in (Blind(), Overdue(), RuleFailed())})
    stop = threading.Event()
    giving_up = threading.Timer(20, stop.set)
    giving_up.start()
    try:
        with pytest.raises(HarnessFailure, match=f"the auditor cannot go on, because {said}"):
            auditor.run(stop)
    finally:
        giving_up.cancel()
        auditor.close()

"""Sources run side by side: however their events interleave, the database is the same in the end."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.audit.engine.auditor import Auditor, Event, Sources
from harness.audit.engine.looker import Looked
from harness.audit.engine.source import Rows
from harness.audit.feeds.feed import Portion
from harness.audit.look import CommitLook, PartitionLook
from harness.audit.rules.own_coverage import Blind, Overdue
from harness.audit.store.database import FILE, Database
from harness.audit.store.partitions import Offsets
from harness.model.history.log import Record
from suites.unit.model.history.logs import TOPIC, TOPIC_ID, batches, change, config, noop, partition, removed, topic

START = (topic(), partition(number=0), partition(number=1), topic("other", "other-id"))
RECORDS = st.sampled_from(
    [
        change(Leader=2),
        change(Leader=-1, Isr=(1,)),
        change(Isr=(2, 3)),
        change(number=1, Leader=3),
        config("retention.ms", "1000"),
        config("retention.ms", None),
        noop(),
        removed("other-id"),
    ]
)
SMALL = st.integers(0, 5)


@st.composite
def looks(draw: st.DrawFn) -> Looked:
    place, epoch, end = draw(st.integers(0, 1)), draw(SMALL), draw(SMALL)
    look = PartitionLook(
        topic=TOPIC,
        topic_id=TOPIC_ID,
        partition=place,
        asked_ns=1,
        answered_ns=2,
        offsets=Offsets(epoch, 0, end, end),
        epochs=((epoch, end),),
        error=draw(st.sampled_from([None, None, "NOT_LEADER_OR_FOLLOWER"])),
    )
    return Looked((), (look,))


@st.composite
def commits(draw: st.DrawFn) -> Rows:
    look = CommitLook(group="g", topic=TOPIC, topic_id=TOPIC_ID, partition=0, answered_ns=1, offset=draw(SMALL))
    return Rows("groups", (look,))


@st.composite
def interleavings(draw: st.DrawFn) -> tuple[list[Event], list[Event]]:
    """The same events twice, each source in its own order."""
    records = draw(st.lists(RECORDS, max_size=12).map(deleted_once))
    sources: list[list[Event]] = [
        [portion(record, at) for at, record in enumerate(records, len(START))],
        [*draw(st.lists(looks(), max_size=12))],
        [*draw(st.lists(commits(), max_size=4))],
    ]
    return draw(mixed(sources)), draw(mixed(sources))


def deleted_once(records: list[Record]) -> list[Record]:
    first = next((at for at, record in enumerate(records) if record.kind == "RemoveTopicRecord"), len(records))
    return [r for at, r in enumerate(records) if r.kind != "RemoveTopicRecord" or at == first]


def portion(record: Record, offset: int) -> Portion:
    return Portion(None, batches(record, first=offset), offset + 1, offset + 1, 0.0)


def mixed(sources: Sequence[Sequence[Event]]) -> st.SearchStrategy[list[Event]]:
    order = [number for number, events in enumerate(sources) for _ in events]

    def merge(numbers: list[int]) -> list[Event]:
        left = [iter(events) for events in sources]
        return [next(left[number]) for number in numbers]

    return st.permutations(order).map(merge)


def stored(folder: Path, events: Sequence[Event], saves: set[int]) -> dict[str, list[tuple[object, ...]]]:
    """Every table after these events. `saves`: where the database was also saved on the way."""
    rules = {rule.name: rule for rule in (Blind(), Overdue())}
    auditor = Auditor(Sources(), Database(folder), rules)
    auditor.take(Portion(None, batches(*START), len(START), len(START), 0.0))
    for at, event in enumerate(events):
        auditor.take(event)
        if at in saves:
            auditor.save(offsets_too=at % 2 == 0)
    auditor.save(offsets_too=True)
    auditor.close()
    with closing(sqlite3.connect(folder / FILE)) as sql:
        tables = [name for (name,) in sql.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: sorted(sql.execute(f"SELECT * FROM {table}")) for table in tables if table != "facts"}


@given(interleavings(), st.sets(st.integers(0, 30)))
def test_any_interleaving_gives_the_same_database(
    tmp_path_factory: pytest.TempPathFactory, given: tuple[list[Event], list[Event]], saves: set[int]
) -> None:
    one, other = given
    first = stored(tmp_path_factory.mktemp("one"), one, set())
    assert stored(tmp_path_factory.mktemp("other"), other, saves) == first

"""Probes: the choice of offsets from the drain, the batches and the lookups; and how a read ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from harness.evidence.columns import arrow_schema
from harness.model.documents.reads import OffsetGap, Read
from harness.model.doubt_names import DoubtName
from harness.model.scenario.scenario import Reader, Scenario, Step
from harness.model.wait_budget import WaitBudget
from harness.workload.consumers.live_readers import ReadContext
from harness.workload.drain.probe_places import (
    BELOW,
    EDGE,
    INSIDE,
    PLACES_MAX,
    START,
    TIME,
    Ask,
    Logs,
    asks_of,
    logs_of,
    non_committing_groups,
)
from harness.workload.drain.probes import (
    END,
    ENOUGH,
    OUT_OF_RANGE,
    RECORDS,
    SILENT,
    Answer,
    Prober,
    ProbeTimeouts,
    doubts_of,
)

PLACE = ("t", 0)
DRAIN = Read(
    reader="leader",
    kind="drain",
    isolation="read_committed",
    replica=2,
    topic="t",
    topic_id="T",
    partition=0,
    start=100,
    target=1000,
    position=1000,
    reached=True,
    stuck_reason=None,
)
READS = [
    DRAIN,
    structs.replace(DRAIN, isolation="read_uncommitted", position=1010),
    structs.replace(DRAIN, kind="replica", replica=1, start=90),
]


def write(bundle: Path, table: str, rows: list[dict[str, Any]]) -> None:
    (bundle / table).mkdir()
    types = {"bool": False, "string": "", "int64": 0, "int32": 0}
    schema = arrow_schema(table)
    blank = {f.name: None if f.nullable else types[str(f.type)] for f in schema}
    pq.write_table(pa.Table.from_pylist([blank | row for row in rows], schema), bundle / table / "x-0.parquet")


def batch(segment: int, first: int, last: int, broker: int = 2) -> dict[str, Any]:
    return {"broker": broker, "topic": "t", "segment": segment, "base_offset": first, "last_offset": last}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    write(tmp_path, "batches", [batch(100, 100, 100), batch(100, 101, 499), batch(500, 500, 1009), batch(7, 7, 9, 1)])
    write(tmp_path, "lookups", [{"topic": "t", "time_ms": 5, "offset": 300}, {"topic": "t", "time_ms": 6}])
    return tmp_path


def test_offsets_are_in_batches_at_segment_edges_at_timestamps_and_below_the_log_start(bundle: Path) -> None:
    (asks,) = asks_of(logs_of(READS), bundle, Random(1)).values()
    by_why: dict[str, list[int]] = {}
    for ask in asks:
        by_why.setdefault(ask.why, []).append(ask.offset)
    assert len({ask.offset for ask in asks}) == len(asks)
    assert all(100 <= offset < 1010 for offset in by_why[INSIDE])
    assert any(101 < offset <= 499 for offset in by_why[INSIDE])
    assert sorted(by_why[EDGE]) == [499, 500]
    assert by_why[START] == [100]
    assert [ask for ask in asks if ask.why == TIME] == [Ask(PLACE, 300, TIME, 5)]
    assert sorted(by_why[BELOW]) == [50, 99]


def test_every_part_of_what_is_on_no_disk_has_a_probe(tmp_path: Path) -> None:
    """The leader has the rest of the log in the remote tier."""
    write(tmp_path, "batches", [batch(900, 900, 1009)])
    (asks,) = asks_of(logs_of(READS), tmp_path, Random(1)).values()
    inside = sorted(ask.offset for ask in asks if ask.why == INSIDE)
    assert all(any(low <= offset < low + 100 for offset in inside) for low in range(100, 900, 100))


def test_no_offset_is_in_a_gap(bundle: Path) -> None:
    rows = [*READS[:2], structs.replace(DRAIN, holes=(OffsetGap(from_offset=101, to_offset=500),))]
    (asks,) = asks_of(logs_of(rows), bundle, Random(1)).values()
    assert [ask.offset for ask in asks if 101 <= ask.offset < 500 and ask.why != TIME] == []
    assert {ask.offset for ask in asks} >= {100, 500}


def test_the_same_seed_gives_the_same_offsets(bundle: Path) -> None:
    first, again, other = (asks_of(logs_of(READS), bundle, Random(seed)) for seed in (3, 3, 4))
    assert first == again != other


def test_an_empty_log_has_no_probe(tmp_path: Path) -> None:
    logs = Logs(starts={PLACE: 0}, leaders={PLACE: 1}, positions={(PLACE, "read_committed"): 0})
    assert asks_of(logs, tmp_path, Random(1)) == {PLACE: []}


def test_the_number_of_probed_partitions_is_limited(tmp_path: Path) -> None:
    logs = Logs(starts={("t", p): 0 for p in range(100)})
    assert len(asks_of(logs, tmp_path, Random(1))) == PLACES_MAX


def test_no_probe_joins_a_group_with_static_members_or_the_consumer_protocol() -> None:
    def scenario(*readers: Reader, steps: tuple[Step, ...] = ()) -> Scenario:
        return Scenario(name="s", title="", property="", readers=readers, steps=steps)

    plain = Reader(name="a", topics=("t",), group="g")
    assert non_committing_groups(scenario(plain, Reader(name="b", topics=("t",)))) == frozenset()
    assert non_committing_groups(scenario(plain, replace(plain, group="h", static=True))) == {"h"}
    assert non_committing_groups(scenario(plain, replace(plain, group="n", protocol="consumer"))) == {"n"}
    turn = Step(do="restart_reader", name="over", args={"reader": "a", "protocol": "consumer"})
    assert non_committing_groups(scenario(plain, steps=(turn,))) == {"g"}


class FakeMessage:
    """A record or an error of one partition."""

    def __init__(self, offset: int, error: str | None = None) -> None:
        self._offset, self._name = offset, error

    def error(self) -> FakeMessage | None:
        return self if self._name else None

    def name(self) -> str | None:
        return self._name

    def offset(self) -> int:
        return self._offset


def answered(*messages: FakeMessage) -> Answer:
    context = ReadContext(bootstrap="", targets={}, run=1)
    prober = Prober({}, logs_of(READS), context, "read_committed", ProbeTimeouts(), 0.0)
    answer = Answer(Ask(PLACE, 990, INSIDE), 0)
    for message in messages:
        if answer.reported == SILENT:
            prober._take(answer, message)  # type: ignore[arg-type]
    return answer


def test_a_read_ends_with_enough_records_the_end_or_an_offset_out_of_range() -> None:
    assert answered().nothing
    enough = answered(*map(FakeMessage, range(990, 990 + 2 * RECORDS)))
    assert (enough.reported, len(enough.records)) == (ENOUGH, RECORDS)
    end = answered(FakeMessage(990), FakeMessage(1000, "_PARTITION_EOF"))
    assert (end.reported, end.end_offset, len(end.records)) == (END, 1000, 1)
    assert answered(FakeMessage(-1, "_AUTO_OFFSET_RESET")).reported == OUT_OF_RANGE
    assert answered(FakeMessage(-1, "_TRANSPORT")).nothing


def test_an_end_below_the_position_of_the_drain_does_not_count() -> None:
    assert answered(FakeMessage(995, "_PARTITION_EOF")).nothing
    assert (
        answered(FakeMessage(995, "_PARTITION_EOF"), FakeMessage(996), FakeMessage(1000, "_PARTITION_EOF")).reported
        == END
    )


def test_reads_for_which_a_spent_budget_leaves_no_time_are_counted() -> None:
    budget = WaitBudget(0.0)
    budget.begin("a step failed")
    timeouts = ProbeTimeouts().within(budget)
    assert (timeouts.total_s, timeouts.join_s, timeouts.cut_short) == (10.0, 10.0, True)
    assert ProbeTimeouts().within(WaitBudget()) == ProbeTimeouts()
    context = ReadContext(bootstrap="", targets={}, run=1)
    asks = {PLACE: [Ask(PLACE, 990, INSIDE), Ask(PLACE, 5, INSIDE)]}
    prober = Prober(asks, logs_of(READS), context, "read_committed", timeouts, 0.0)
    prober._ask_all()
    assert (prober.asked, prober.not_asked) == (0, 2)


def test_reads_without_time_are_doubts_of_the_machine_unless_others_had_no_answer() -> None:
    context = ReadContext(bootstrap="", targets={}, run=1)
    prober = Prober({PLACE: [Ask(PLACE, 990, INSIDE)]}, logs_of(READS), context, "read_committed", ProbeTimeouts(), 0.0)
    prober._answers, prober.not_asked = [(1, Answer(Ask(PLACE, 5, INSIDE), 0))], 3
    row = {"reader": prober.name, "topic": "t", "partition": 0, "offset": 5, "reported": END, "records": 1}
    late = f"{prober.name} had no time left for 3 of its reads"
    assert doubts_of([row], [prober], cut_short=False) == [(DoubtName.PROBE_NOT_ASKED, late)]
    assert doubts_of([row], [prober], cut_short=True) == [(DoubtName.PROBE_UNANSWERED, late)]
    silent = doubts_of([row | {"reported": SILENT, "records": 0}], [prober], cut_short=False)
    assert [name for name, _ in silent] == [DoubtName.PROBE_UNANSWERED] * 2

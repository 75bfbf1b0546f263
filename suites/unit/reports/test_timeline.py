"""Tests of the timeline: counts and percentiles by time against values that were computed by hand."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from harness.evidence.history import write_history
from reports.review import rates
from reports.review.bands import Leadership, names_of, positions_of
from reports.review.rates import BINS, LOWEST_NS, RATIO, Buckets, bins_of, buckets_of, percentiles_ms
from reports.review.timeline import BUCKETS, Timeline, packed, timeline_of
from suites.unit.reports.timeline_examples import (
    START_NS,
    TOPIC_ID,
    at,
    history,
    led,
    position,
    send,
    step,
    write_run,
    write_steps,
    write_table,
)

SECOND_NS = 1_000_000_000


def shown(bundle: Path, count: int = BUCKETS) -> Timeline:
    timeline = timeline_of(bundle, count=count)
    assert timeline is not None
    return timeline


def test_buckets_hold_the_first_and_the_last_time() -> None:
    buckets = buckets_of(START_NS, at(4), 4)
    assert buckets.width_ns == SECOND_NS + 1
    assert buckets.counted(np.array([at(0), at(0.5), at(1.5), at(4)])).tolist() == [2, 1, 0, 1]
    assert buckets_of(START_NS, START_NS, 4).count == 1


def test_a_bucket_is_never_shorter_than_the_batches_of_a_producer() -> None:
    assert buckets_of(START_NS, at(10), 600) == Buckets(start_ns=START_NS, width_ns=200_000_000, count=51)


def test_each_row_of_the_ledger_is_counted_once_when_its_outcome_was_reported(tmp_path: Path) -> None:
    counted = shown(write_run(tmp_path), 4).rates
    assert counted is not None
    assert counted.acked == [10, 10, 10, 0]
    assert counted.refused == [0, 1, 0, 0]
    assert counted.unknown == [0, 0, 0, 1]
    assert counted.reads == [2, 1, 0, 0]


def test_parts_of_several_batches_are_added_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_BATCH_ROWS", 7)
    for part in range(3):
        write_table(tmp_path, "ledger", [send(i / 100, 0.001) for i in range(100)], f"part-{part}")
    counted = shown(tmp_path).rates
    assert counted is not None
    assert sum(counted.acked) == 300
    assert len(counted.acked) == len(counted.p50_ms) == shown(tmp_path).buckets


def test_percentiles_are_exact_to_half_a_bin(tmp_path: Path) -> None:
    latencies = [i / 1000 for i in range(1, 101)]  # 1 to 100 ms, all answered within the only bucket
    write_table(tmp_path, "ledger", [send(0, latency) for latency in latencies])
    counted = shown(tmp_path).rates
    assert counted is not None
    (p50,), (p99,) = counted.p50_ms, counted.p99_ms
    assert p50 == pytest.approx(50, rel=RATIO - 1)
    assert p99 == pytest.approx(99, rel=RATIO - 1)


def test_a_latency_is_in_the_bin_with_its_edges() -> None:
    for latency_ns in (1, LOWEST_NS, 123_456, 7 * SECOND_NS):
        (place,) = bins_of(np.array([latency_ns])).tolist()
        low, high = LOWEST_NS * RATIO**place, LOWEST_NS * RATIO ** (place + 1)
        assert low <= max(latency_ns, LOWEST_NS) < high * (1 + 1e-9)
    assert bins_of(np.array([10**18])).tolist() == [BINS - 1]


def test_a_bucket_without_acks_has_no_percentile() -> None:
    assert percentiles_ms(np.zeros((1, BINS), np.int64), 0.5) == [None]


def test_a_leadership_lasts_until_the_next_change_that_is_shown(tmp_path: Path) -> None:
    bundle = write_run(tmp_path)
    write_history(bundle, history(led(-1, 1, 0, (1, 2)), led(0.7, 1, 0, (1, 2)), led(1.5, 2, 1, (2,))))
    (leaders,) = shown(bundle, 4).leaders
    assert leaders.partition == "plain-0"
    assert leaders.spans == (
        Leadership(from_s=0.0, to_s=1.5, leader=1, epoch=0, isr=(1, 2)),
        Leadership(from_s=1.5, to_s=4.0, leader=2, epoch=1, isr=(2,)),
    )


def test_offsets_are_those_of_each_replica_and_the_others_those_of_the_leader(tmp_path: Path) -> None:
    (positions,) = shown(write_run(tmp_path)).positions
    assert positions.ends == {1: [(0.5, 10), (2.0, 12)], 2: [(0.5, 8), (3.0, 30)]}
    assert positions.high_watermark == [(0.5, 10), (3.0, 30)]
    assert positions.log_start == [(0.5, 0), (3.0, 0)]
    assert positions.tiered == []


def test_a_silence_of_a_replica_is_a_gap(tmp_path: Path) -> None:
    bundle = write_run(tmp_path)
    rows = [position(0.5, 1, 10), position(1.4, 1, 30, after_silence=True, highest_tiered=4)]
    write_table(bundle, "positions", rows)
    (positions,) = shown(bundle).positions
    assert positions.ends == {1: [(0.5, 10), (0.5, None), (1.4, 30)]}  # a step line would go on until the null
    assert positions.tiered == [(1.4, 5)]


def test_the_last_position_in_a_bucket_counts(tmp_path: Path) -> None:
    bundle = write_run(tmp_path)
    write_table(bundle, "positions", [position(0.05, 1, 10), position(0.1, 1, 11), position(0.3, 1, 12)])
    assert shown(bundle).positions[0].ends == {1: [(0.1, 11), (0.3, 12)]}


def test_a_fault_lasts_from_its_injection_to_its_healing(tmp_path: Path) -> None:
    (fault,) = shown(write_run(tmp_path)).faults
    assert (fault.name, fault.do, fault.effect, fault.because) == ("kill_leader", "kill", True, "its leader epoch rose")
    assert (fault.started_s, fault.ended_s, fault.healed_s) == (1.2, 1.3, 2.5)
    assert fault.changed_s == 1.5  # the election
    assert fault.recovered_s is None  # the ISR stays [2]


def test_a_fault_shows_when_leaders_or_isrs_changed_and_were_full_again(tmp_path: Path) -> None:
    """A change before it or after its healing is not its own; nor is one that leaves leader and ISR as they were."""
    bundle = write_run(tmp_path)
    full = (1, 2, 3)
    changes = [led(-1, 1, 0, full), led(1.0, 1, 0, (1, 2)), led(1.1, 1, 0, full), led(1.25, 1, 0, full)]
    effect = {"held": True, "because": "its leader epoch rose"}
    steps = step("kill_leader", "kill", 1.2, 2.5, effect=effect), step("later", "cut", 2.6, 2.8, effect=effect)
    write_steps(bundle, *steps)
    write_history(bundle, history(*changes, led(1.7, 2, 1, (2, 3)), led(2.9, 2, 1, full)))
    kill, later = shown(bundle).faults
    assert (kill.changed_s, kill.recovered_s) == (1.7, 2.9)
    assert (later.changed_s, later.recovered_s) == (None, 2.9)
    write_steps(bundle, step("kill_leader", "kill", 1.2, 2.5, effect={"held": False, "because": "no"}))
    (kill,) = shown(bundle).faults
    assert kill.changed_s is None
    write_history(bundle, history(*changes))
    (kill,) = shown(bundle).faults
    assert kill.recovered_s == kill.healed_s  # every ISR was full
    (bundle / "history.json").unlink()
    (kill,) = shown(bundle).faults
    assert (kill.changed_s, kill.recovered_s) == (None, None)


def test_topics_of_the_same_name_are_told_apart() -> None:
    assert list(names_of([("t", "first-id", 0), ("u", "x", 1)]).values()) == ["t-0", "u-1"]
    assert list(names_of([("t", "first-id", 0), ("t", "second-id", 0)]).values()) == ["t-0 (first-)", "t-0 (second)"]


def test_steps_alone_give_a_timeline_that_says_what_is_missing(tmp_path: Path) -> None:
    write_steps(tmp_path, step("cut", "cut", 0, 5))
    timeline = shown(tmp_path)
    assert timeline.rates is None
    assert [fault.name for fault in timeline.faults] == ["cut"]
    assert {text.split(",")[0] for text in timeline.missing} == {
        "The ledger has no rows",
        "There is no history.json",
        "The table positions has no rows",
    }


def test_a_damaged_part_and_tables_without_rows_are_named_and_nothing_is_raised(tmp_path: Path) -> None:
    bundle = write_run(tmp_path)
    write_table(bundle, "observations", [])
    (bundle / "positions" / "one-0.parquet").write_bytes(b"PAR1")
    (bundle / "history.json").write_text("{", encoding="utf-8")
    timeline = shown(bundle)
    assert timeline.rates is not None
    assert sum(timeline.rates.acked) == 30
    assert sum(timeline.rates.reads) == 0
    assert any("one-0.parquet is not a whole Parquet file" in text for text in timeline.missing)
    assert any("history.json cannot be read as JSON" in text for text in timeline.missing)


def test_without_any_time_there_is_no_timeline(tmp_path: Path) -> None:
    assert timeline_of(tmp_path) is None
    assert packed(tmp_path, 10**6) == ("", None)


def test_a_timeline_that_is_too_large_gets_fewer_buckets_and_then_loses_offsets(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).random(20_000)
    write_table(tmp_path, "ledger", [send(i / 100, float(x)) for i, x in enumerate(noise)])
    write_table(tmp_path, "positions", [position(i / 10, 1, int(x * 1e9)) for i, x in enumerate(noise[:2000])])
    whole, timeline = packed(tmp_path, 10**6)
    assert timeline is not None
    assert timeline.buckets > BUCKETS // 2
    assert json.loads(gzip.decompress(base64.b64decode(whole)))["buckets"] == timeline.buckets
    fewer, coarse = packed(tmp_path, len(whole) // 2)
    assert coarse is not None
    assert len(fewer) <= len(whole) // 2
    assert coarse.buckets < timeline.buckets
    least, without = packed(tmp_path, 1_500)
    assert without is not None
    assert without.positions == ()
    assert 0 < len(least) <= 1_500
    assert packed(tmp_path, 10)[0] == ""


def test_a_partition_that_the_history_does_not_name_has_no_leaders(tmp_path: Path) -> None:
    bundle = write_run(tmp_path)
    write_history(bundle, history())
    timeline = shown(bundle)
    assert timeline.leaders == ()
    assert timeline.rates is not None


def test_positions_of_one_partition_leave_the_others_out(tmp_path: Path) -> None:
    write_table(tmp_path, "positions", [position(1, 1, 10), position(1, 1, 99, partition=1), position(2, 1, 20)])
    buckets = buckets_of(START_NS, at(4), 600)
    (one,) = positions_of(tmp_path, None, buckets, ("plain", TOPIC_ID, 0))
    assert (one.partition, one.ends) == ("plain-0", {1: [(1.0, 10), (2.0, 20)]})
    assert len(positions_of(tmp_path, None, buckets)) == 2

"""The probe names each record that a replica lost or changed, and leaves alone what is no loss."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from harness.kafka.admin.wire import Unanswered
from harness.workload.probe.checks import Found, Piece, Wrong, found, wrong_records
from harness.workload.probe.ledger import Acked, ProbeLedger
from harness.workload.probe.prober import CONFIRM_S, REFUSED_S, Finding, Prober
from harness.workload.probe.replicas import Placed, Replicas
from harness.workload.records.payload import Payloads

RUN, TOPIC = 77, "probe"
PLACED = Placed(0, 1, (1, 2, 3))


class FakeReplicas:
    """Logs of three replicas: offset -> record. Broker 1 leads."""

    def __init__(self) -> None:
        self.logs: dict[int, dict[int, Found]] = {broker: {} for broker in (1, 2, 3)}
        self.starts = dict.fromkeys((1, 2, 3), 0)
        self.silent: set[int] = set()
        self.refused: range = range(0)  # offsets that the leader refuses
        self.error = "UNKNOWN_SERVER_ERROR"

    def append(self, offset: int, seq: int, *brokers: int, intact: bool = True) -> None:
        for broker in brokers or (1, 2, 3):
            self.logs[broker][offset] = Found(offset, seq, intact)

    def read(self, broker: int, partition: int, first: int) -> Piece:
        if broker in self.silent:
            raise Unanswered("no answer")
        log = {offset: record for offset, record in self.logs[broker].items() if offset >= first}
        if first < self.starts[broker]:
            return Piece(first, first, {}, "OFFSET_OUT_OF_RANGE")
        if broker == 1 and first in self.refused:
            return Piece(first, first, {}, self.error)
        if broker == 1 and self.refused and first < self.refused.start:
            log = {offset: record for offset, record in log.items() if offset < self.refused.start}
        return Piece(first, max(log, default=first - 1) + 1, log)

    def log_bounds(self, broker: int, partition: int) -> tuple[int, int] | None:
        if broker in self.silent:
            raise Unanswered("no answer")
        return self.starts[broker], max(self.logs[broker], default=-1) + 1

    def local_start(self, broker: int, partition: int) -> int | None:
        return 3


class Scene:
    def __init__(self, folder: Path, *, tiered: bool = False) -> None:
        self.now_s = 0.0
        self.ledger = ProbeLedger(folder)
        self.replicas = FakeReplicas()
        self.prober = Prober(cast(Replicas, self.replicas), self.ledger, tiered=tiered, now_s=lambda: self.now_s)

    def ack(self, count: int) -> None:
        """Records 0 to count-1, acknowledged and on every replica."""
        for offset in range(count):
            self.ledger.add(0, offset, offset, at_ms=1)
            self.replicas.append(offset, offset)

    def findings(self, placed: Placed = PLACED) -> list[tuple[int, Wrong, int, int]]:
        """The findings of two looks, some seconds apart."""
        return [(f.broker, f.wrong, f.first_offset, f.end_offset) for f in self.looks(placed)]

    def looks(self, placed: Placed = PLACED) -> list[Finding]:
        for _ in range(6):  # every replica is read again, twice
            self.prober.look_again([placed])
        assert [*self.prober.confirmed([placed])] == []
        self.now_s += CONFIRM_S
        return [*self.prober.confirmed([placed])]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.ledger.close()


def test_sound_replicas_have_no_finding(scene: Scene) -> None:
    scene.ack(10)
    scene.prober.follow([PLACED])
    assert scene.findings() == []
    assert scene.prober.counts["read new from leader"] == 1
    assert scene.prober.counts["read again from follower"] == 40


def test_records_that_one_follower_lost(scene: Scene) -> None:
    scene.ack(10)
    for offset in (4, 5, 7):
        del scene.replicas.logs[3][offset]
    assert scene.findings() == [(3, Wrong.LOST, 4, 6), (3, Wrong.LOST, 7, 8)]
    assert scene.findings() == []  # it was reported


def test_a_record_with_other_bytes(scene: Scene) -> None:
    scene.ack(10)
    scene.replicas.append(6, 6, 1, intact=False)
    assert scene.findings() == [(1, Wrong.CORRUPT, 6, 7)]


def test_bytes_that_nobody_wrote(scene: Scene) -> None:
    scene.ack(10)
    scene.replicas.logs[2][4] = Found(4, None, False)
    del scene.replicas.logs[2][5]
    scene.ledger.move(0, 4, 3)  # so offset 4 is not expected
    assert (2, Wrong.CORRUPT, 4, 5) in scene.findings()


def test_another_record_in_its_place(scene: Scene) -> None:
    scene.ack(10)
    scene.replicas.append(6, 99, 1)
    assert scene.findings() == [(1, Wrong.LOST, 6, 7)]


def test_the_end_of_the_leaders_log_is_missing(scene: Scene) -> None:
    scene.ack(10)
    for offset in (8, 9):
        del scene.replicas.logs[1][offset]
    assert scene.findings() == [(1, Wrong.LOST, 8, 10)]


def test_the_start_of_the_leaders_log_moved(scene: Scene) -> None:
    scene.ack(10)
    scene.replicas.starts[1] = 2
    assert scene.findings() == [(1, Wrong.LOST, 0, 2)]


def test_records_from_below_the_leaders_own_log_come_from_the_tier(tmp_path: Path) -> None:
    scene = Scene(tmp_path, tiered=True)
    scene.ack(10)
    scene.replicas.append(1, 1, 1, intact=False)
    (finding,) = scene.looks()
    assert (finding.tier, finding.leads, finding.first_offset) == (True, True, 1)
    assert scene.prober.counts["read again from tier"] > 0
    scene.ledger.close()


# Near misses


def test_a_follower_that_is_behind_lost_nothing(scene: Scene) -> None:
    scene.ack(10)
    for offset in (8, 9):
        del scene.replicas.logs[3][offset]
    assert scene.findings() == []


def test_what_only_the_first_look_shows_is_no_finding(scene: Scene) -> None:
    scene.ack(10)
    record = scene.replicas.logs[3].pop(5)
    scene.prober.follow([PLACED])
    for _ in range(3):
        scene.prober.look_again([PLACED])
    scene.replicas.logs[3][5] = record
    scene.now_s += CONFIRM_S
    assert [*scene.prober.confirmed([PLACED])] == []


def test_a_replica_that_left_the_isr_meanwhile_may_have_another_end(scene: Scene) -> None:
    scene.ack(10)
    del scene.replicas.logs[3][5]
    for _ in range(3):
        scene.prober.look_again([PLACED])
    scene.now_s += CONFIRM_S
    assert [*scene.prober.confirmed([Placed(0, 1, (1, 2))])] == []
    assert [finding.broker for finding in scene.prober.confirmed([PLACED])] == [3]  # it is back


def test_a_silent_replica_shows_nothing(scene: Scene) -> None:
    scene.ack(10)
    del scene.replicas.logs[3][5]
    for _ in range(3):
        scene.prober.look_again([PLACED])
    scene.replicas.silent.add(3)
    scene.now_s += CONFIRM_S
    assert [*scene.prober.confirmed([PLACED])] == []


def test_a_client_that_reported_a_wrong_offset_is_corrected(scene: Scene) -> None:
    scene.ack(10)
    scene.ledger.move(0, 9, 20)
    scene.replicas.append(9, 9)
    for offset in range(10, 25):
        scene.replicas.append(offset, 100 + offset)
    assert scene.findings() == []
    assert scene.ledger.expected(0, 9, 30) == [Acked(9, 9)]


def test_a_record_without_an_outcome_may_be_there_or_not(scene: Scene) -> None:
    scene.ack(10)
    scene.replicas.append(10, 10)
    assert scene.findings() == []


# Values


def values(count: int, *, partition: int = 0) -> list[tuple[int, bytes | None, bytes | None]]:
    built = Payloads(RUN, 200, RUN).build(partition, 0, count, TOPIC, partition)
    return [(offset, None, value) for offset, value in enumerate(built)]


def test_values_show_their_number_and_whether_they_are_intact() -> None:
    rows = values(3)
    rows[1] = (1, None, b"x" * 200)
    rows[2] = (2, None, rows[2][2][:-1] + b"?" if rows[2][2] else None)
    records = found(rows, RUN, stream=0)
    assert [(r.seq, r.intact) for r in records.values()] == [(0, True), (None, False), (2, False)]
    assert found(values(1, partition=4), RUN, stream=0)[0].seq is None
    assert found([], RUN, stream=0) == {}


def test_only_the_offsets_of_a_piece_are_compared() -> None:
    expected = [Acked(offset, offset) for offset in range(10)]
    piece = Piece(2, 4, {2: Found(2, 2, True)})
    assert [*wrong_records(expected, piece)] == [(3, Wrong.LOST)]


def looked(scene: Scene, seconds: float) -> list[tuple[int, Wrong, int, int, bool]]:
    """The findings of looks every second."""
    findings = []
    for _ in range(int(seconds)):
        scene.now_s += 1
        scene.prober.look_again([PLACED])
        findings += [*scene.prober.confirmed([PLACED])]
    return [(f.broker, f.wrong, f.first_offset, f.end_offset, f.tier) for f in findings]


@pytest.mark.parametrize("refused", [range(4, 5), range(3, 9), range(5, 20), range(20)])
def test_records_that_the_leader_refuses_for_long(tmp_path: Path, refused: range) -> None:
    scene = Scene(tmp_path, tiered=True)
    scene.ack(20)
    scene.replicas.refused = refused
    tier = refused.start < 3
    assert looked(scene, REFUSED_S - 1) == []
    assert looked(scene, 40) == [(1, Wrong.REFUSED, refused.start, refused.stop, tier)]
    assert looked(scene, 4 * REFUSED_S) == []  # it was reported, and the others are read
    assert scene.prober.counts["read again from leader"] + scene.prober.counts["read again from tier"] > 0 or tier
    scene.ledger.close()


def test_an_outage_and_a_leader_that_moves_are_no_finding(scene: Scene) -> None:
    scene.ack(20)
    scene.replicas.refused = range(20)
    assert looked(scene, REFUSED_S - 5) == []
    scene.replicas.refused = range(0)
    assert looked(scene, REFUSED_S) == []
    scene.replicas.refused, scene.replicas.error = range(20), "NOT_LEADER_OR_FOLLOWER"
    assert looked(scene, 3 * REFUSED_S) == []


def test_old_records_are_read_again_although_the_log_grows(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.ack(6)
    for _ in range(3):  # every replica, up to its end
        scene.prober.look_again([PLACED])
    scene.replicas.append(1, 1, 2, intact=False)
    for offset in range(6, 12):
        scene.ledger.add(0, offset, offset, at_ms=1)
        scene.replicas.append(offset, offset)
        scene.prober.look_again([PLACED])
    assert [*scene.prober.confirmed([PLACED])] == []
    scene.now_s += CONFIRM_S
    assert [(f.broker, f.first_offset, f.end_offset) for f in scene.prober.confirmed([PLACED])] == [(2, 1, 2)]

"""When a broker refuses what it has. The brokers are scripted."""

from __future__ import annotations

import pytest
from msgspec import structs

from harness.kafka.admin.fetch import Served
from harness.model.documents.reads import Read, ReadKind
from harness.run import refusals
from harness.workload.consumers.unserved_reads import UnservedRead

ERROR, EMPTY, RECORDS = Served("UNKNOWN_SERVER_ERROR", b""), Served(None, b"", 5), Served(None, b"batch", 9)
PROBE = UnservedRead(reader="probe-committed", place=("t", 0), offset=5, topic_id="i", min_bytes=1, max_bytes=1000)


def read(position: int, kind: ReadKind = "drain", start: int = 0) -> Read:
    return Read(
        reader="leader-committed",
        kind=kind,
        isolation="read_committed",
        replica=1,
        topic="t",
        topic_id="i",
        partition=0,
        start=start,
        target=9,
        position=position,
        reached=position >= 9,
        stuck_reason=None,
    )


class Leader:
    """Gives one answer after the other; the last one stays."""

    def __init__(self, *answers: Served | None) -> None:
        self.answers = list(answers)
        self.offsets: set[int] = set()
        self.brokers: set[int | None] = set()

    def fetch(
        self, topic: str, partition: int, offset: int, max_bytes: int, broker: int | None = None, min_bytes: int = 1
    ) -> Served | None:
        self.offsets.add(offset)
        self.brokers.add(broker)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "_INTERVAL_S", 0.001)


@pytest.mark.parametrize("answer", [ERROR, EMPTY])
def test_a_leader_that_never_returns_records_refuses(answer: Served) -> None:
    leader = Leader(None, answer)
    (found,) = refusals.with_refusals([read(5)], leader, 0.05)
    assert found.refused is not None
    assert (found.refused.offset, found.refused.error) == (5, answer.error)
    assert found.refused.high_watermark == answer.high_watermark
    assert found.refused.first_ns <= found.refused.last_ns
    assert leader.offsets == {5}


def test_a_leader_that_returns_records_at_last_does_not() -> None:
    (found,) = refusals.with_refusals([read(5)], Leader(ERROR, EMPTY, None, RECORDS), 5.0)
    assert found.refused is None


def test_silence_is_no_refusal() -> None:
    (found,) = refusals.with_refusals([read(5)], Leader(None), 0.05)
    assert found.refused is None


def test_only_reads_that_ended_early_are_asked_for() -> None:
    leader = Leader(ERROR)
    reads = [read(9), read(9, "replica")]
    assert refusals.with_refusals(reads, leader, 5.0) == reads
    assert leader.offsets == set()


@pytest.mark.parametrize(("kind", "broker"), [("drain", None), ("replica", 1)])
def test_the_broker_of_a_copy_is_asked_itself(kind: ReadKind, broker: int | None) -> None:
    brokers = Leader(ERROR)
    (found,) = refusals.with_refusals([read(3, kind)], brokers, 0.05)
    assert (found.refused is not None, brokers.brokers) == (True, {broker})


def test_a_copy_without_an_offset_in_its_log_refuses_also_when_the_read_was_cut_short() -> None:
    cut = structs.replace(read(5, "replica"), cut_short=True)
    (found,) = refusals.with_refusals([cut], Leader(Served("OFFSET_OUT_OF_RANGE", b"")), 0.05)
    assert found.refused is not None


def test_a_read_that_never_began_asks_for_the_start() -> None:
    leader = Leader(ERROR)
    refusals.with_refusals([read(-1, start=4)], leader, 0.05)
    assert leader.offsets == {4}


@pytest.mark.parametrize(("error", "refuses"), [("OFFSET_OUT_OF_RANGE", False), ("UNKNOWN_SERVER_ERROR", True)])
def test_a_read_that_was_cut_short_may_have_ended_before_a_gap(error: str, refuses: bool) -> None:
    cut = structs.replace(read(5), cut_short=True)
    (found,) = refusals.with_refusals([cut], Leader(Served(error, b"")), 0.05)
    assert (found.refused is not None) is refuses


def test_a_probe_that_its_leader_refuses_too_is_told() -> None:
    (found,) = refusals.reads_refused([PROBE], Leader(EMPTY), 0.05)
    assert (found.place, found.reader, found.max_bytes) == (("t", "i", 0), "probe-committed", 1000)
    assert (found.refused.offset, found.refused.high_watermark) == (5, 5)


@pytest.mark.parametrize("answers", [(EMPTY, RECORDS), (None,)])
def test_a_probe_that_is_served_at_last_or_never_answered_is_not_told(answers: tuple[Served | None, ...]) -> None:
    assert refusals.reads_refused([PROBE], Leader(*answers), 0.05) == ()

"""An application of Kafka Streams: what it tells, as rows, and how it dies. Its process is scripted."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaException

from harness.model.errors import HarnessFailure
from harness.workload.consumers.processing import ProcessorDeath, not_done, process_all
from harness.workload.java import kafka_streams
from harness.workload.java.java_process import DIED, Fields, JavaError, content, long, number
from harness.workload.java.kafka_streams import StreamsLoop
from harness.workload.java.kafka_streams_rows import Rows, count_of, spans_of
from harness.workload.meters import Meters
from harness.workload.producers.recording_producer import ProducerContext, Target
from harness.workload.producers.streams import Numbers
from harness.workload.producers.transactions import TxnTables
from suites.unit.kafka.release.test_own_streams import JAVA, TEXT, read


class Table:
    """What was written, row by row."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def append(self, columns: Any) -> None:
        lengths = {len(v) for v in columns.values() if isinstance(v, list)}
        for nth in range(lengths.pop() if lengths else 1):
            self.rows.append({k: v[nth] if isinstance(v, list) else v for k, v in columns.items()})

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def of(self, *columns: str) -> list[tuple[Any, ...]]:
        return [tuple(row[c] for c in columns) for row in self.rows]


class Told:
    """Rows, and the frames that an application would send."""

    def __init__(self, text: str = TEXT) -> None:
        self.spec = read(text).producers[1]
        self.ledger, self.reservations, self.transactions, self.commits, self.processed = (Table() for _ in range(5))
        self.context = ProducerContext(
            bootstrap="h:1",
            targets={t: Target(topic=t, topic_id=t.upper(), partitions=2) for t in ("a", "b")},
            numbers=Numbers(),
            meters=Meters(),
            ledger=self.ledger,
            reservations=self.reservations,
            run=5,
            seed=1,
            java=JAVA,
        )
        self.tables = TxnTables(transactions=self.transactions, offset_commits=self.commits)
        self.rows = Rows(self.spec, self.context, self.tables, self.processed)

    def tell(self, *frames: bytes) -> None:
        for frame in frames:
            self.rows.frames[frame[:1]](Fields(frame))


def begun(what: bytes, at_ms: int = 1) -> bytes:
    return b"T" + what + long(at_ms)


def sent(seq: int, offset: int, at_ms: int = 7, lane: int = 1) -> bytes:
    return b"S" + number(lane) + long(seq) + long(at_ms) + number(0) + number(lane) + long(offset)


def acked(seq: int, offset: int, error: str = "", lane: int = 1) -> bytes:
    return b"A" + number(lane) + long(seq) + long(offset) + content(error)


def offsets(end: int, *, txn: bool = True, error: str = "", lane: int = 1) -> bytes:
    return b"O" + bytes([txn]) + long(8) + content(error) + number(1) + content("a") + number(lane) + long(end)


def test_what_it_makes_is_told_before_it_is_sent_and_reported_behind_it() -> None:
    reported = Told()
    assert reported.rows.range(1) == (1, 20_000)
    reported.tell(begun(b"b"), sent(0, 4), sent(1, 5), acked(0, 9), offsets(6))
    assert reported.rows.unreported == 1
    assert reported.rows.done == {}
    reported.tell(acked(1, 10), begun(b"t"), begun(b"c"))
    reported.rows.write()
    assert reported.ledger.of("stream", "seq", "topic", "partition", "txn_id", "outcome", "offset", "called_ns") == [
        (1, 0, "b", 1, 1, "acked", 9, 7_000_000),
        (1, 1, "b", 1, 1, "acked", 10, 7_000_000),
    ]
    assert reported.processed.of("processor", "topic", "partition", "offset", "stream", "seq") == [
        ("worker", "a", 1, 4, 1, 0),
        ("worker", "a", 1, 5, 1, 1),
    ]
    assert reported.transactions.of("txn_id", "producer", "outcome") == [(1, "worker", "committed")]
    assert reported.commits.of("group", "topic", "partition", "offset", "outcome", "txn_id") == [
        ("w", "a", 1, 6, "acked", 1)
    ]
    assert reported.rows.done == {("a", 1): 6}
    assert reported.context.meters.highest_acked() == {("b", 1): 10}
    ((client, transactional, idempotent),) = reported.reservations.of("client", "transactional", "idempotent")
    assert (client, transactional, idempotent) == ("kafka-clients 4.3.1", True, True)


def test_what_one_that_was_killed_was_not_told_is_unknown() -> None:
    reported = Told()
    reported.rows.range(1)
    reported.tell(begun(b"b"), sent(0, 4), sent(1, 5), acked(0, 9), offsets(6), begun(b"t"))
    reported.rows.over()
    assert reported.ledger.of("seq", "outcome", "offset", "error") == [
        (0, "acked", 9, None),
        (1, "unknown", None, "_NO_REPORT"),
    ]
    assert reported.transactions.of("outcome") == [("unknown",)]
    assert reported.rows.done == {}
    assert reported.rows.range(1) == (2, 20_000)  # another life, another stream
    assert dict(reported.rows.outcomes) == {"unknown": 1}


@pytest.mark.parametrize(
    ("frames", "outcomes"),
    [
        ([begun(b"b"), begun(b"a")], ["aborted"]),
        ([begun(b"b"), begun(b"t"), begun(b"a")], ["unknown"]),  # the commit may have been carried out
        ([begun(b"b"), begun(b"b"), begun(b"c")], ["unknown", "committed"]),
        ([begun(b"c"), begun(b"a"), begun(b"t")], []),
    ],
)
def test_how_a_transaction_ended(frames: list[bytes], outcomes: list[str]) -> None:
    reported = Told()
    reported.tell(*frames)
    assert [outcome for (outcome,) in reported.transactions.of("outcome")] == outcomes


def test_offsets_that_were_refused_are_nobody_s() -> None:
    reported = Told()
    reported.tell(begun(b"b"), offsets(6, error="TimeoutException"), begun(b"t"), begun(b"c"))
    assert reported.commits.of("outcome", "txn_id") == [("unknown", 1)]
    assert reported.rows.done == {}


def test_a_commit_whose_answer_nobody_heard_is_found_by_who_comes_next() -> None:
    reported = Told()
    reported.tell(b"G" + number(1) + content("a") + number(0) + long(9))
    assert reported.rows.done == {("a", 0): 9}
    assert reported.commits.rows == []


def test_by_at_least_once_nothing_is_in_a_transaction() -> None:
    reported = Told(TEXT.replace('at = "offsets"', 'at = "produced"').replace('"w" }', '"w", commits = "after" }'))
    reported.rows.range(0)
    reported.tell(sent(0, 4, lane=0), acked(0, -1, "NetworkException", lane=0), offsets(5, txn=False, lane=0))
    reported.rows.write()
    assert reported.ledger.of("txn_id", "outcome", "offset", "error") == [(None, "unknown", None, "NetworkException")]
    assert reported.commits.of("txn_id", "outcome") == [(None, "acked")]
    assert reported.rows.done == {("a", 0): 5}
    assert reported.reservations.of("transactional") == [(False,)]


class Scripted:
    """An application whose frames are a script; "gone" ends it."""

    made: ClassVar[list[Scripted]] = []
    scripts: ClassVar[list[list[Any]]] = []

    def __init__(self, spec: Any, context: Any, rows: Rows, state_dir: str) -> None:
        self.rows, self.script = rows, list(Scripted.scripts.pop(0))
        self.state, self.why, self.holds = "RUNNING", "", None
        self.asked: list[str] = []
        Scripted.made.append(self)

    def attend(self, for_s: float) -> None:
        if not self.script:
            raise AssertionError("the script is over")
        self.script.pop(0)(self)

    def ask(self, what: str, *_: bytes, timeout_s: float) -> None:
        self.asked.append(what)

    def close(self, within_s: float) -> None:
        self.asked.append("close")

    def kill(self) -> None:
        self.asked.append("kill")

    def last_words(self) -> None:
        self.asked.append("last words")


def gone(_: Scripted) -> None:

    raise KafkaException(JavaError(DIED))


def played(monkeypatch: pytest.MonkeyPatch, reported: Told, scripts: list[list[Any]]) -> StreamsLoop:
    monkeypatch.setattr(kafka_streams, "_Application", Scripted)
    Scripted.made, Scripted.scripts = [], scripts
    return StreamsLoop(reported.spec, reported.context, reported.tables, reported.processed)


def frames(*what: bytes) -> Any:
    def turn(app: Scripted) -> None:
        for frame in what:
            app.rows.frames[frame[:1]](Fields(frame))

    return turn


def test_it_is_killed_when_its_log_has_what_it_made(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = Told()
    reported.rows.range(1)
    nothing = frames()

    def hold(app: Any) -> None:
        app.holds = {("a", 1): (4, 6)}

    def begin(app: Scripted) -> None:
        app.rows.range(1)
        frames(begun(b"b"), sent(0, 4), sent(1, 5), acked(0, 9))(app)

    first = [nothing, begin, hold, frames(acked(1, 10))]
    loop = played(monkeypatch, reported, [first, [lambda _: loop.stop()]])
    death = ProcessorDeath(at="produced", records=2)
    loop._death = death
    loop._live()
    assert death.between == {("a", 1): (4, 6)}
    assert death.held == 2
    assert [app.asked for app in Scripted.made] == [
        ["die", "kill", "kill", "last words"],
        ["close", "kill", "last words"],
    ]
    assert reported.ledger.of("seq", "outcome") == [(0, "acked"), (1, "acked")]
    assert reported.transactions.of("outcome") == [("unknown",)]
    assert loop.incarnations == 2
    assert loop.outcomes == {"unknown": 1}


def test_a_death_that_is_called_off_lets_it_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = Told()

    def call_off(_: Scripted) -> None:
        death.called_off = True

    loop = played(monkeypatch, reported, [[frames(), call_off, lambda _: loop.stop()]])
    death = ProcessorDeath(at="produced", records=2)
    loop._death = death
    loop._live()
    assert Scripted.made[0].asked == ["die", "live", "close", "kill", "last words"]
    assert death.between is None


def test_who_ends_by_itself_is_begun_again_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def broke(app: Scripted) -> None:
        app.state, app.why = "ERROR", "TaskCorruptedException"

    loop = played(monkeypatch, Told(), [[gone], [broke], [lambda _: loop.stop()]])
    loop._live()
    assert loop.incarnations == 3
    assert [why.partition(":")[0] for why in loop.errors] == ["_JAVA_DIED", "TaskCorruptedException"]
    again = played(monkeypatch, Told(), [[gone]] * 21)
    with pytest.raises(HarnessFailure, match="it ended by itself 21 times, at last with _JAVA_DIED"):
        again._live()


def test_who_is_not_done_says_what_was_last_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = Told()
    loop = played(monkeypatch, reported, [])
    monkeypatch.setattr("harness.workload.consumers.processing._ALL_S", 0.1)
    assert process_all([loop], {("a", 0): 6, ("b", 0): 3}) == [
        "worker did not get to the end of what it reads: {'a/0': 7} offsets are left; it was never started"
    ]
    reported.tell(offsets(7, txn=False, lane=0))
    loop._rows.done = reported.rows.done
    assert process_all([loop], {("a", 0): 6}) == []
    assert not_done(loop.plan, {("a", 0): 6}, {("a", 0): 6}) == {"a/0": 1}


def test_spans_of_what_was_not_committed() -> None:
    frame = (
        b"H" + number(2) + content("a") + number(0) + long(4) + long(9) + content("a") + number(1) + long(0) + long(1)
    )
    spans = spans_of(Fields(frame))
    assert spans == {("a", 0): (4, 9), ("a", 1): (0, 1)}
    assert count_of(spans) == 6

"""Duplicates and wrong offsets: librdkafka explains them, the release's own client does not."""

from __future__ import annotations

from pyspark.sql import SparkSession

from suites.verify.edits import append
from suites.verify.excuses.test_excuses import acks_one, election, resent_reordered, second_epoch
from suites.verify.history import Built, History
from suites.verify.judging import HistoryBatch, reported


def own(built: Built) -> Built:
    """The release's own client wrote it."""
    return built.change("reservations", {"client": "kafka-clients 4.3.1"})


def acknowledged_elsewhere(history: History) -> Built:
    """The last of three records was acknowledged at offset 1."""
    return history.build().change("ledger", {"offset": 1}, seq=2)


# name -> (history, what condemns, number of records that are excused or explained)
CASES: dict[str, tuple[Built, list[str], int]] = {
    "the release's own client sent it again": (
        own(second_epoch(History("AAA").build(append(1, 1)), producer_epoch=1)),
        ["duplicated 1"],
        0,
    ),
    "the release's own client sent it again as another producer": (
        own(second_epoch(History("AAA").build(append(1, 1)), producer_id=8)),
        ["duplicated 1"],
        0,
    ),
    "the release's own client is not idempotent": (
        own(History("AAA", idempotent=False).build(append(1, 1))),
        [],
        1,
    ),
    "the release's own client reordered it": (own(History("AuA").build(resent_reordered)), ["reordered 1"], 0),
    "librdkafka got another acknowledged offset": (acknowledged_elsewhere(History("AAA")), [], 0),
    "the release's own client got another acknowledged offset": (
        own(acknowledged_elsewhere(History("AAA"))),
        ["wrong_ack_offset 1"],
        0,
    ),
    "the release's own client got no acknowledged offset": (
        own(History("AAA").build().change("ledger", {"offset": None}, seq=2)),
        [],
        0,
    ),
    "the release's own client got another acknowledged offset with acks=1": (
        own(acknowledged_elsewhere(acks_one("AAA"))),
        [],
        0,
    ),
    "the release's own client got another acknowledged offset before an unclean election": (
        election(own(acknowledged_elsewhere(History("AAA"))), 3),
        [],
        1,
    ),
}


NOTED = (
    "librdkafka got another acknowledged offset",
    "the release's own client got another acknowledged offset with acks=1",
)


BATCH = HistoryBatch(history for history, _, _ in CASES.values())


def test_only_librdkafka_is_an_excuse(spark: SparkSession) -> None:
    for (name, (_, condemning, forgiven)), verdict in zip(CASES.items(), BATCH.verdicts(spark), strict=True):
        not_condemning = [f for f in verdict.findings if not f.condemns]
        assert (reported(verdict), sum(f.count for f in not_condemning)) == (condemning, forgiven), name
        notes = [note for note in verdict.notes if note.startswith("wrong_ack_offset: 1 records")]
        assert len(notes) == (name in NOTED), name


NEITHER, SENT, BOTH, COPIED, READ = (History("AAA").build() for _ in range(5))
SENT.scenario["producers"] = [{"name": "p", "client": "java"}]
BOTH.scenario |= {"producers": [{"name": "p", "client": "java"}], "readers": [{"name": "r", "client": "java"}]}
COPIED.scenario["producers"] = [{"name": "p"}, {"name": "s", "client": "streams"}]
READ.scenario |= {"producers": COPIED.scenario["producers"], "readers": BOTH.scenario["readers"]}
CLIENTS = HistoryBatch([NEITHER, SENT, BOTH, COPIED, READ])


def test_a_verdict_lists_work_that_the_own_client_did_not_do(spark: SparkSession) -> None:
    said = [[w for w in v.not_covered if "own Java client" in w] for v in CLIENTS.verdicts(spark)]
    assert said == [
        ["the release's own Java client: librdkafka wrote all records"],
        ["the release's own Java client: librdkafka read all records"],
        [],
        ["the release's own Java client: except in Kafka Streams, librdkafka wrote all records"],
        ["the release's own Java client: except in Kafka Streams, librdkafka wrote all records"],
    ]

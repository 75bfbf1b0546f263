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


def read_by(client: str, built: Built, *producers: dict[str, str]) -> Built:
    """A reader of this client, beside these producers."""
    built.scenario |= {
        "producers": [{"topics": [], **producer} for producer in producers],
        "readers": [{"name": "r", "client": client}],
    }
    return built


def other_harness(built: Built) -> Built:
    built.manifest["sealed_by"] = "hand"
    return built


LIBRDKAFKA, JAVA = "librdkafka", "java"
STREAMS = ({"name": "s", "client": "streams"}, {"name": "p", "client": "librdkafka"})


def streamed(reader: str) -> Built:
    """Kafka Streams copies what librdkafka wrote."""
    built = read_by(reader, History("AAA", "A").build(), *STREAMS)
    return built.change("reservations", {"client": "kafka-clients 4.3.1", "producer": "s"}, partition=1)


def by_clients(*clients: str) -> Built:
    built = other_harness(History(*["A"] * len(clients)).build())
    for partition, client in enumerate(clients):
        built.change("reservations", {"client": client}, partition=partition)
    return built


# name -> (history, the work that the own client did not do)
CLIENTS: dict[str, tuple[Built, list[str]]] = {
    "librdkafka alone": (read_by(LIBRDKAFKA, History("AAA").build()), ["librdkafka wrote all records"]),
    "written by the own client": (read_by(LIBRDKAFKA, own(History("AAA").build())), ["librdkafka read all records"]),
    "written and read by the own client": (read_by(JAVA, own(History("AAA").build())), []),
    "copied by Streams": (streamed(LIBRDKAFKA), ["except in Kafka Streams, librdkafka wrote all records"]),
    "read by the own client, copied by Streams": (
        streamed(JAVA),
        ["except in Kafka Streams, librdkafka wrote all records"],
    ),
    "another harness": (
        by_clients("sarama 1.43", "franz-go 1.17"),
        ["franz-go 1.17 and sarama 1.43 wrote all records"],
    ),
    "evidence by hand": (by_clients("by hand"), ["by hand wrote all records"]),
    "librdkafka of two versions": (by_clients("librdkafka 2.1", "librdkafka 2.2"), ["librdkafka wrote all records"]),
    "another harness with the own client": (
        by_clients("sarama 1.43", "kafka-clients 4.3.1"),
        ["it is unknown which client read the records"],
    ),
    "nothing was reserved": (
        by_clients("sarama 1.43").drop("reservations", stream=1),
        ["it is unknown which client wrote the records"],
    ),
}
OF_CLIENTS = HistoryBatch(history for history, _ in CLIENTS.values())


def test_a_verdict_lists_work_that_the_own_client_did_not_do(spark: SparkSession) -> None:
    for (name, (_, expected)), verdict in zip(CLIENTS.items(), OF_CLIENTS.verdicts(spark), strict=True):
        said = [what for what in verdict.not_covered if "own Java client" in what]
        assert said == [f"the release's own Java client: {text}" for text in expected], name

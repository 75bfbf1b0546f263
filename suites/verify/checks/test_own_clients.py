"""What is put down to librdkafka, and to the release where its own client did it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from suites.verify.edits import append
from suites.verify.excuses.test_excuses import election, ones, second_epoch, turned
from suites.verify.history import Built, History
from suites.verify.judging import Entered, reported


def own(built: Built) -> Built:
    """The release's own client wrote it."""
    return built.change("reservations", {"client": "kafka-clients 4.3.1"})


def told_elsewhere(history: History) -> Built:
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
    "the release's own client turned it round": (own(History("AuA").build(turned)), ["reordered 1"], 0),
    "librdkafka was told another offset": (told_elsewhere(History("AAA")), [], 0),
    "the release's own client was told another offset": (
        own(told_elsewhere(History("AAA"))),
        ["wrong_ack_offset 1"],
        0,
    ),
    "the release's own client was told no offset": (
        own(History("AAA").build().change("ledger", {"offset": None}, seq=2)),
        [],
        0,
    ),
    "the release's own client was told another offset with acks=1": (own(told_elsewhere(ones("AAA"))), [], 0),
    "the release's own client was told another offset before an unclean election": (
        election(own(told_elsewhere(History("AAA"))), 3),
        [],
        1,
    ),
}


NOTED = ("librdkafka was told another offset", "the release's own client was told another offset with acks=1")


ENTERED = Entered(history for history, _, _ in CASES.values())


def test_only_the_clients_of_others_are_an_excuse(spark: SparkSession) -> None:
    for (name, (_, condemning, forgiven)), verdict in zip(CASES.items(), ENTERED.verdicts(spark), strict=True):
        spared = [f for f in verdict.findings if not f.condemns]
        assert (reported(verdict), sum(f.count for f in spared)) == (condemning, forgiven), name
        wrong_ack_offset = [note for note in verdict.notes if note.startswith("wrong_ack_offset: 1 records")]
        assert len(wrong_ack_offset) == (name in NOTED), name


NOBODY, SENT, BOTH, COPIED, READ = (History("AAA").build() for _ in range(5))
SENT.scenario["producers"] = [{"name": "p", "client": "java"}]
BOTH.scenario |= {"producers": [{"name": "p", "client": "java"}], "readers": [{"name": "r", "client": "java"}]}
COPIED.scenario["producers"] = [{"name": "p"}, {"name": "s", "client": "streams"}]
READ.scenario |= {"producers": COPIED.scenario["producers"], "readers": BOTH.scenario["readers"]}
WHO_RAN = Entered([NOBODY, SENT, BOTH, COPIED, READ])


def test_the_release_s_own_client_ran_or_did_not(spark: SparkSession) -> None:
    said = [[w for w in v.not_covered if "own Java client" in w] for v in WHO_RAN.verdicts(spark)]
    assert said == [
        ["the release's own Java client: all load comes from librdkafka"],
        ["the release's own Java client: all that was read was read by librdkafka"],
        [],
        ["the release's own Java client: but for Kafka Streams, all load comes from librdkafka"],
        ["the release's own Java client: but for Kafka Streams, all load comes from librdkafka"],
    ]

"""Clients of which nothing is known: neither excused nor accused. Two acknowledgements for one offset."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from suites.verify.checks.test_java_clients import acknowledged_elsewhere, own
from suites.verify.edits import append, contract, cut, start_at
from suites.verify.excuses.test_excuses import LATER_NS, acks_one, election, resent_reordered, second_epoch
from suites.verify.history import Built, History
from suites.verify.judging import HistoryBatch, reported

IN_DOUBT = "INCONCLUSIVE unattributed"


def by(client: str, built: Built) -> Built:
    return built.change("reservations", {"client": client})


def third(built: Built) -> Built:
    return by("sarama 1.43", built)


def declared(built: Built) -> Built:
    """Its contract says that it sends again under a new epoch."""
    built.run["contract"]["producers"]["p"]["new_epoch_retries"] = True
    return built


def copied(**batch: int) -> Built:
    """A second copy, by another identity of its producer."""
    return second_epoch(History("AAA").build(append(1, 1)), **batch)


def acked_twice(text: str = "AAAA") -> Built:
    """The last record is missing, and was acknowledged at the offset of the one before it."""
    built = History(text).build(cut(len(text) - 1))
    return built.change("ledger", {"offset": len(text) - 2}, seq=len(text) - 1)


def deleted(built: Built) -> Built:
    """DeleteRecords removed everything before the last record."""
    return contract(built, delete_records=True).event("delete_records", before_offset=3)


def acked_twice_and_deleted() -> Built:
    built = History("AAAAA").build(start_at(3))
    return deleted(built.change("ledger", {"offset": 1}, seq=2))


def acked_far_away() -> Built:
    """The last of 1,030 records is missing, and was acknowledged at the offset of the sixth, in whose bucket of 1,024
    sequence numbers nothing is wrong."""
    built = History("A" * 1030).build(cut(1029))
    return built.change("ledger", {"offset": 5}, seq=1029)


def written_again(history: History) -> Built:
    """The third record was truncated, and the next leader acknowledged the fourth one at its offset."""

    def without_the_third(of: History) -> None:
        del of.logs[0][2]

    built = history.build(without_the_third)
    later = {"offset": 2, "called_ns": LATER_NS + 2 * 10**9, "returned_ns": LATER_NS + 3 * 10**9}
    return built.change("ledger", later, seq=3)


# name -> (history, what condemns, records that are excused or explained, status and doubts)
CASES: dict[str, tuple[Built, list[str], int, str]] = {
    "a second copy under a new epoch": (third(copied(producer_epoch=1)), [], 0, IN_DOUBT),
    "a second copy under a new producer id": (third(copied(producer_id=8)), [], 0, IN_DOUBT),
    "a second copy under the same identity": (third(copied()), ["duplicated 1"], 0, "FAIL"),
    "a second copy under an older epoch": (third(copied(producer_epoch=-1)), ["duplicated 1"], 0, "FAIL"),
    "an earlier record behind a later one, under a new epoch": (
        third(History("AuA").build(resent_reordered)),
        [],
        0,
        IN_DOUBT,
    ),
    "a second copy under a new epoch, as declared": (third(declared(copied(producer_epoch=1))), [], 1, "PASS"),
    "a second copy under the same identity, declared or not": (third(declared(copied())), ["duplicated 1"], 0, "FAIL"),
    "the declaration does not excuse the release's own client": (
        own(declared(copied(producer_epoch=1))),
        ["duplicated 1"],
        0,
        "FAIL",
    ),
    "a client that has librdkafka in its name": (by("librdkafka-ng 1", copied(producer_epoch=1)), [], 0, IN_DOUBT),
    "a client that has the name of the release's own in its own": (
        by("kafka-clients-fork 1", copied(producer_epoch=1)),
        [],
        0,
        IN_DOUBT,
    ),
    "librdkafka of any version": (by("librdkafka 2.16.1", copied(producer_epoch=1)), [], 1, "PASS"),
    "a stream without a reservation": (
        copied(producer_epoch=1).drop("reservations", stream=1),
        [],
        0,
        f"{IN_DOUBT} no_reservation",
    ),
    "not idempotent": (third(History("AAA", idempotent=False).build(append(1, 1))), [], 1, "PASS"),
    "another acknowledged offset": (third(acknowledged_elsewhere(History("AAA"))), [], 0, IN_DOUBT),
    "another acknowledged offset with acks=1": (third(acknowledged_elsewhere(acks_one("AAA"))), [], 0, "PASS"),
    "another acknowledged offset before an unclean election": (
        election(third(acknowledged_elsewhere(History("AAA"))), 3),
        [],
        1,
        "PASS",
    ),
    "acknowledged twice to the release's own client": (own(acked_twice()), ["conflicting 1", "lost 1"], 0, "FAIL"),
    "acknowledged at the offset of a record far away": (own(acked_far_away()), ["conflicting 1", "lost 1"], 0, "FAIL"),
    "acknowledged twice to librdkafka": (acked_twice(), ["lost 1"], 0, "FAIL"),
    "acknowledged twice to a client of which nothing is known": (
        third(acked_twice()),
        ["lost 1"],
        0,
        "FAIL unattributed",
    ),
    "acknowledged twice, and both were deleted": (own(acked_twice_and_deleted()), ["conflicting 1"], 0, "FAIL"),
    "acknowledged twice to librdkafka, and both were deleted": (acked_twice_and_deleted(), [], 0, "PASS"),
    "acknowledged twice to another client, and both were deleted": (third(acked_twice_and_deleted()), [], 0, IN_DOUBT),
    "deleted, and each was acknowledged once": (own(deleted(History("AAAAA").build(start_at(3)))), [], 0, "PASS"),
    "acknowledged again after a permitted unclean election": (
        election(own(written_again(History("AAAA"))), 2),
        [],
        1,
        "PASS",
    ),
    "acknowledged again after an unclean election that is not permitted": (
        election(own(written_again(History("AAAA"))), 2, unclean_election=False),
        ["conflicting 1", "lost 1"],
        0,
        "FAIL",
    ),
    "acknowledged again with acks=1": (own(written_again(acks_one("AAAA"))), ["lost 1"], 0, "FAIL"),
}

BATCH = HistoryBatch(history for history, *_ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_client_is_excused_only_by_what_is_known_or_declared(name: str, judged: dict[str, Verdict]) -> None:
    verdict = judged[name]
    _, condemning, forgiven, expected = CASES[name]
    assert (reported(verdict), sum(f.count for f in verdict.findings if not f.condemns)) == (condemning, forgiven)
    assert " ".join([verdict.status.name, *sorted({d.name for d in verdict.doubts}, reverse=True)]) == expected


def test_the_doubt_names_client_place_and_remedy(judged: dict[str, Verdict]) -> None:
    (copy,) = judged["a second copy under a new epoch"].doubts
    assert copy.text == (
        "1 records of t/0 from client 'sarama 1.43' are second copies under another producer id or epoch, which no "
        "broker can recognise; the evidence does not show whether the release or the client caused it; if the client "
        "sends records again so, declare new_epoch_retries in the contract of its producer"
    )
    (moved,) = judged["another acknowledged offset"].doubts
    assert "are at another offset than the client reported as acknowledged" in moved.text
    assert "new_epoch_retries" not in moved.text


def test_no_other_client_is_called_librdkafka(judged: dict[str, Verdict]) -> None:
    for name, (history, *_) in CASES.items():
        client = {row["client"].split()[0] for row in history.tables["reservations"]}
        verdict = judged[name]
        said = [*verdict.notes, *(f.explained_by or "" for f in verdict.findings)]
        if "librdkafka" not in client:
            assert not any("librdkafka" in text for text in said), name


def test_a_contradiction_between_acknowledgements_is_named(judged: dict[str, Verdict]) -> None:
    conflict = next(f for f in judged["acknowledged twice to the release's own client"].findings if f.seq_first == 3)
    found = {f.kind.value: f for f in judged["acknowledged twice to the release's own client"].findings}
    assert conflict.offset_first == 2
    assert found["conflicting"].detail == (
        "the record is missing, and another record was acknowledged at its offset, too; acknowledgements named the "
        "offset for up to 2 records"
    )
    (note,) = judged["acknowledged twice to librdkafka"].notes
    assert note.startswith("conflicting: 1 missing records were acknowledged at the offset of another acknowledged")


TEN: dict[str, Built] = {client: by(client, History("A" * 10).build(cut(1))) for client in ("librdkafka", "by hand")}
for built in TEN.values():
    built.change("ledger", {"offset": 0})
AT_ONE_OFFSET = HistoryBatch(TEN.values())


def test_nine_of_ten_records_that_were_acknowledged_at_one_offset_are_nine_lost_records(spark: SparkSession) -> None:
    for verdict in AT_ONE_OFFSET.verdicts(spark):
        assert verdict.status is Status.FAIL
        assert reported(verdict) == ["lost 9"]
        assert (verdict.promised, verdict.durable) == (10, 1)
        assert verdict.score is not None
        assert (verdict.score.acked, verdict.score.durable_raw) == (10, 1)

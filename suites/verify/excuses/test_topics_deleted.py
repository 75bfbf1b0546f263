"""A topic that was deleted and created again: what each promises, and what the new one may contain."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from suites.verify.checks.test_java_clients import own
from suites.verify.edits import lose
from suites.verify.history import MS, START_NS, Built, History
from suites.verify.judging import HistoryBatch, reported

OLD_ID = "Told"  # the id of the deleted topic
ASKED_NS = START_NS + 500 * MS


def recreated(built: Built, *old: tuple[str, int], declared: bool = True) -> Built:
    """The history is of the new topic; the older one had these records before, (outcome, acknowledged after the
    start in ms), in a stream of its own."""
    built.steps[0]["name"] = "again"
    built.event("topic_deleted", topic_id=OLD_ID, at_ns=ASKED_NS)
    built.run["contract"]["deletions"] = ["again"] if declared else []
    old_stream = {"stream": 77, "topic_id": OLD_ID}
    template, reserved = built.tables["ledger"][0], built.tables["reservations"][0]
    for seq, (outcome, at_ms) in enumerate(old):
        offset = seq if outcome == "acked" else None
        times = {"called_ns": START_NS, "returned_ns": START_NS + at_ms * MS}
        built.tables["ledger"].append(
            template | old_stream | times | {"seq": seq, "outcome": outcome, "offset": offset}
        )
    built.tables["reservations"].append(reserved | old_stream | {"end_seq": len(old) + 5})
    return built


def old_record_in_new_topic(built: Built, seq: int) -> Built:
    """A record of the old stream is at the offset of the new topic's first record, for every reader."""
    built.change("observations", {"stream": 77, "seq": seq, "timestamp_ms": START_NS // MS}, offset=0)
    return built.drop("ledger", stream=1, seq=0).change("reservations", {"first_seq": 0}, stream=1)


def at_one_offset(second_ms: int) -> Built:
    """Two records of the old stream were acknowledged at offset 0 to the release's own client, the second one at this
    time after the start."""
    built = own(recreated(History("AA").build(), ("acked", 1), ("acked", second_ms)))
    return built.change("ledger", {"offset": 0}, stream=77, seq=1)


# name -> (history, what condemns)
CASES: dict[str, tuple[Built, list[str]]] = {
    "records of the deleted topic are missing": (recreated(History("AA").build(), ("acked", 1), ("acked", 900)), []),
    "an undeclared step deleted it": (recreated(History("AA").build(), ("acked", 1), declared=False), ["lost 1"]),
    "a record of the new topic is lost": (
        recreated(History("AAA").build(lose(1)), ("acked", 1)),
        ["lost 1"],
    ),
    "a record of the old topic is in the new one": (
        old_record_in_new_topic(recreated(History("UA").build(), ("acked", 1)), 0),
        ["misrouted 1"],
    ),
    "a send in progress reached the new topic": (
        old_record_in_new_topic(recreated(History("UA").build(), ("unknown", 1)), 0),
        [],
    ),
    "a send acknowledged after the deletion is in the new topic": (
        old_record_in_new_topic(recreated(History("UA").build(), ("acked", 900)), 0),
        [],
    ),
    "two sends acknowledged at one offset, the second by the new topic": (at_one_offset(900), []),
    "two sends acknowledged at one offset by the old topic": (at_one_offset(2), ["conflicting 1"]),
    "a refused send is in the new topic": (
        old_record_in_new_topic(recreated(History("UA").build(), ("refused", 1)), 0),
        ["misrouted 1"],
    ),
}

BATCH = HistoryBatch(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_topic_is_judged_by_its_id(name: str, judged: dict[str, Verdict]) -> None:
    assert reported(judged[name]) == CASES[name][1]


def test_records_of_a_deleted_topic_are_not_promised_and_leave_no_doubt(judged: dict[str, Verdict]) -> None:
    verdict = judged["records of the deleted topic are missing"]
    assert (verdict.promised, verdict.durable) == (2, 2)
    assert not [d for d in verdict.doubts if "not_read" in d.name or "no_drain" in d.name]
    assert verdict.status is Status.PASS, verdict.doubts

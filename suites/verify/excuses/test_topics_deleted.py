"""A topic that was deleted and made anew: what is promised of each, and what may be seen in the one that is there."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from suites.verify.edits import lose
from suites.verify.history import MS, START_NS, Built, History
from suites.verify.judging import Entered, reported

OLD = "Told"  # the id of the topic that was deleted
ASKED_NS = START_NS + 500 * MS


def recreated(built: Built, *old: tuple[str, int], declared: bool = True) -> Built:
    """The history is one of the new topic; before it an older one had records, (outcome, answered after the start in
    ms) each, of a stream of their own."""
    built.steps[0]["name"] = "again"
    built.event("topic_deleted", topic_id=OLD, at_ns=ASKED_NS)
    built.run["contract"]["deletions"] = ["again"] if declared else []
    of_old = {"stream": 77, "topic_id": OLD}
    template, reserved = built.tables["ledger"][0], built.tables["reservations"][0]
    for seq, (outcome, at_ms) in enumerate(old):
        offset = seq if outcome == "acked" else None
        times = {"called_ns": START_NS, "returned_ns": START_NS + at_ms * MS}
        built.tables["ledger"].append(template | of_old | times | {"seq": seq, "outcome": outcome, "offset": offset})
    built.tables["reservations"].append(reserved | of_old | {"end_seq": len(old) + 5})
    return built


def seen(built: Built, seq: int) -> Built:
    """A record of the old stream stands where the first record of the new topic stood, and every reader says so."""
    built.change("observations", {"stream": 77, "seq": seq, "timestamp_ms": START_NS // MS}, offset=0)
    return built.drop("ledger", stream=1, seq=0).change("reservations", {"first_seq": 0}, stream=1)


# name -> (history, what condemns)
CASES: dict[str, tuple[Built, list[str]]] = {
    "records of the deleted topic are gone": (recreated(History("AA").build(), ("acked", 1), ("acked", 900)), []),
    "nobody was to delete it": (recreated(History("AA").build(), ("acked", 1), declared=False), ["lost 1"]),
    "a record of the new topic is lost": (
        recreated(History("AAA").build(lose(1)), ("acked", 1)),
        ["lost 1"],
    ),
    "what the old topic had is seen in the new one": (
        seen(recreated(History("UA").build(), ("acked", 1)), 0),
        ["misrouted 1"],
    ),
    "what was underway reached the new one": (seen(recreated(History("UA").build(), ("unknown", 1)), 0), []),
    "what was answered when the old one was gone": (seen(recreated(History("UA").build(), ("acked", 900)), 0), []),
    "what was never sent is in the new one": (
        seen(recreated(History("UA").build(), ("refused", 1)), 0),
        ["misrouted 1"],
    ),
}

ENTERED = Entered(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, ENTERED.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_topic_keeps_its_own(name: str, judged: dict[str, Verdict]) -> None:
    assert reported(judged[name]) == CASES[name][1]


def test_records_of_a_deleted_topic_leave_the_promised_ones_and_no_doubt(judged: dict[str, Verdict]) -> None:
    verdict = judged["records of the deleted topic are gone"]
    assert (verdict.promised, verdict.durable) == (2, 2)
    assert not [d for d in verdict.doubts if "not_read" in d.name or "no_drain" in d.name]
    assert verdict.status is Status.PASS, verdict.doubts

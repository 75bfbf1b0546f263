"""Applications that read and write, in histories short enough to read aloud: one record of each, once, and no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.contract.contract import SENTINEL
from harness.model.verdict import Status, Verdict
from suites.verify.edits import Edit, append, lose, start_at
from suites.verify.history import START_NS, Built, History
from suites.verify.judging import Entered, reported

Row = dict[str, Any]


def works(
    text: str,
    inputs: Sequence[int],
    *,
    stands: int | None = 4,
    carried: Sequence[tuple[int, int | None]] = ((2, 1), (4, 2)),
    commits: str = "transaction",
    edit: Edit | None = None,
) -> Built:
    """A worker of group w is given "AAAA" and writes `text`, the n-th record of it from the input at inputs[n].

    carried: the offsets that it committed, each with the number of its transaction. stands: where the group does after
    healing.
    """
    history = _apart(History("AAAA", text, name=text).build(edit))
    history.tables["processed"] = [
        {"processor": "p", "topic": "t", "topic_id": "T", "partition": 0, "offset": offset, "stream": 2, "seq": seq}
        for seq, offset in enumerate(inputs)
    ]
    like = history.tables["offset_commits"][0]
    history.tables["offset_commits"] = [
        like | {"offset": offset, "txn_id": txn, "called_ns": START_NS + 100 * n, "returned_ns": START_NS + 100 * n}
        for n, (offset, txn) in enumerate(carried)
    ]
    for n, row in enumerate(history.tables["transactions"]):
        row["ended_ns"] = START_NS + 100 * n + 10
    here = history.drained["groups"][0]
    history.drained["groups"] = [] if stands is None else [{**here, "offset": stands}]
    history.run["contract"]["processors"] = {
        "p": {"processor": "p", "group": "w", "commits": commits, "reads": ["t"]},
    }
    history.scenario["readers"] = []
    history.steps[0]["do"] = "processor_dies"
    return history


def _apart(history: Built) -> Built:
    """What is of the second partition is of another topic; the group is w's, and has nothing there."""
    history.tables["offset_commits"] = [r for r in history.tables["offset_commits"] if r["partition"] == 0]
    history.drained["groups"] = [g for g in history.drained["groups"] if g["partition"] == 0]
    _renamed([history.tables, history.cluster, history.reads])
    topics = history.run["contract"]["topics"]
    topics["made"] = topics["t"] | {"topic": "made"}
    for snapshot in history.cluster["snapshots"]:
        snapshot["topic_configs"]["made"] = {}
    return history


def _renamed(what: Any) -> None:
    if isinstance(what, list):
        for one in what:
            _renamed(one)
    elif isinstance(what, dict):
        if what.get("topic") == "t" and what.get("partition") == 1:
            what.update(topic="made", partition=0)
            what.update({"topic_id": "M"} if "topic_id" in what else {})
        what.update({"group": "w"} if what.get("group") == "g" else {})
        for value in what.values():
            _renamed(value)


def died(history: Built, at: str, first: int, end: int) -> Built:
    return history.event("processor_died", group="w", at=at, from_offset=first, before_offset=end)


def broken(history: Built) -> Built:
    """A broker was killed, and no application was let die."""
    history.steps[0]["do"] = "kill"
    return history


def with_sentinel(history: Built) -> Built:
    """The last record of the input is the drain's own: nobody was there to work on it."""
    history.change("reservations", {"producer": SENTINEL}, stream=1)
    return history


def streams(history: Built) -> Built:
    """Kafka Streams made it: the release's own client."""
    history.change("reservations", {"client": "kafka-clients 4.3.1"}, stream=2)
    return history


def compacted(history: Built) -> Built:
    """What was made may go with compaction, and nobody gave it a key."""
    history.run["contract"]["topics"]["made"]["compacted"] = True
    return history


def started(history: Built, at: int) -> Built:
    """The log of what was made starts there: somebody has deleted what lies below."""
    history.event("delete_records", topic="made", before_offset=at)
    history.run["contract"]["topics"]["made"]["delete_records"] = True
    return history


def of_a_careless_producer(history: Built) -> Built:
    """What is read was written by who may write twice; what is made of it was not."""
    producers = history.run["contract"]["producers"]
    producers["careless"] = producers["p"] | {"producer": "careless", "idempotent": False}
    history.change("reservations", {"producer": "careless", "idempotent": False}, stream=1)
    return history


def orphaned(history: Built) -> Built:
    """Who made the last record was killed before it was told of the ack."""
    history.drop("ledger", stream=2, seq=history.rows("reservations", stream=2)[0]["end_seq"] - 6)
    return history


TURNED = ("(AA)(AA)", [0, 2, 1, 3])
TWICE = ("(AA)(AAAA)", [0, 1, 0, 1, 2, 3])
CASES: dict[str, tuple[Built, list[str]]] = {
    # --- legal
    "one of each": (works("(AA)(AA)", [0, 1, 2, 3]), []),
    "an aborted attempt": (works("[AA](AAAA)", [0, 1, 0, 1, 2, 3]), []),
    "a death whose commit was not done": (works("<AA>(AAAA)", [0, 1, 0, 1, 2, 3]), []),
    "a death whose commit was done": (works("{AA}(AA)", [0, 1, 2, 3]), []),
    "one that is gone is the loss of that one": (
        works("(AA)(AA)", [0, 1, 2, 3], edit=lose(1, 1)),
        ["lost 1", "torn_transaction 1"],
    ),
    "a second copy is a copy": (works("(AA)(AA)", [0, 1, 2, 3], edit=append(2, 1, 1)), ["duplicated 1"]),
    "a processor that no contract names": (works(*TWICE), []),
    # --- not legal
    "done twice": (works(*TWICE), ["duplicated 2"]),
    "done twice, once by a commit that had no answer": (works("{AA}(AAAA)", TWICE[1]), ["duplicated 2"]),
    "passed over": (works("(AA)(A)", [0, 1, 2]), ["skipped_read 1"]),
    "tried in vain, and passed over": (
        works("(AA)[AA]", [0, 1, 2, 3], carried=[(2, 1), (4, None)]),
        ["skipped_read 2"],
    ),
    "offsets of an aborted transaction stand": (
        works("(AA)[AA]", [0, 1, 2, 3]),
        ["commit_regressed 1", "torn_transaction 2"],
    ),
    "what was made stands, its offsets do not": (
        works("(AA)(AA)", [0, 1, 2, 3], stands=2),
        ["commit_regressed 1", "torn_transaction 2"],
    ),
    # --- where what was made may go
    "tried in vain, and passed over, where it is compacted": (
        compacted(works("(AA)[AA]", [0, 1, 2, 3], carried=[(2, 1), (4, None)])),
        ["skipped_read 2"],
    ),
    "offsets of an aborted transaction stand where it is compacted": (
        compacted(works("(AA)[AA]", [0, 1, 2, 3])),
        ["commit_regressed 1", "torn_transaction 2"],
    ),
    "one that is gone where it is compacted is the loss of that one": (
        compacted(works("(AA)(AA)", [0, 1, 2, 3], edit=lose(1, 1))),
        ["lost 1", "torn_transaction 1"],
    ),
    "tried in vain, passed over, and deleted": (
        started(works("[AA](AA)", [0, 1, 2, 3], carried=[(2, None), (4, 2)], edit=start_at(2, 1)), 2),
        ["skipped_read 2"],
    ),
    "done, and deleted": (started(works("(AA)(AA)", [0, 1, 2, 3], edit=start_at(2, 1)), 2), []),
    # --- of who commits otherwise
    "after it, and died in between": (
        died(works(*TWICE, carried=[(4, None)], commits="after"), "produced", 0, 2),
        [],
    ),
    "after it, and died at another place": (
        died(works(*TWICE, carried=[(4, None)], commits="after"), "produced", 1, 4),
        ["duplicated 1"],
    ),
    "after it, and died at another moment": (
        died(works(*TWICE, carried=[(4, None)], commits="after"), "read", 0, 2),
        ["duplicated 2"],
    ),
    "after it, while brokers failed": (broken(works(*TWICE, carried=[(4, None)], commits="after")), []),
    "in it, while brokers failed": (broken(works(*TWICE)), ["duplicated 2"]),
    "before it, while brokers failed, is not twice": (
        broken(works(*TWICE, carried=[(4, None)], commits="before")),
        ["duplicated 2"],
    ),
    "before it, and died in between": (
        died(works("(AA)", [0, 1], carried=[(2, None), (4, None)], commits="before"), "offsets", 2, 4),
        [],
    ),
    "before it, and died later": (
        died(works("(AA)", [0, 1], carried=[(2, None), (4, None)], commits="before"), "produced", 2, 4),
        ["skipped_read 2"],
    ),
    "in it, and died in between": (died(works(*TWICE), "produced", 0, 2), ["duplicated 2"]),
    # --- of Kafka Streams
    "streams: one of each": (streams(works("(AA)(AA)", [0, 1, 2, 3])), []),
    "streams: killed, its transaction timed out": (streams(works("<AA>(AAAA)", [0, 1, 0, 1, 2, 3])), []),
    "streams: the ack of what it made was never told": (streams(orphaned(works("(AA)(AA)", [0, 1, 2, 3]))), []),
    "streams: done twice": (streams(works(*TWICE)), ["duplicated 2"]),
    "streams: passed over": (streams(works("(AA)(A)", [0, 1, 2])), ["skipped_read 1"]),
    "streams: out of order": (streams(works(*TURNED)), ["reordered 1"]),
    "streams: out of order in what was aborted": (streams(works("[AA](AAAA)", [1, 0, 0, 1, 2, 3])), []),
    "librdkafka: out of order by itself": (works(*TURNED), []),
    "streams: nobody made it": (
        streams(works("(AA)(AA)", [0, 1, 2, 3], edit=append(2, 1 << 20, 1))),
        ["phantom 1"],
    ),
    "streams: with at_least_once, killed in between": (
        streams(died(works(*TWICE, carried=[(4, None)], commits="after"), "produced", 0, 2)),
        [],
    ),
    "streams: a careless producer is no excuse for who reads": (
        of_a_careless_producer(streams(works(*TWICE))),
        ["duplicated 2"],
    ),
    # --- in doubt
    "streams: nothing was made": (streams(works("", [], stands=None, carried=[])), []),
    "not done yet": (works("(AA)", [0, 1], stands=2, carried=[(2, 1)]), []),
    "of the drain's own": (with_sentinel(works("(AA)", [0, 1], stands=2, carried=[(2, 1)])), []),
}
del CASES["a processor that no contract names"][0].run["contract"]["processors"]
IN_DOUBT = {"not done yet", "streams: nothing was made"}

ENTERED = Entered(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, ENTERED.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_what_was_made_of_each_record(name: str, judged: dict[str, Verdict]) -> None:
    verdict, expected = judged[name], CASES[name][1]
    assert reported(verdict) == expected
    doubts = {doubt.name for doubt in verdict.doubts}
    assert ("unprocessed" in doubts) is (name in IN_DOUBT)
    if not expected and name not in IN_DOUBT:
        assert verdict.status is Status.PASS, verdict.doubts


def test_a_finding_names_both_places(judged: dict[str, Verdict]) -> None:
    (twice,) = judged["done twice"].findings
    assert (twice.topic, twice.partition, twice.offset_first, twice.offset_last, twice.count) == ("t", 0, 0, 1, 2)
    assert (twice.stream, twice.seq_first, twice.seq_last, twice.reader) == (1, 0, 1, "p")
    assert twice.detail == ("processed twice: what was made of it the second time stands in made/0 at offsets 3 to 4")
    (torn,) = [f for f in judged["what was made stands, its offsets do not"].findings if f.count == 2]
    assert (torn.topic, torn.offset_first, torn.offset_last) == ("t", 2, 3)
    assert torn.detail.endswith("visible in made/0 at offsets 3 to 4")


def test_who_is_out_of_order_is_told_where(judged: dict[str, Verdict]) -> None:
    (turned,) = judged["streams: out of order"].findings
    assert (turned.topic, turned.offset_first, turned.reader) == ("t", 2, "p")
    assert turned.detail == (
        "processed out of order: what was made of it stands in made/0 below what was made of an earlier one, "
        "at offset 3"
    )


def test_an_excuse_says_why(judged: dict[str, Verdict]) -> None:
    (excused,) = judged["after it, and died in between"].findings
    assert excused.excused_by == "p commits after it writes, and died in between"

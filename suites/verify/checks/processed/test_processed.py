"""Applications that read and write: one output for each input record, and no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.contract.contract import SENTINEL
from harness.model.verdict import Status, Verdict
from suites.verify.edits import Edit, append, lose, start_at
from suites.verify.history import START_NS, Built, History
from suites.verify.judging import HistoryBatch, reported

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
    """A worker of group w reads "AAAA" and writes `text`; its n-th record is the output of the input at inputs[n].

    carried: the offsets that it committed, each with the number of its transaction. stands: the group's offset after
    healing.
    """
    history = _with_output_topic(History("AAAA", text, name=text).build(edit))
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


def _with_output_topic(history: Built) -> Built:
    """Moves everything of the second partition to another topic; the group is w and has no offset there."""
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


def with_a_killed_broker(history: Built) -> Built:
    """A broker was killed, and no step killed an application."""
    history.steps[0]["do"] = "kill"
    return history


def with_sentinel(history: Built) -> Built:
    """The last record of the input is the drain's sentinel: it was written after the application had ended."""
    history.change("reservations", {"producer": SENTINEL}, stream=1)
    return history


def streams(history: Built) -> Built:
    """Kafka Streams wrote the output, so the release's own client."""
    history.change("reservations", {"client": "kafka-clients 4.3.1"}, stream=2)
    return history


def compacted(history: Built) -> Built:
    """The output topic is compacted, and the outputs have no keys."""
    history.run["contract"]["topics"]["made"]["compacted"] = True
    return history


def output_log_starts_at(history: Built, at: int) -> Built:
    """The log of the output topic starts there, because of DeleteRecords."""
    history.event("delete_records", topic="made", before_offset=at)
    history.run["contract"]["topics"]["made"]["delete_records"] = True
    return history


def from_a_non_idempotent_producer(history: Built) -> Built:
    """A producer without idempotence wrote the input; the output's producer is idempotent."""
    producers = history.run["contract"]["producers"]
    producers["careless"] = producers["p"] | {"producer": "careless", "idempotent": False}
    history.change("reservations", {"producer": "careless", "idempotent": False}, stream=1)
    return history


def without_last_ack(history: Built) -> Built:
    """The application was killed before it received the last acknowledgement."""
    history.drop("ledger", stream=2, seq=history.rows("reservations", stream=2)[0]["end_seq"] - 6)
    return history


OUT_OF_ORDER = ("(AA)(AA)", [0, 2, 1, 3])
TWICE = ("(AA)(AAAA)", [0, 1, 0, 1, 2, 3])
CASES: dict[str, tuple[Built, list[str]]] = {
    # --- legal
    "one output for each input": (works("(AA)(AA)", [0, 1, 2, 3]), []),
    "an aborted attempt": (works("[AA](AAAA)", [0, 1, 0, 1, 2, 3]), []),
    "killed, and its transaction was aborted": (works("<AA>(AAAA)", [0, 1, 0, 1, 2, 3]), []),
    "killed, and its transaction was committed": (works("{AA}(AA)", [0, 1, 2, 3]), []),
    "a lost output is reported as that loss": (
        works("(AA)(AA)", [0, 1, 2, 3], edit=lose(1, 1)),
        ["lost 1", "torn_transaction 1"],
    ),
    "a second copy of an output is reported as a duplicate of it": (
        works("(AA)(AA)", [0, 1, 2, 3], edit=append(2, 1, 1)),
        ["duplicated 1"],
    ),
    "a processor that the contract does not name": (works(*TWICE), []),
    # --- not legal
    "processed twice": (works(*TWICE), ["duplicated 2"]),
    "processed twice, once in a transaction without an answer": (works("{AA}(AAAA)", TWICE[1]), ["duplicated 2"]),
    "an input without output": (works("(AA)(A)", [0, 1, 2]), ["skipped_read 1"]),
    "an aborted output, and the group committed past the input": (
        works("(AA)[AA]", [0, 1, 2, 3], carried=[(2, 1), (4, None)]),
        ["skipped_read 2"],
    ),
    "offsets of an aborted transaction count": (
        works("(AA)[AA]", [0, 1, 2, 3]),
        ["commit_regressed 1", "torn_transaction 2"],
    ),
    "the outputs count and the offsets do not": (
        works("(AA)(AA)", [0, 1, 2, 3], stands=2),
        ["commit_regressed 1", "torn_transaction 2"],
    ),
    # --- outputs that may be lost
    "an aborted output on a compacted topic, and the group committed past the input": (
        compacted(works("(AA)[AA]", [0, 1, 2, 3], carried=[(2, 1), (4, None)])),
        ["skipped_read 2"],
    ),
    "offsets of an aborted transaction count on a compacted topic": (
        compacted(works("(AA)[AA]", [0, 1, 2, 3])),
        ["commit_regressed 1", "torn_transaction 2"],
    ),
    "a lost output on a compacted topic is reported as that loss": (
        compacted(works("(AA)(AA)", [0, 1, 2, 3], edit=lose(1, 1))),
        ["lost 1", "torn_transaction 1"],
    ),
    "an aborted output that was deleted, and the group committed past the input": (
        output_log_starts_at(works("[AA](AA)", [0, 1, 2, 3], carried=[(2, None), (4, 2)], edit=start_at(2, 1)), 2),
        ["skipped_read 2"],
    ),
    "outputs that were deleted": (output_log_starts_at(works("(AA)(AA)", [0, 1, 2, 3], edit=start_at(2, 1)), 2), []),
    # --- applications that commit outside the output's transaction
    "commits after the output, killed in between": (
        died(works(*TWICE, carried=[(4, None)], commits="after"), "produced", 0, 2),
        [],
    ),
    "commits after the output, killed at another offset": (
        died(works(*TWICE, carried=[(4, None)], commits="after"), "produced", 1, 4),
        ["duplicated 1"],
    ),
    "commits after the output, killed at another moment": (
        died(works(*TWICE, carried=[(4, None)], commits="after"), "read", 0, 2),
        ["duplicated 2"],
    ),
    "commits after the output, while brokers failed": (
        with_a_killed_broker(works(*TWICE, carried=[(4, None)], commits="after")),
        [],
    ),
    "commits with the output, while brokers failed": (with_a_killed_broker(works(*TWICE)), ["duplicated 2"]),
    "commits before the output, while brokers failed, and processed twice": (
        with_a_killed_broker(works(*TWICE, carried=[(4, None)], commits="before")),
        ["duplicated 2"],
    ),
    "commits before the output, killed in between": (
        died(works("(AA)", [0, 1], carried=[(2, None), (4, None)], commits="before"), "offsets", 2, 4),
        [],
    ),
    "commits before the output, killed later": (
        died(works("(AA)", [0, 1], carried=[(2, None), (4, None)], commits="before"), "produced", 2, 4),
        ["skipped_read 2"],
    ),
    "commits with the output, killed in between": (died(works(*TWICE), "produced", 0, 2), ["duplicated 2"]),
    # --- Kafka Streams
    "streams: one output for each input": (streams(works("(AA)(AA)", [0, 1, 2, 3])), []),
    "streams: killed, and its transaction timed out": (streams(works("<AA>(AAAA)", [0, 1, 0, 1, 2, 3])), []),
    "streams: the last acknowledgement was lost": (streams(without_last_ack(works("(AA)(AA)", [0, 1, 2, 3]))), []),
    "streams: processed twice": (streams(works(*TWICE)), ["duplicated 2"]),
    "streams: an input without output": (streams(works("(AA)(A)", [0, 1, 2])), ["skipped_read 1"]),
    "streams: out of order": (streams(works(*OUT_OF_ORDER)), ["reordered 1"]),
    "streams: out of order in an aborted transaction": (streams(works("[AA](AAAA)", [1, 0, 0, 1, 2, 3])), []),
    "librdkafka: out of order by its own retries": (works(*OUT_OF_ORDER), []),
    "streams: an output that was never sent": (
        streams(works("(AA)(AA)", [0, 1, 2, 3], edit=append(2, 1 << 20, 1))),
        ["phantom 1"],
    ),
    "streams: at_least_once, killed in between": (
        streams(died(works(*TWICE, carried=[(4, None)], commits="after"), "produced", 0, 2)),
        [],
    ),
    "streams: a non-idempotent producer of the input is no excuse": (
        from_a_non_idempotent_producer(streams(works(*TWICE))),
        ["duplicated 2"],
    ),
    # --- in doubt
    "streams: no output": (streams(works("", [], stands=None, carried=[])), []),
    "inputs not processed yet": (works("(AA)", [0, 1], stands=2, carried=[(2, 1)]), []),
    "an unprocessed sentinel of the drain": (with_sentinel(works("(AA)", [0, 1], stands=2, carried=[(2, 1)])), []),
}
del CASES["a processor that the contract does not name"][0].run["contract"]["processors"]
IN_DOUBT = {"inputs not processed yet", "streams: no output"}

BATCH = HistoryBatch(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_case_has_exactly_its_findings(name: str, judged: dict[str, Verdict]) -> None:
    verdict, expected = judged[name], CASES[name][1]
    assert reported(verdict) == expected
    doubts = {doubt.name for doubt in verdict.doubts}
    assert ("unprocessed" in doubts) is (name in IN_DOUBT)
    if not expected and name not in IN_DOUBT:
        assert verdict.status is Status.PASS, verdict.doubts


def test_a_finding_names_both_places(judged: dict[str, Verdict]) -> None:
    (twice,) = judged["processed twice"].findings
    assert (twice.topic, twice.partition, twice.offset_first, twice.offset_last, twice.count) == ("t", 0, 0, 1, 2)
    assert (twice.stream, twice.seq_first, twice.seq_last, twice.reader) == (1, 0, 1, "p")
    assert (
        twice.detail == "the application processed the record twice: the second output is in made/0 at offsets 3 to 4"
    )
    (torn,) = [f for f in judged["the outputs count and the offsets do not"].findings if f.count == 2]
    assert (torn.topic, torn.offset_first, torn.offset_last) == ("t", 2, 3)
    assert torn.detail.endswith("visible in made/0 at offsets 3 to 4")


def test_a_reordering_names_the_place_of_the_outputs(judged: dict[str, Verdict]) -> None:
    (reordered,) = judged["streams: out of order"].findings
    assert (reordered.topic, reordered.offset_first, reordered.reader) == ("t", 2, "p")
    assert reordered.detail == (
        "the application processed the record out of order: its output in made/0 is below the output of an earlier "
        "input, which is at offset 3"
    )


def test_an_excuse_gives_its_reason(judged: dict[str, Verdict]) -> None:
    (excused,) = judged["commits after the output, killed in between"].findings
    assert excused.excused_by == "p commits after it writes, and died in between"

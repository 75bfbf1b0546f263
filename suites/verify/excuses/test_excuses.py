"""Each excuse, and the record just outside its predicate, which condemns."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.finding import Finding
from harness.model.verdict import Status, Verdict
from suites.verify.edits import append, contract, cut, lose, only_live
from suites.verify.history import START_NS, Built, Entry, History
from suites.verify.judging import HistoryBatch, reported

LATER_NS = START_NS + 10**9
# A power loss of broker 9, which has no replica of the partition.
ELSEWHERE = {"broker": 9, "isr": [1, 2, 3], "log_end": 4, "recovery_point": 0, "at_ns": LATER_NS}


def election(built: Built, log_end: int | None, **settings: Any) -> Built:
    """An unclean election that the contract permits, after every acknowledgement."""
    built.steps[0]["started_ns"] = LATER_NS
    built.event("unclean_election", topic_id="T", leader=2, leader_epoch=1, log_end=log_end, at_ns=LATER_NS + 10**9)
    return contract(built, **{"unclean_election": True, **settings})


def hanging(built: Built) -> Built:
    """The last stable offset stays at 2 of 5."""
    built.drained["partitions"][0]["last_stable_offset"] = 2
    built.run["transactions_settled"] = {"ok": False, "waited_s": 75.0, "last_seen": "t-0"}
    return built


def exactly(built: Built, count: int) -> Built:
    built.run["contract"]["exact_losses"] = [{"topic": "t", "partition": 0, "count": count}]
    return built


def before_last_ack(built: Built) -> Built:
    """The election step started before the last record was acknowledged."""
    last = max(row["returned_ns"] for row in built.tables["ledger"])
    built.steps[0]["started_ns"] = last - 1
    return built


def change_of_leader(built: Built, epoch: int, at_ns: int = LATER_NS) -> Built:
    return built.event("leader_change", old_leader=1, new_leader=2, leader_epoch=epoch, clean=True, at_ns=at_ns)


def without_lineages(built: Built) -> Built:
    built.cluster["lineages"] = []
    return built


def judged_as_acks_all(built: Built) -> Built:
    """Another declared contract for the same run: acks=all, idempotent."""
    built.run["contract"]["producers"]["p"].update(acks="all", idempotent=True)
    return built


def second_epoch(built: Built, **batch: Any) -> Built:
    """The last batch was written with another producer epoch or id."""
    last = max(row["base_offset"] for row in built.tables["batches"])
    return built.change("batches", batch, base_offset=last)


def acks_one(*texts: str) -> History:
    return History(*texts, acks="1", idempotent=False)


def next_leader_lacks_the_last(history: History) -> None:
    history.logs[0].pop()
    history.lineage[0][1] = [1, 2]


def resent_reordered(history: History) -> None:
    """An earlier record is sent again with a new epoch and is after a later one; the first copy was not written."""
    history.logs[0] = [*history.logs[0], Entry(1, 1, history.now_ns, producer_epoch=1)]


def power(
    built: Built, *brokers: int, isr: tuple[int, ...] = (1, 2, 3), at_ns: int = LATER_NS, **reported: Any
) -> Built:
    """Brokers lost power at one time, and were healed one second later; by default after every acknowledgement."""
    facts = {"isr": list(isr), "log_end": 4, "recovery_point": 0, "at_ns": at_ns, **reported}
    step = {**built.steps[0], "name": f"dark-{at_ns}", "healed_ns": at_ns + 10**9}
    step["events"] = [{"kind": "power_loss", "topic": "t", "partition": 0, "broker": b, **facts} for b in brokers]
    built.steps.append(step)
    return built


def member_died(built: Built, *skipped: int, at_most_once: bool = True, reader: str = "grouped") -> Built:
    """The group's member dies between commit and processing of offset 2; a reader did not process `skipped`."""
    for offset in skipped:
        built.drop("observations", reader=reader, offset=offset)
    contract = {"reader": "grouped", "group": "g", "at_most_once": at_most_once}
    built.run["contract"]["readers"] = {"grouped": contract}
    return built.event("reader_died", group="g", from_offset=2, before_offset=3, at_ns=LATER_NS)


# name -> (history, what condemns, number of records that are excused or explained)
CASES: dict[str, tuple[Built, list[str], int]] = {
    "at most once: the record between commit and processing": (member_died(History("AAAA").build(), 2), [], 1),
    "at most once: one more": (member_died(History("AAAA").build(), 1, 2), ["skipped_read 1"], 1),
    "at most once: another reader": (member_died(History("AAAA").build(), 2, reader="live"), ["skipped_read 1"], 0),
    "at least once skips nothing": (member_died(History("AAAA").build(), 2, at_most_once=False), ["skipped_read 1"], 0),
    "unclean election": (election(History("AAAA").build(cut(2)), 2), [], 2),
    "unclean election loses a record without an acknowledged offset": (
        election(History("AAaA").build(cut(2)), 2),
        [],
        2,
    ),
    "unclean election before the acknowledgement of a record without an offset": (
        before_last_ack(election(History("AAAa").build(cut(2)), 2)),
        ["lost 1"],
        1,
    ),
    "more losses than the exact number, one without an acknowledged offset": (
        exactly(election(History("AAaA").build(cut(2)), 2), 1),
        ["lost 1"],
        1,
    ),
    "unclean election, one record too many": (election(History("AAAA").build(cut(1)), 2), ["lost 1"], 2),
    "unclean election, undeclared": (
        election(History("AAAA").build(cut(2)), 2, unclean_election=False),
        ["lost 2"],
        0,
    ),
    "unclean election before the acknowledgement": (
        before_last_ack(election(History("AAAA").build(cut(2)), 2)),
        ["lost 1"],
        1,
    ),
    "unclean election, with the log end only in the lineage": (
        election(History("AA|AA").build(lambda h: (lose(2)(h), lose(3)(h))[0]), None),
        [],
        2,
    ),
    "unclean election of another partition": (
        election(History("AA", "AAA").build(cut(1, partition=1)), 1),
        ["lost 2"],
        0,
    ),
    "unclean election loses a record that readers received": (
        election(only_live(History("AAUA").build(), 2), 2),
        [],
        1,
    ),
    "unclean election does not excuse a duplicate": (
        election(History("AAA").build(append(1, 0)), 1),
        ["duplicated 1"],
        0,
    ),
    "exactly the exact number of losses": (exactly(election(History("AAAA").build(cut(2)), 2), 2), [], 2),
    "more losses than the exact number": (exactly(election(History("AAAAA").build(cut(2)), 2), 2), ["lost 1"], 2),
    "fewer losses than the exact number": (exactly(election(History("AAAA").build(cut(3)), 2), 2), [], 1),
    "acks=1, the next leader lacks it": (
        change_of_leader(acks_one("AA|A").build(next_leader_lacks_the_last), 1),
        [],
        1,
    ),
    "acks=1, the start of the next leader is unknown": (
        without_lineages(change_of_leader(acks_one("AA|A").build(lose(1)), 1)),
        [],
        1,
    ),
    "acks=1 without a change of leader": (acks_one("AAA").build(cut(2)), ["lost 1"], 0),
    "acks=1, below the new leader's start": (
        change_of_leader(acks_one("AA|A").build(lose(1)), 1),
        ["lost 1"],
        0,
    ),
    "acks=1, acknowledged after the change": (
        change_of_leader(acks_one("AA|A").build(lose(2)), 1, at_ns=START_NS),
        ["lost 1"],
        0,
    ),
    "acks=1, and a reader had received it": (
        change_of_leader(only_live(acks_one("AA|AA").build(), 2), 1),
        ["vanished 1"],
        1,
    ),
    "acks=1, judged as acks=all": (
        judged_as_acks_all(change_of_leader(acks_one("AA|A").build(lose(2)), 1)),
        ["lost 1"],
        0,
    ),
    "power loss of all": (power(History("AAAA").build(cut(2)), 1, 2, 3), [], 2),
    "power loss of all loses a record that readers received": (
        power(only_live(History("AAUA").build(), 2), 1, 2, 3),
        [],
        1,
    ),
    "power loss does not excuse a duplicate": (power(History("AAA").build(append(1, 0)), 1, 2, 3), ["duplicated 1"], 0),
    "power loss of all in sync, and one was out of sync": (power(History("AA").build(cut(1)), 1, 2, isr=(1, 2)), [], 1),
    "power loss, and one broker was spared": (power(History("AA").build(cut(1)), 1, 2), ["lost 1"], 0),
    "power loss of a broker without a replica": (
        History("AA").build(cut(1)).event("power_loss", **ELSEWHERE),
        ["lost 1"],
        0,
    ),
    "power loss of the last in sync, fewer than min.insync.replicas": (
        power(History("AA").build(cut(1)), 1, isr=(1,)),
        ["lost 1"],
        0,
    ),
    "power loss of the last in sync, with min.insync.replicas=1": (
        contract(power(History("AA").build(cut(1)), 1, isr=(1,)), min_insync_replicas=1),
        [],
        1,
    ),
    "power loss of all, flush.messages=1": (
        contract(power(History("AA").build(cut(1)), 1, 2, 3), flush_messages=1),
        ["lost 1"],
        0,
    ),
    "power loss of all, flush.messages=2": (
        contract(power(History("AAAA").build(cut(2)), 1, 2, 3), flush_messages=2),
        ["lost 1"],
        1,
    ),
    "power loss of all, below the recovery points": (
        power(History("AAAA").build(cut(2)), 1, 2, 3, recovery_point=3),
        ["lost 1"],
        1,
    ),
    "power loss of all, below what every disk still had": (
        power(History("AAAA").build(cut(2)), 1, 2, 3, sound_end=3),
        ["lost 1"],
        1,
    ),
    "power loss of all, and one disk had less": (
        power(power(History("AAAA").build(cut(2)), 1, 2, sound_end=4), 3, at_ns=LATER_NS + 5, sound_end=2),
        [],
        2,
    ),
    "power loss of all, after flush.ms": (
        contract(power(History("A.......A").build(cut(0)), 1, 2, 3, at_ns=START_NS + 9 * 10**9), flush_ms=1500),
        ["lost 1"],
        1,
    ),
    "power loss of all, and flush.ms is the highest value": (
        contract(power(History("AA").build(cut(1)), 1, 2, 3), flush_ms=2**63 - 1),
        [],
        1,
    ),
    "power loss of all, acknowledged after it": (
        power(History("AA").build(cut(1)), 1, 2, 3, at_ns=START_NS),
        ["lost 1"],
        0,
    ),
    "power loss of disks that pretend to flush": (
        power(History("AA").build(cut(1)), 1, 2, 3, pretended=True),
        ["lost 1"],
        0,
    ),
    "power loss of one after another, none back in between": (
        power(power(History("AA").build(cut(1)), 1, at_ns=LATER_NS), 2, 3, at_ns=LATER_NS + 5, isr=(2, 3)),
        [],
        1,
    ),
    "power loss of one after another, each back in between": (
        power(power(History("AA").build(cut(1)), 1, 2), 3, at_ns=LATER_NS + 2 * 10**9),
        ["lost 1"],
        0,
    ),
    "acks=0": (History("AAA", acks="0", idempotent=False).build(lose(1)), [], 1),
    "not idempotent, judged as idempotent": (
        judged_as_acks_all(acks_one("AAA").build(append(1, 1))),
        ["duplicated 1"],
        0,
    ),
    "librdkafka sent it again": (
        second_epoch(History("AAA").build(append(1, 1)), producer_epoch=1),
        [],
        1,
    ),
    "librdkafka sent it again as another producer": (
        second_epoch(History("AAA").build(append(1, 1)), producer_id=8),
        [],
        1,
    ),
    "a second copy with an older epoch": (
        second_epoch(History("AAA").build(append(1, 1)), producer_epoch=-1),
        ["duplicated 1"],
        0,
    ),
    "a second copy, and no batch was read": (
        History("AAA").build(append(1, 1)).drop("batches", count=1),
        ["duplicated 1"],
        0,
    ),
    "replicas disagree on the producer of the copy": (
        History("AAA").build(append(1, 1)).change("batches", {"producer_epoch": 1}, base_offset=3, broker=2),
        ["duplicated 1"],
        0,
    ),
    "librdkafka reordered it": (History("AuA").build(resent_reordered), [], 1),
    "an unclean election loses the end of a transaction": (election(hanging(History("AA(AA)").build()), 4), [], 3),
    "a hanging transaction that began after the unclean election": (
        election(hanging(History("AA(AA)").build()), 2),
        ["hanging_transaction 3"],
        0,
    ),
    "an unpermitted unclean election loses the end of a transaction": (
        election(hanging(History("AA(AA)").build()), 4, unclean_election=False),
        ["hanging_transaction 3"],
        0,
    ),
}

BATCH = HistoryBatch(history for history, _, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_only_what_the_contract_permits_is_excused(name: str, judged: dict[str, Verdict]) -> None:
    verdict = judged[name]
    _, condemning, excused = CASES[name]
    assert reported(verdict) == condemning
    assert sum(f.count for f in verdict.findings if not f.condemns) == excused
    assert all(_has_reason(f) for f in verdict.findings)


def test_a_loss_of_acks_1_at_an_unknown_offset_leaves_a_doubt(judged: dict[str, Verdict]) -> None:
    verdict = judged["acks=1, the start of the next leader is unknown"]
    assert [doubt.name for doubt in verdict.doubts] == ["no_lineage"]
    assert not judged["acks=1, the next leader lacks it"].doubts


def _has_reason(finding: Finding) -> bool:
    return finding.condemns or bool(finding.excused_by or finding.explained_by)


def test_excused_losses_count_as_not_promised_and_do_not_raise_the_raw_figure(judged: dict[str, Verdict]) -> None:
    verdict = judged["unclean election, one record too many"]
    assert verdict.score is not None
    assert (verdict.score.acked, verdict.score.durable_raw) == (4, 1)
    assert (verdict.promised, verdict.durable) == (2, 1)
    assert verdict.score.share_raw == 0.25
    assert verdict.score.share_excused == 0.5
    assert (verdict.score.episodes, verdict.score.episodes_with_loss) == (1, 1)


def test_fewer_losses_than_the_exact_number_are_a_doubt(judged: dict[str, Verdict]) -> None:
    verdict = judged["fewer losses than the exact number"]
    assert verdict.status is Status.INCONCLUSIVE
    assert [doubt.name for doubt in verdict.doubts] == ["too_few_lost"]
    assert judged["exactly the exact number of losses"].status is Status.PASS


def test_an_excused_hanging_transaction_says_how_to_end_it(judged: dict[str, Verdict]) -> None:
    verdict = judged["an unclean election loses the end of a transaction"]
    (why,) = (finding.excused_by for finding in verdict.findings)
    assert why is not None
    assert "kafka-transactions.sh abort --topic t --partition 0 --start-offset 2" in why
    assert verdict.status is Status.INCONCLUSIVE  # records after it could not be read as committed


def _redelivered() -> Built:
    again = member_died(History("AAAA").build(), at_most_once=False)
    for offset in (1, 2):
        again.copy("observations", {"session": 1}, reader="grouped", offset=offset)
    return again.change("observations", {"session": 1}, reader="grouped", offset=3)


REDELIVERED = HistoryBatch(
    [_redelivered(), member_died(History("AAAA").build(), at_most_once=False), History("AAAA").build()]
)


def test_redelivered_records_count_only_between_commit_and_processing(spark: SparkSession) -> None:
    counted = [verdict.facts.redelivered for verdict in REDELIVERED.verdicts(spark)]
    assert counted == [{"t/0": 1}, {}, {}]


def _grouped(text: str, isolation: str) -> Built:
    history = History(text).build()
    history.scenario["readers"] = [{"name": "peek", "group": "g", "isolation": isolation}]
    return history


SHOWN = HistoryBatch(
    [
        _grouped("A[AAA](AA)", "read_uncommitted"),
        _grouped("AA(AA)", "read_uncommitted"),
        _grouped("A[AAA](AA)", "read_committed"),
        History("A[AAA](AA)").build(),
    ]
)


def test_aborted_records_that_a_group_received_count_only_with_read_uncommitted(spark: SparkSession) -> None:
    shown = [verdict.facts.shown_undecided for verdict in SHOWN.verdicts(spark)]
    assert shown == [{"t/0": 3}, {}, {}, {}]

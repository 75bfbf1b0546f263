"""Every kind of finding on a history short enough to read aloud, beside the near miss that must stay silent."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from suites.verify.checks.operations import CASES as OF_ADMINS
from suites.verify.copies_and_groups import CASES as OF_COPIES_AND_GROUPS
from suites.verify.copies_and_groups import built, by_hand, retention_while_read
from suites.verify.edits import (
    append,
    contract,
    cut,
    hide,
    lose,
    only_live,
    run_finished,
    show,
    start_at,
    stuck,
    swap,
    without_drain,
)
from suites.verify.history import RC, START_NS, Built, Entry, History
from suites.verify.judging import Entered, reported


def offsets_of_one(history: Built, reported: int | None) -> Built:
    """The only commit of the group is offset 3 in the transaction; the coordinator tells another one, or none."""
    end = history.drained["partitions"][0]["high_watermark"]
    history.drop("offset_commits", offset=end // 2)
    history.change("offset_commits", {"offset": 3, "txn_id": 1}, offset=end)
    groups = history.drained["groups"]
    history.drained["groups"] = [] if reported is None else [groups[0] | {"offset": reported}]
    return history


def jumping(history: Built) -> Built:
    """The only member of a group goes on behind offset 1, in a new session."""
    history.drop("observations", reader="grouped", offset=1)
    for offset in (2, 3):
        history.change("observations", {"session": 1}, reader="grouped", offset=offset)
    return history


def shared(history: Built, *, skips: bool = False) -> Built:
    """Two members of the group: the second one goes on where the first had committed, or one offset behind that."""
    history.scenario["readers"].append({"name": "second", "group": "g"})
    for offset in (2, 3):
        history.change("observations", {"reader": "second"}, reader="grouped", offset=offset)
    if skips:
        history.drop("observations", reader="second", offset=2)
    else:
        history.copy("observations", {"reader": "second"}, reader="grouped", offset=1)
    return history


def trimmed(start: int) -> Built:
    """A log that began at 2 before the run, and that begins at `start` after it; nothing is limited by time."""

    def older(history: History) -> None:
        history.logs[0][:0] = [Entry(-1, -1, START_NS, 0), Entry(-1, -1, START_NS, 0)]
        for row in history.ledger:
            row["offset"] += 2
        history.starts[0] = start

    history = contract(History("AAAA").build(older), retention_ms=-1)
    for log in history.cluster["snapshots"][0]["partitions"][0]["logs"]:
        log.update(log_start=2, log_end=2)
    return history


def not_asked_before(history: Built) -> Built:
    """Nobody told where logs started when the run began."""
    del history.cluster["snapshots"][0]
    return history


def falsely_told(text: str, start: int, reported: int) -> Built:
    """Retention by time; the last record was sent twice, and its answer told an offset that it does not have."""
    history = contract(History(text).build(start_at(start)), retention_ms=1000)
    last = max(row["seq"] for row in history.tables["ledger"])
    return history.change("ledger", {"offset": reported}, seq=last)


# name -> (history, what condemns)
CASES: dict[str, tuple[Built, list[str]]] = (
    {
        # --- legal
        "acks": (built("AAA"), []),
        "retries, timeouts and refusals": (built("AuUARAuU"), []),
        "acks that told no offset": (built("AaAa"), []),
        "committed transactions": (built("A(AA)A(A)"), []),
        "aborted transactions": (built("A[AA]A[A]A"), []),
        "unknown transactions, landed or not": (built("{AA}A<AA>A"), []),
        "a transaction over partitions": (built("(AA)A", "A(A)", "{A}"), []),
        "unknown records in transactions": (built("(AuU)[UuA]{uU}<uA>"), []),
        "new leaders": (built("AA|AA|uA"), []),
        "an empty partition beside a full one": (built("AAA", ""), []),
        # --- lost
        "a record is nowhere": (History("AAA").build(lose(1)), ["lost 1"]),
        "one without an offset is nowhere": (History("AaA").build(lose(1)), ["lost 1"]),
        "an unknown one is nowhere": (History("AUA").build(lose(1)), []),
        "one of an aborted transaction is nowhere": (History("[AA]A").build(lose(1)), []),
        "every log ends below it": (History("AAAA").build(cut(2)), ["lost 2"]),
        "every log ends below an unknown one": (History("AAUU").build(cut(2)), []),
        "readers saw it before it went": (only_live(built("AAA"), 1), ["lost 1"]),
        "the leader lost it, replicas have it": (without_drain(built("AAA"), 1), ["lost 1"]),
        "all records are gone": (History("AAA").build(cut(0)), ["lost 3"]),
        "a stuck read loses nothing": (stuck(built("AAAA"), 2), []),
        # --- vanished, conflicting
        "an unknown record was seen and is gone": (only_live(built("AUA"), 1), ["vanished 1"]),
        "an aborted one was seen uncommitted": (only_live(built("A[A]A"), 1), ["vanished 1"]),
        "a reader saw it in an older epoch": (
            built("AAA").change("observations", {"leader_epoch": -1}, reader="live", offset=1),
            ["vanished 1"],
        ),
        "and does not know of which epoch": (
            built("AAA").change("observations", {"leader_epoch": None}, reader="live", offset=1),
            [],
        ),
        "another record stands there now": (
            built("AAAA").change("observations", {"seq": 9}, reader="live", offset=2),
            ["conflicting 1"],
        ),
        "the drains disagree": (
            built("AAU").change("observations", {"seq": 3}, reader="leader-uncommitted", offset=2),
            ["conflicting 1"],
        ),
        # --- duplicated, reordered
        "a second copy": (History("AAA").build(append(1, 1)), ["duplicated 1"]),
        "a second copy of an unknown one": (History("AUA").build(append(1, 1)), ["duplicated 1"]),
        "a second copy of an aborted one": (
            History("A[A]").build(append(1, 1, txn=1, visible=False)),
            ["duplicated 1"],
        ),
        "two records change places": (History("AAAA").build(swap(1, 2)), ["reordered 1"]),
        "an unknown one lands late": (History("AUA").build(swap(1, 2)), ["reordered 1"]),
        # --- corrupt, misrouted, phantom
        "one reader is given damage": (
            built("AAA").change("observations", {"intact": False}, reader="live", offset=1),
            ["corrupt 1"],
        ),
        "the drain is given damage that names nobody": (
            built("AAA").change("observations", {"intact": False, "stream": -1, "seq": 0}, kind="drain", offset=1),
            ["corrupt 1"],
        ),
        "beyond what was reserved": (History("AA", "AA").build(append(1, 7)), ["phantom 1"]),
        "a record in another partition too": (History("AA", "AA").build(append(1, 0, partition=1)), ["misrouted 1"]),
        "a record in another partition instead": (
            History("AUA", "AA").build(lambda h: (lose(1)(h), append(1, 1, partition=1)(h))[0]),
            ["misrouted 1"],
        ),
        "never sent": (History("AA").build(append(77, 0)), ["phantom 1"]),
        "reserved and not in the ledger": (History("AA").build(append(1, 2)), []),
        "refused and there": (History("AAR").build(append(1, 2)), ["phantom 1"]),
        # --- transactions
        "an aborted record is shown": (History("A[AA]").build(show(1)), ["aborted_read 1"]),
        "a live reader is given an aborted record": (
            built("A[AA]").change("observations", {"isolation": RC}, reader="peek"),
            ["aborted_read 2"],
        ),
        "a part of a committed transaction is hidden": (
            History("(AAA)A").build(hide(1)),
            ["lost 1", "torn_transaction 1"],
        ),
        "all of a committed transaction is hidden": (
            History("(AA)A").build(lambda h: (hide(0)(h), hide(1)(h))[0]),
            ["lost 2"],
        ),
        "a part of an unknown transaction is hidden": (History("{AAA}A").build(hide(1)), ["torn_transaction 1"]),
        "on one partition of two": (History("{AA}A", "{A}").build(hide(0, partition=1)), ["torn_transaction 1"]),
        "an unknown transaction is shown on one of two": (
            History("<AA>A", "<A>").build(show(0, 1)),
            ["torn_transaction 2"],
        ),
        "an unknown transaction is shown and its offsets count": (offsets_of_one(built("{AA}A"), reported=3), []),
        "an unknown transaction is shown and its offsets do not count": (
            offsets_of_one(built("{AA}A"), reported=None),
            ["torn_transaction 1"],
        ),
        "an unknown transaction is not shown, nor do its offsets count": (
            offsets_of_one(built("<AA>A"), reported=None),
            [],
        ),
        "an unknown transaction is not shown and its offsets count": (
            offsets_of_one(built("<AA>A"), reported=3),
            ["torn_transaction 1"],
        ),
        "offsets of a committed transaction do not count": (
            offsets_of_one(built("(AA)A"), reported=None),
            ["commit_regressed 1"],
        ),
        # --- readers
        "a live reader skips": (built("AAAA").drop("observations", reader="live", offset=2), ["skipped_read 1"]),
        "a live reader begins late and ends early": (
            built("AAAA").drop("observations", reader="live", offset=0).drop("observations", reader="live", offset=3),
            [],
        ),
        "a live reader jumps into a new session": (
            built("AAAA")
            .drop("observations", reader="live", offset=1)
            .change("observations", {"session": 1}, reader="live", offset=2)
            .change("observations", {"session": 1}, reader="live", offset=3),
            [],
        ),
        "a group jumps into a new session": (jumping(built("AAAA")), ["skipped_read 1"]),
        "a group of another client seeks forward": (by_hand(jumping(built("AAAA"))), []),
        "a group of another client skips": (
            by_hand(built("AAAA").drop("observations", reader="grouped", offset=1)),
            ["skipped_read 1"],
        ),
        "retention goes on between the drains": (retention_while_read(built("AAAA"), "leader-uncommitted"), []),
        "retention goes on between the drains, and one skips": (
            retention_while_read(built("AAAA"), "leader-uncommitted")
            .drop("observations", reader="leader-uncommitted", offset=3)
            .drop("observations", reader="peek", offset=3),
            ["skipped_read 1"],
        ),
        "a group of two reads all of it, some again": (shared(built("AAAA")), []),
        "a group of two skips between its members": (shared(built("AAAA"), skips=True), ["skipped_read 1"]),
        "a group of two of another client": (by_hand(shared(built("AAAA"), skips=True)), []),
        "a group reads some of it again": (
            built("AAAA")
            .copy("observations", {"session": 1}, reader="grouped", offset=2)
            .change("observations", {"session": 1}, reader="grouped", offset=3),
            [],
        ),
        # --- log starts
        "the log starts late for no reason": (History("AAAA").build(start_at(2)), ["log_start 2"]),
        "one replica's log starts late": (built("AAAA"), ["log_start 1"]),
        "retention by size": (contract(History("AAAA").build(start_at(2)), retention_bytes=200), []),
        "retention by size, one too many": (
            contract(History("AAAA").build(start_at(2)), retention_bytes=300),
            ["log_start 1"],
        ),
        "retention by time": (contract(History("AA.AA").build(start_at(2)), retention_ms=1000), []),
        "retention by time, one too many": (
            contract(History("AA.AA").build(start_at(3)), retention_ms=1000),
            ["log_start 1"],
        ),
        "retention by time, and a young one told a false offset": (falsely_told("AA.AAA", 2, reported=0), []),
        "retention by time, one too many, and another told its offset": (
            falsely_told("AA.AAA", 3, reported=2),
            ["log_start 1"],
        ),
        "a log was trimmed before the run": (trimmed(2), []),
        "a log was trimmed before the run, and goes on": (trimmed(3), ["log_start 1"]),
        "a log was trimmed, nobody tells when": (not_asked_before(trimmed(2)), []),
        "a log was trimmed, nobody tells when, and of this run too": (not_asked_before(trimmed(3)), ["log_start 1"]),
        "records are deleted as declared": (
            contract(History("AAAA").build(start_at(2)), delete_records=True).event("delete_records", before_offset=2),
            [],
        ),
        "more records are deleted than declared": (
            contract(History("AAAA").build(start_at(3)), delete_records=True).event("delete_records", before_offset=2),
            ["log_start 1"],
        ),
        "records are deleted undeclared": (
            History("AAAA").build(start_at(2)).event("delete_records", before_offset=2),
            ["log_start 2"],
        ),
        "a topic leaves the remote tier as declared": (
            contract(History("AAAA").build(start_at(2)), tier_off=True).event("tier_off", before_offset=2),
            [],
        ),
        "more is gone than the remote tier had alone": (
            contract(History("AAAA").build(start_at(3)), tier_off=True).event("tier_off", before_offset=2),
            ["log_start 1"],
        ),
        "a topic leaves the remote tier undeclared": (
            History("AAAA").build(start_at(2)).event("tier_off", before_offset=2),
            ["log_start 2"],
        ),
        "a transaction loses its beginning to retention": (
            contract(History("(AAAA)").build(start_at(2)), retention_bytes=200),
            [],
        ),
        "an ack without an offset, deleted perhaps": (
            contract(History("aAAA").build(start_at(2)), retention_bytes=200),
            [],
        ),
        # --- documents
        "a transaction hangs": (built("AA(AA)"), ["hanging_transaction 3"]),
        "the cluster does not come back": (built("AAA"), ["not_recovered 1"]),
        # --- a run that died half way
        "unfinished, a record is nowhere": (run_finished(History("AAA").build(lose(1)), finished=False), []),
        "unfinished, every log ends below": (run_finished(History("AAAA").build(cut(2)), finished=False), ["lost 2"]),
        "unfinished, a copy": (run_finished(History("AAA").build(append(1, 1)), finished=False), ["duplicated 1"]),
        "unfinished, an aborted read": (
            run_finished(History("A[AA]").build(show(1)), finished=False),
            ["aborted_read 1"],
        ),
        "unfinished, refused and there": (
            run_finished(History("AAR").build(append(1, 2)), finished=False),
            ["phantom 1"],
        ),
        "unfinished, nothing was drained": (
            run_finished(
                built("AAAA").drop("observations", kind="drain").drop("observations", kind="replica"), finished=False
            ),
            [],
        ),
    }
    | OF_COPIES_AND_GROUPS
    | OF_ADMINS
)


CASES["one replica's log starts late"][0].drained["partitions"][0]["logs"][2]["log_start"] = 1
CASES["a transaction hangs"][0].drained["partitions"][0]["last_stable_offset"] = 2
CASES["a transaction hangs"][0].run["transactions_settled"] = {"ok": False, "waited_s": 75.0, "last_seen": "t-0"}
CASES["the cluster does not come back"][0].run["recovered"] = {
    "ok": False,
    "waited_s": 90.0,
    "last_seen": "t-0 isr [1]",
}

ENTERED = Entered(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, ENTERED.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_history_is_found_to_be_what_it_is(name: str, judged: dict[str, Verdict]) -> None:
    verdict = judged[name]
    expected = CASES[name][1]
    assert reported(verdict) == expected
    assert not [doubt for doubt in verdict.doubts if doubt.name.startswith("check_failed")]
    assert (verdict.status is Status.FAIL) == bool(expected)

"""A page tells the facts near the cause of an incident: moments, faults, end markers, logs, and permitted elections."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as changed

import reports
from harness.evidence.documents import write_json
from harness.evidence.history import write_history
from harness.evidence.verdicts import read_verdict
from harness.model.finding import Finding, Kind
from harness.model.verdict import Status
from reports.incidents.moments import MOMENTS_MAX
from reports.notation import kafka_notation
from reports.overview import summary_lines
from reports.review.content import Incident, incidents
from reports.review.loaded import load
from reports.review.same_records import Same, same_records
from suites.unit.evidence_examples import verdict
from suites.unit.reports.incident_examples import (
    bundle_with,
    log_line,
    lost,
    page_of,
    picture_in,
    rows_of,
    write_cluster,
    write_findings,
    write_logs,
)
from suites.unit.reports.test_review import Text
from suites.unit.reports.timeline_examples import TOPIC_ID, at, history, led, step, write_steps, write_table

PLAIN: Mapping[str, object] = {
    "topic": "plain",
    "replicas": 2,
    "min_insync_replicas": 1,
    "unclean_election": False,
    "retention_ms": -1,
    "retention_bytes": -1,
    "segment_bytes": 1_000_000,
    "compacted": False,
    "timestamp_type": "create",
    "delete_records": False,
}


def batch(base: int, last: int, control: str | None = None, **own: object) -> Mapping[str, object]:
    """A batch of a transaction on the disk of broker 2."""
    place = {"broker": 2, "topic": "plain", "topic_id": TOPIC_ID, "partition": 0}
    offsets = {"base_offset": base, "last_offset": last, "leader_epoch": 1, "control": control}
    return {**place, **offsets, "producer_id": 1000, "transactional": True, **own}


def torn(folder: Path, *batches: Mapping[str, object], outcome: str = "committed") -> Path:
    """A bundle with 20 records of transaction 7, which ended at 2.2 s: after broker 2 took over, during the fault."""
    bundle = bundle_with(folder, lost(100, 20, kind=Kind.TORN_TRANSACTION), lost(100, 20))
    rows = [row for kind in (Kind.TORN_TRANSACTION, Kind.LOST) for row in rows_of(lost(100, 20, kind=kind))]
    write_findings(bundle, [{**row, "txn_id": 7, "other": 7} for row in rows])
    ended = {"txn_id": 7, "producer": "paid", "outcome": outcome, "end_called_ns": at(2.1), "ended_ns": at(2.2)}
    write_table(bundle, "transactions", [ended])
    write_table(bundle, "batches", [batch(100, 119), *batches])
    return bundle


def section(bundle: Path, name: str, part: str = "torn") -> str:
    """The text of a part of a page."""
    html = page_of(reports.write_page(bundle).parent, part)
    (found,) = re.findall(rf'<section id="{name}".*?</section>', html, re.DOTALL)
    return Text(found).text


def test_a_page_tells_in_order_what_happened_to_the_records_and_the_partition(tmp_path: Path) -> None:
    told = section(torn(tmp_path / "a"), "history")
    lines = [
        "1.20 s fault kill_leader (kill) begins leader 1, epoch 0, ISR [1, 2]",
        "1.20 s 20 records are sent to plain-0, until",
        "1.30 s they are acknowledged, until",
        "2.00 s broker 2 becomes the leader of plain-0 in epoch 1, elected from the ISR leader 2, epoch 1, ISR [2]",
        "2.10 s the producer paid asks to end transaction 7 leader 2, epoch 1, ISR [2] kill_leader",
        "2.20 s transaction 7 is committed: its coordinator acknowledged the commit leader 2, epoch 1",
        "2.50 s fault kill_leader (kill) is healed",
    ]
    places = [told.index(line) for line in lines]
    assert places == sorted(places)


def test_the_picture_marks_the_acknowledgement_and_the_end_of_the_transaction(tmp_path: Path) -> None:
    bundle = torn(tmp_path / "a", outcome="aborted")
    picture = picture_in(page_of(reports.write_page(bundle).parent, "torn"))
    moments = picture["moments"]
    assert isinstance(moments, list)
    assert [(one["text"], one["from_s"]) for one in moments] == [("acknowledged", 1.3), ("transaction 7 aborted", 2.2)]


def test_many_changes_of_leaders_leave_the_moments_of_the_records(tmp_path: Path) -> None:
    bundle = torn(tmp_path / "a")
    changes = [led(1 + number / 50, 1 + number % 2, number, (1, 2)) for number in range(100)]
    write_history(bundle, history(*changes))
    told = section(bundle, "history")
    assert "transaction 7 is committed" in told
    assert f"And {99 + 2 + 4 - MOMENTS_MAX} more changes of leaders and faults in this time" in told


@pytest.mark.parametrize(
    ("behind", "said"),
    [
        (
            [batch(125, 125, "abort")],
            "the first end marker of their producer behind offset 119 is of an abort: at offset 125, written in leader "
            "epoch 1. So read_committed drops them, although their transaction was committed.",
        ),
        (
            [batch(130, 130, "abort"), batch(125, 125, "commit"), batch(121, 121, "abort", producer_id=5)],
            "is of a commit: at offset 125, written in leader epoch 1.",
        ),
        ([], "no end marker of their producer is behind offset 119: the transaction is open there."),
    ],
)
def test_the_end_marker_behind_the_records_is_named(
    tmp_path: Path, behind: list[Mapping[str, object]], said: str
) -> None:
    why = section(torn(tmp_path / "a", *behind), "cause")
    assert f"In the log of plain-0 on broker 2, {said}" in why or said in why
    assert ("although" in why) is ("although" in said)


def test_records_outside_of_transactions_have_no_markers(tmp_path: Path) -> None:
    bundle = bundle_with(tmp_path / "a", lost(100, 20))
    write_table(bundle, "batches", [batch(100, 119), batch(125, 125, "abort")])
    why = section(bundle, "cause", "lost")
    assert "marker" not in why
    assert "The records were acknowledged while kill_leader was active." in why


def test_the_state_at_the_end_of_the_transaction_is_told(tmp_path: Path) -> None:
    why = section(torn(tmp_path / "a"), "cause")
    assert "Transaction 7 of paid was committed at " in why
    assert "plain-0 had leader 2, epoch 1, ISR [2] and the fault kill_leader was active." in why


def test_faults_before_and_after_the_records_are_named_with_their_distance(tmp_path: Path) -> None:
    bundle = bundle_with(tmp_path / "a", lost(100, 20))
    write_steps(bundle, step("early", "pause", 0.2, 0.9), step("late", "kill", 2, 2.5))
    why = section(bundle, "cause", "lost")
    assert "No fault was active when the records were acknowledged: early was over 0.40 s before, and late" in why
    assert "began 0.51 s after." in why


def test_the_first_lines_after_the_send_are_quoted(tmp_path: Path) -> None:
    bundle = bundle_with(tmp_path / "a", lost(100, 20))
    lines = [
        (0.5, "too early", "ERROR"),
        (1.4, "Error in fetch", "WARN"),
        (2, "plain-0 starts at leader epoch 1", "INFO"),
    ]
    write_logs(
        bundle, "server-1.log", *(log_line(at_s, text, level) for at_s, text, level in lines), log_line(4, "end")
    )
    why = section(bundle, "cause", "lost")
    assert "server-1 INFO plain-0 starts at leader epoch 1" in why
    assert "server-1 WARN Error in fetch" in why
    assert "too early" not in why


def unclean(bundle: Path, permitted: bool, last_known: bool, start: int) -> str:
    """The part about the logs of a bundle in which broker 2 was elected from outside the ISR and the ELR."""
    topics = {"plain": {**PLAIN, "unclean_election": permitted}}
    contract = {"topics": topics, "producers": {}, "exact_losses": [], "changes": []}
    write_json(bundle / "run.json", {"finished": True, "contract": contract})
    before = replace(led(1.8, -1, 1, ()), last_known_elr=(2,) if last_known else ())
    write_history(bundle, history(led(-1, 1, 0, (1,)), before, led(2, 2, 2, (2,))))
    write_cluster(bundle, {1: 150, 2: 150}, [(0, 0), (2, start)])
    return section(bundle, "logs", "lost")


def test_a_last_known_leader_is_no_unclean_election_and_the_records_stay_promised(tmp_path: Path) -> None:
    bundle = bundle_with(tmp_path / "a", lost(100, 20, contract="acks=all keeps every acknowledged record"))
    told = unclean(bundle, permitted=False, last_known=True, start=120)
    assert "The contract permits no unclean election of plain (unclean.leader.election.enable=false)." in told
    assert "because ISR and ELR were empty and it had led last. KIP-966 allows that without the setting" in told
    assert (
        "That election lost none of these records: epoch 2 begins at offset 120 in its log, above offset 119." in told
    )
    assert "So these records are promised all the same: acks=all keeps every acknowledged record." in told


def test_an_unclean_election_that_replaced_the_records_is_called_so(tmp_path: Path) -> None:
    bundle = bundle_with(tmp_path / "a", lost(100, 20))
    told = unclean(bundle, permitted=True, last_known=False, start=100)
    assert "The contract permits unclean elections of plain (unclean.leader.election.enable=true)." in told
    assert "from outside the ISR and the ELR: that is an unclean election." in told
    assert "What was at offset 100 and above before that election was replaced: epoch 2 begins at offset 100" in told


def test_without_such_an_election_nothing_is_said_of_it(tmp_path: Path) -> None:
    bundle = bundle_with(tmp_path / "a", lost(100, 20))
    write_logs(
        bundle, "server-1.log", log_line(2, "plain-0 starts at leader epoch 1"), log_line(4, "unclean of late-9")
    )
    assert "permitted here" not in section(bundle, "logs", "lost")
    write_logs(bundle, "server-2.log", log_line(2, "UNCLEAN partition change for plain-0"), log_line(4, "end"))
    told = section(bundle, "logs", "lost")
    assert "Whether the contract permits an unclean election of plain is not known" in told
    assert "The history of the cluster has no such election of this partition" in told


def of(*found: Finding) -> list[Incident]:
    return incidents({"a": verdict("a", Status.FAIL, *found)}, condemning=True)


def test_incidents_about_the_same_records_name_each_other() -> None:
    one, same, part, apart = (
        lost(100, 20),
        lost(100, 20, kind=Kind.TORN_TRANSACTION),
        lost(110, 20, kind=Kind.CORRUPT),
        lost(100, 20, kind=Kind.PHANTOM, partition=1),
    )
    made = {i.kind: i for i in of(one, same, part, apart)}
    found = {i.kind: same_records([*made.values()]).get(i.stem, ()) for i in made.values()}

    def told(kind: str) -> list[str]:
        return sorted(other.text for other in found[kind])

    assert told("lost") == [
        "Some of these records are also reported as corrupt",
        "The same 20 records are also reported as torn_transaction",
    ]
    assert "The same 20 records are also reported as lost" in told("torn_transaction")
    assert found["phantom"] == ()
    (whole,) = [other for other in found["lost"] if other.whole]
    assert isinstance(whole, Same)
    assert whole.short == "the same records as torn_transaction"


def test_ranges_that_only_touch_are_not_the_same_records() -> None:
    assert same_records(of(lost(100, 20), lost(120, 20, kind=Kind.CORRUPT))) == {}
    two = changed(lost(100, 10, step="kill"), offset_last=109), lost(110, 10)
    both = of(*(changed(one, step="kill") for one in two), lost(100, 20, kind=Kind.CORRUPT))
    assert [other.whole for found in same_records(both).values() for other in found] == [True, True]


def test_pages_and_terminal_refer_to_the_other_incident(tmp_path: Path) -> None:
    bundle = torn(tmp_path / "a")
    report = reports.write_page(bundle).parent
    html = page_of(report, "torn")
    (other,) = re.findall(r'The same 20 records are also reported as lost: <a href="(incident-[^"]*)">', html)
    assert (report / other).is_file()
    assert "also reported as torn_transaction: <a href" in (report / "index.html").read_text(encoding="utf-8")
    lines = [text for text, _ in summary_lines(load(bundle).summary, {"a": read_verdict(bundle)}, bundle)]
    assert any(text.endswith("; the same records as torn_transaction") for text in lines)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("led half/1 with acks in the last second", "led half-1 with acks in the last second"),
        ("plain/0, plain/1: the ISR is [1]", "plain-0, plain-1: the ISR is [1]"),
        ("__consumer_offsets/12.", "__consumer_offsets-12."),
        ("acks took 31/198 ms", "acks took 31/198 ms"),
        ("see /tmp/run/1 and logs/3/x", "see /tmp/run/1 and logs/3/x"),
        ("HTTP/1.1 and https://a/b/2", "HTTP/1.1 and https://a/b/2"),
    ],
)
def test_partitions_have_one_notation(text: str, said: str) -> None:
    assert kafka_notation(text) == said

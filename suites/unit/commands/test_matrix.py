"""The matrix of contracts: what a run came to is held against what was promised. Verdicts are made by hand."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.commands import cli
from harness.commands import matrix as contracts
from harness.commands.matrix import Cell, played_now
from harness.commands.options import GateResult
from harness.evidence.documents import plain
from harness.evidence.gate import GateSummary, ScenarioResult
from harness.evidence.matrix import MATRIX_VERSION, PlayedMatrix, write_matrix
from harness.model.contract.effects import Effect
from harness.model.contract.promises import EVENTS
from harness.model.documents.manifest import NamedRelease
from harness.model.documents.verdict_facts import Availability, VerdictFacts
from harness.model.excuse import (
    COMPACTION,
    TIER_METADATA_LOST,
    TIER_OBJECTS_DELETED,
    Evidence,
    EvidenceKind,
    Excused,
)
from harness.model.exits import Exit
from harness.model.finding import Finding, Kind
from harness.model.scenario.scenario import ExactLoss, Scenario
from harness.model.verdict import Status, Verdict
from reports.grouping import shown
from reports.matrix import page
from suites.unit.evidence_examples import verdict as example

COLUMNS = contracts.matrix_scenarios()
DIES = COLUMNS["contract_leader_dies"]
DOWN = COLUMNS["contract_replica_down"]
ANSWERS = COLUMNS["contract_answer_lost"]
READER = COLUMNS["contract_reader_dies"]
BEHIND = COLUMNS["contract_falls_behind"]
CLEANED = COLUMNS["contract_falls_behind_cleaner"]
UNCLEAN_OFFSETS = COLUMNS["contract_offsets_unclean"]
UNTOLD = COLUMNS["contract_tier_metadata_unclean"]
DELETED = COLUMNS["contract_tier_deleted"]
OPEN_S = 20.0
RELEASE = "4.3.1"
PLAYED = PlayedMatrix(format_version=MATRIX_VERSION, release="4.3.1", day="2026-01-31", seed=5, cells=())


def lost(topic: str, count: int, kind: Kind = Kind.LOST) -> Finding:
    return Finding(kind=kind, topic=topic, partition=0, count=count, excused_by="as configured")


def permitted(finding: Finding, name: str) -> Finding:
    evidence = Evidence(kind=EvidenceKind.CONTRACT, what="topics")
    return replace(finding, excuse=Excused(name=name, evidence=evidence))


def verdict(
    scenario: Scenario,
    *findings: Finding,
    status: Status = Status.PASS,
    redelivered: dict[str, int] | None = None,
    undecided: dict[str, int] | None = None,
    **silent_s: float,
) -> Verdict:
    without = {f"{topic}/0": s for topic, s in silent_s.items()}
    fault = scenario.matrix.fault if scenario.matrix else ""
    again = {f"{topic}/0": count for topic, count in (redelivered or {}).items()}
    facts = VerdictFacts(
        redelivered=again,
        shown_undecided={f"{topic}/0": count for topic, count in (undecided or {}).items()},
        availability=Availability(without_acks_s={fault: without, "another": {"two/0": 99.0}}),
    )
    given = example(scenario.name, status, *findings)
    return replace(given, facts=facts)


def cells(scenario: Scenario, judged: Verdict | None, monkeypatch: pytest.MonkeyPatch) -> dict[str, Cell]:
    """By topic."""
    monkeypatch.setattr(contracts, "read_verdict", lambda _: judged)
    monkeypatch.setattr(contracts, "_open_s", lambda _, fault: OPEN_S if fault else 0.0)
    bundle = Path("bundle") if judged else None
    return {cell.topic: cell for cell in contracts._cells(scenario, bundle, RELEASE)}


def with_facts(judged: Verdict, **figures: dict[str, int]) -> Verdict:
    """With figures by topic."""
    reported = {name: {f"{topic}/0": count for topic, count in of.items()} for name, of in figures.items()}
    return replace(judged, facts=replace(judged.facts, **reported))


def test_a_group_that_goes_back_shows_in_what_it_is_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    back = lost("counted", 1, Kind.COMMIT_REGRESSED)
    (cell,) = cells(UNCLEAN_OFFSETS, verdict(UNCLEAN_OFFSETS, back, redelivered={"counted": 50}), monkeypatch).values()
    assert (cell.holds, cell.text) == (True, "50 duplicated")
    assert cell.row.endswith("__consumer_offsets: 3 replicas, min.insync.replicas=1, unclean elections, ELR on")
    (fewer,) = cells(UNCLEAN_OFFSETS, verdict(UNCLEAN_OFFSETS, back, redelivered={"counted": 49}), monkeypatch).values()
    assert not fewer.holds


def test_a_group_whose_coordinator_is_down_commits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for share in (0.8, 0.2):
        judged = verdict(scenario := COLUMNS["contract_offsets_wait"])
        silent = Availability(without_commits_s={"kill_leader": {"counted/0": share * OPEN_S}})
        judged = replace(judged, facts=VerdictFacts(availability=silent))
        (cell,) = cells(scenario, judged, monkeypatch).values()
        assert (cell.holds, Effect.UNAVAILABLE in cell.seen) == (share > 0.5, share > 0.5)


def test_what_nobody_tells_of_any_more_is_lost_however_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    excused = permitted(lost("counted", 3000), TIER_METADATA_LOST)
    found = [replace(excused, kind=kind) for kind in (Kind.LOST, Kind.SKIPPED_READ, Kind.TIER_GAP)]
    (cell,) = cells(UNTOLD, verdict(UNTOLD, *found), monkeypatch).values()
    assert (cell.holds, cell.text) == (True, "3,000 lost")
    (cell,) = cells(UNTOLD, verdict(UNTOLD, *found[:1], lost("counted", 1, Kind.SKIPPED_READ)), monkeypatch).values()
    assert not cell.holds


def test_objects_that_are_gone_break_no_promise_where_the_records_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = [permitted(lost(topic, 1000, Kind.TIER_OBJECT), TIER_OBJECTS_DELETED) for topic in ("far", "both")]
    records = permitted(lost("far", 1000), TIER_OBJECTS_DELETED)
    found = cells(DELETED, verdict(DELETED, *gone, records), monkeypatch)
    assert {topic: (cell.holds, cell.text) for topic, cell in found.items()} == {
        "far": (True, "1,000 lost"),
        "both": (True, "kept"),
    }
    found = cells(DELETED, verdict(DELETED, *gone, records, lost("both", 5, Kind.TIER_OBJECT)), monkeypatch)
    assert not found["both"].holds


def test_who_comes_back_too_late_skips_stops_or_misses_what_was_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    skipped = lost("latest", 100, Kind.SKIPPED_READ)
    missed = {"earliest": 200, "latest": 200}
    judged = with_facts(verdict(BEHIND, skipped), missed=missed, stopped={"none": 1}, deleted={"earliest": 500})
    reported = cells(BEHIND, judged, monkeypatch)
    assert {topic: cell.text for topic, cell in reported.items()} == {
        "earliest": "200 deleted as configured",
        "latest": "100 skipped, 200 deleted as configured",
        "none": "stopped with an error",
        "unlimited": "kept",
    }
    assert all(cell.holds for cell in reported.values())
    assert reported["none"].row == "auto.offset.reset=none, commits after it processes, read_committed"
    assert reported["unlimited"].row.endswith(", read_committed; retention.ms=-1")


def test_of_what_compaction_took_a_late_reader_misses_what_it_had_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = [permitted(lost(topic, 128), COMPACTION) for topic in ("behind", "bereaved")]
    judged = with_facts(verdict(CLEANED, *taken), missed={"behind": 64, "bereaved": 64})
    reported = cells(CLEANED, judged, monkeypatch)
    assert {topic: (cell.text, cell.holds) for topic, cell in reported.items()} == {
        "behind": ("64 deleted as configured", True),
        "spared": ("kept", True),
        "bereaved": ("64 deleted as configured", True),
    }
    fewer = with_facts(verdict(CLEANED, *taken), missed={"behind": 63, "bereaved": 64, "spared": 1})
    assert [t for t, cell in cells(CLEANED, fewer, monkeypatch).items() if not cell.holds] == ["behind", "spared"]


LOST_50 = (lost("zero", 50), lost("one", 50))


def test_what_was_promised_and_seen_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cells(DIES, verdict(DIES, *LOST_50), monkeypatch)
    assert {topic: (cell.text, cell.holds) for topic, cell in found.items()} == {
        "zero": ("50 lost", True),
        "one": ("50 lost", True),
        "all_one": ("kept", True),
        "all_two": ("kept", True),
    }


@pytest.mark.parametrize(
    ("findings", "topic", "text"),
    [
        ((lost("zero", 50),), "one", "kept (PASS; promised: 50 lost)"),
        ((*LOST_50, lost("all_two", 1)), "all_two", "1 lost (PASS; promised: kept)"),
        ((*LOST_50, lost("one", 2, Kind.DUPLICATED)), "one", "50 lost, 2 duplicated (PASS; promised: 50 lost)"),
    ],
)
def test_a_cell_with_less_or_more_than_promised_does_not_hold(
    findings: tuple[Finding, ...], topic: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = cells(DIES, verdict(DIES, *findings), monkeypatch)
    assert (found[topic].text, found[topic].holds) == (text, False)
    assert sum(not cell.holds for cell in found.values()) == 1


def test_what_is_gone_without_having_been_acknowledged_is_not_kept_either(monkeypatch: pytest.MonkeyPatch) -> None:
    vanished = lost("all_two", 3, Kind.VANISHED)
    found = cells(DIES, verdict(DIES, *LOST_50, lost("one", 2, Kind.TORN_TRANSACTION), vanished), monkeypatch)
    assert (found["all_two"].text, found["all_two"].holds) == (
        "unacknowledged records lost or torn (PASS; promised: kept)",
        False,
    )
    assert (found["one"].text, found["one"].holds) == ("50 lost", True)
    by_the_client = replace(vanished, excused_by=None, explained_by="the client")
    assert cells(DIES, verdict(DIES, *LOST_50, by_the_client), monkeypatch)["all_two"].holds


@pytest.mark.parametrize("status", [Status.FAIL, Status.INCONCLUSIVE, None])
def test_nothing_holds_in_a_run_that_did_not_pass(status: Status | None, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = None if status is None else verdict(DIES, *LOST_50, status=status)
    found = cells(DIES, judged, monkeypatch)
    assert not any(cell.holds for cell in found.values())
    assert (status.name if status is not None else "not played (promised: lost)") in found["zero"].text


def test_who_gives_no_ack_for_most_of_the_fault_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cells(DOWN, verdict(DOWN, three=OPEN_S + 1, pair=0.6 * OPEN_S, two=9.0), monkeypatch)
    assert {topic: (cell.text, cell.holds) for topic, cell in found.items()} == {
        "three": ("unavailable for 21.0 s", True),
        "pair": ("unavailable for 12.0 s", True),
        "two": ("kept, 9.0 s without acks", True),
        "one": ("kept", True),
    }
    short = cells(DOWN, verdict(DOWN, three=0.4 * OPEN_S, pair=OPEN_S, two=OPEN_S), monkeypatch)
    assert {topic for topic, cell in short.items() if not cell.holds} == {"three", "two"}


def test_of_what_may_happen_in_two_ways_the_worse_must(monkeypatch: pytest.MonkeyPatch) -> None:
    twice, again = lost("twice", 3, Kind.DUPLICATED), lost("in_order", 2, Kind.DUPLICATED)
    found = cells(ANSWERS, verdict(ANSWERS, twice, again), monkeypatch)
    assert all(cell.holds for cell in found.values())
    found = cells(ANSWERS, verdict(ANSWERS, twice, again, lost("in_order", 1, Kind.REORDERED)), monkeypatch)
    assert [topic for topic, cell in found.items() if not cell.holds] == ["in_order"]
    found = cells(ANSWERS, verdict(ANSWERS, lost("twice", 3, Kind.REORDERED), again), monkeypatch)
    assert [topic for topic, cell in found.items() if not cell.holds] == ["twice"]


def test_whose_outcome_nobody_told_counts_where_that_is_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    gives_up = COLUMNS["contract_gives_up"]
    judged = with_facts(verdict(gives_up), unknown_outcomes={"idempotent": 7, "never": 0, "patient": 5})
    found = cells(gives_up, judged, monkeypatch)
    assert (found["idempotent"].text, found["idempotent"].holds) == ("7 outcome unknown", True)
    judged = with_facts(judged, unknown_outcomes={"idempotent": 7})
    assert not cells(gives_up, judged, monkeypatch)["never"].holds
    dies = with_facts(verdict(DIES, *LOST_50), unknown_outcomes={"all_two": 50})
    assert cells(DIES, dies, monkeypatch)["all_two"].text == "kept"


def test_what_a_consumer_skips_or_gets_again_is_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    skipped = lost("before", 50, Kind.SKIPPED_READ)
    found = cells(READER, verdict(READER, skipped, redelivered={"after": 50}), monkeypatch)
    assert {cell.row: (cell.text, cell.holds) for cell in found.values()} == {
        "commits before it processes, read_committed": ("50 skipped", True),
        "commits after it processes, read_committed": ("50 duplicated", True),
    }
    found = cells(READER, verdict(READER, redelivered={"before": 50}), monkeypatch)
    assert not any(cell.holds for cell in found.values())


def test_what_is_deleted_and_what_of_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    deleted = COLUMNS["contract_records_deleted"]
    judged = with_facts(verdict(deleted), returned={"killed": 150}, deleted={"restarted": 150, "three": 150})
    found = cells(deleted, judged, monkeypatch)
    assert {topic: (cell.event.name, cell.text, cell.holds) for topic, cell in found.items()} == {
        "killed": ("deleted_and_killed", "150 deleted records back", True),
        "restarted": ("deleted_and_restarted", "150 deleted as configured", True),
        "three": ("deleted_and_killed", "150 deleted as configured", True),
    }
    judged = with_facts(verdict(deleted), returned={"three": 150}, deleted={"killed": 150, "restarted": 150})
    found = cells(deleted, judged, monkeypatch)
    assert {topic for topic, cell in found.items() if not cell.holds} == {"killed", "three"}


def test_where_steps_decide_the_number_it_has_to_come_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cells(DIES, verdict(DIES, lost("zero", 50), lost("one", 49)), monkeypatch)
    assert (found["one"].text, found["one"].holds) == ("49 lost (PASS; promised: 50 lost)", False)
    assert found["zero"].holds
    found = cells(
        READER, verdict(READER, lost("before", 51, Kind.SKIPPED_READ), redelivered={"after": 50}), monkeypatch
    )
    assert [topic for topic, cell in found.items() if not cell.holds] == ["before"]


def test_what_read_uncommitted_shows_is_counted_where_it_is_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    aborts = COLUMNS["contract_transaction_aborts"]
    found = cells(aborts, verdict(aborts, undecided={"shown": 50}), monkeypatch)
    assert {topic: (cell.text, cell.holds) for topic, cell in found.items()} == {
        "shown": ("50 aborted records shown", True),
        "hidden": ("kept", True),
    }
    assert found["shown"].row.endswith("read as read_uncommitted")
    found = cells(aborts, verdict(aborts, undecided={"hidden": 1}), monkeypatch)
    assert not any(cell.holds for cell in found.values())


def result(*statuses: Status) -> GateResult:
    results = tuple(ScenarioResult(name=f"s{n}", status=status) for n, status in enumerate(statuses))
    return GateResult(
        out=Path(),
        summary=GateSummary(required=tuple(r.name for r in results), results=results, release=NamedRelease()),
    )


def test_a_matrix_with_a_cell_that_does_not_hold_proved_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    good = list(cells(DIES, verdict(DIES, *LOST_50), monkeypatch).values())
    bad = list(cells(DIES, verdict(DIES), monkeypatch).values())
    assert contracts.exit_of(result(Status.PASS), good) is Exit.PASS
    assert contracts.exit_of(result(Status.PASS), [*good, *bad]) is Exit.INCONCLUSIVE
    not_run = list(cells(DIES, None, monkeypatch).values())
    assert contracts.exit_of(result(Status.PASS), [*good, *not_run]) is Exit.PASS
    assert contracts.exit_of(result(Status.PASS), not_run) is Exit.INCONCLUSIVE
    assert contracts.exit_of(result(Status.PASS), []) is Exit.INCONCLUSIVE
    assert contracts.exit_of(result(Status.FAIL), bad) is Exit.FAIL


def test_the_command_prints_the_matrix_and_ends_in_what_it_came_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = list(cells(DIES, verdict(DIES), monkeypatch).values())
    asked: list[Any] = []

    def play(options: Any, progress: Any) -> tuple[GateResult, list[Cell]]:
        asked.append(options)
        write_matrix(Path(), replace(PLAYED, cells=tuple(cell.document for cell in found)))
        return result(Status.PASS), found

    monkeypatch.setattr(contracts, "play", play)
    monkeypatch.setattr("harness.commands.output.Output.publish", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    assert cli.invoke(["contracts", "--only", "leader_dies"]) is Exit.INCONCLUSIVE
    assert asked[0].only == ("contract_leader_dies",)
    assert "kept (PASS; promised: 50 lost)" in capsys.readouterr().out
    assert Path("contracts.md").is_file()
    assert cli.invoke(["contracts", "--only", "nothing"]) is Exit.USAGE
    assert cli.invoke(["contracts", "--only", ","]) is Exit.USAGE
    assert len(asked) == 1


def test_what_is_written_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = cells(DIES, verdict(DIES, *LOST_50), monkeypatch)["one"]
    reported = plain(cell.document)
    assert (reported["event"], reported["promised"], reported["seen"]) == ("leader_dies", ["lost"], {"lost": 50})
    assert reported["holds"]
    assert (reported["text"], reported["evidence"]) == ("50 lost", "bundle")
    assert "lost" in page(replace(PLAYED, cells=(cell.document,)))
    assert ExactLoss(topic="one", partition=0, count=50) in DIES.allowed_anomalies.exact_losses
    assert reported["event"] in {event.name for event in EVENTS}


def test_a_matrix_says_on_what_it_was_played_and_for_how_long() -> None:
    done = result(Status.PASS)
    summary = replace(done.summary, release=NamedRelease(version="4.3.1"), seed=5, backends=("processes",), took_s=61.2)
    played = played_now(dataclasses.replace(done, summary=summary), [])
    (head,) = shown(played).heads
    assert head[0] == f"Kafka 4.3.1, played on {played.day}, on processes, in 1 min 1 s, by"
    (head,) = shown(PLAYED).heads
    assert head[0] == "Kafka 4.3.1, played on 2026-01-31 by"

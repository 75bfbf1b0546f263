"""Tests of the terminal summary and of junit.xml: headline, records, score, and no control characters."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import pytest
from junitparser import Error, Failure, JUnitXml
from msgspec.structs import replace

import reports
from harness.evidence.documents import plain, write_json
from harness.evidence.gate import GateSummary, ScenarioResult, Try, bundles_in, decided, read_gate, rejudged, write_gate
from harness.evidence.verdicts import read_verdict, verdict_of
from harness.model.bound import loss_bound
from harness.model.documents.manifest import NamedRelease
from harness.model.documents.verdict_facts import (
    AckTimes,
    Availability,
    LongestStall,
    ReadBack,
    ReadFromTier,
    ReadTimes,
    Totals,
    VerdictFacts,
)
from harness.model.doubt_names import DoubtOrigin
from harness.model.errors import BadEvidence
from harness.model.exits import Exit
from harness.model.finding import Finding, Kind
from harness.model.limits import Limits, limits_of
from harness.model.plugin import Plugin, activated
from harness.model.verdict import Doubt, Status, Verdict
from reports.overview import LINES_MAX, summary_lines
from reports.pytest_outcome import Inconclusive, assert_pass
from reports.summary import _share, durable_text, promised_lines, replay_command, replay_lacks, replay_with
from reports.terminal import clean
from suites.unit.evidence_examples import judged, lost, verdict

RELEASE = NamedRelease(version="4.3.1", commit="abc123", source="Maven Central", kafka="4.3.1")
OUT = Path("durability-out/x")


def gate_summary(*results: ScenarioResult, required: int | None = None) -> GateSummary:
    names = tuple(r.name for r in results) + tuple(f"left_out_{n}" for n in range((required or 0) - len(results)))
    return GateSummary(required=names, results=results, release=RELEASE, seed=7)


def ran(name: str, status: Status) -> ScenarioResult:
    return decided(name, [Try(bundle=name, status=status)])


def text_of(summary: GateSummary, *verdicts: Verdict) -> str:
    return "\n".join(text for text, _ in summary_lines(summary, {v.scenario: v for v in verdicts}, OUT))


def test_the_command_that_judges_again_names_the_plugins() -> None:
    """Without them, the verdict would have a doubt for each check that is missing."""
    with activated([Plugin(name="our own", folder=Path("/opt/our own"), files={})]):
        said = text_of(gate_summary(ran("a", Status.PASS)), read_back(24, 24))
    assert said.splitlines()[-1] == "judge again: durability verify durability-out/x --plugins '/opt/our own'"


def test_a_pass_fits_on_one_screen() -> None:
    said = text_of(gate_summary(ran("a", Status.PASS), ran("b", Status.PASS)), read_back(24, 24))
    assert said.strip().splitlines() == [
        "PASS of all 2 scenarios: Kafka 4.3.1 (commit abc123)",
        "  Every promised record was read back from every copy: once, in order and unchanged. "
        "24 copies of 8 partitions were read.",
        "",
        "0 of 6 fault episodes lost promised records; with 95 % confidence, at most 39 % of such episodes lose records",
        "  1,000 of 1,000 promised records (100 %) are durable",
        "not covered: power loss",
        "evidence:    durability-out/x",
        "judge again: durability verify durability-out/x",
    ]


def test_not_covered_is_only_what_no_scenario_covered() -> None:
    given = [verdict("a", Status.PASS), replace(verdict("b", Status.PASS), not_covered=("power loss", "full disks"))]
    said = text_of(gate_summary(ran("a", Status.PASS), ran("b", Status.PASS)), *given)
    assert "not covered: power loss" in said.splitlines()
    assert "full disks" not in said


def test_without_a_bundle_there_is_no_command_to_judge_again() -> None:
    said = text_of(gate_summary(ScenarioResult(name="a", status=None, error="no slot is free")))
    assert "no slot is free" in said
    assert "judge again" not in said


def test_a_fail_names_the_records_the_place_the_time_and_the_promise() -> None:
    said = text_of(
        gate_summary(ran("calm", Status.PASS), ran("leader_killed", Status.FAIL)),
        verdict("leader_killed", Status.FAIL, lost(50)),
    )
    assert said.strip().startswith("FAIL in 1 of 2 scenarios: Kafka 4.3.1")
    assert "The release broke a promise in: leader_killed." in said
    assert (
        "lost: 50 records of plain-0, offsets 100 to 149, sent 12:52:13.567 to 12:52:14.567 UTC during kill_leader"
    ) in said
    assert "acks=all with min.insync.replicas=2 keeps every acknowledged record" in said
    assert "1 of 6 fault episodes lost promised records" in said


def test_an_inconclusive_run_names_its_doubts_and_claims_nothing() -> None:
    said = text_of(gate_summary(ran("a", Status.INCONCLUSIVE)), verdict("a", Status.INCONCLUSIVE))
    assert "INCONCLUSIVE of scenario a" in said
    assert "proved too little in: a" in said
    assert "doubt: 12 acks after healing on plain-1, 500 wanted" in said
    assert "Every acknowledged record was read back" not in said


def test_a_subset_is_named_as_one() -> None:
    summary = replace(gate_summary(ran("a", Status.PASS), ran("b", Status.PASS), required=14), part=True)
    assert summary.subset == "PASS of 2 of 14 scenarios"
    said = text_of(summary)
    assert "PASS of 2 of 14 scenarios: Kafka" in said
    assert "left_out_0" in said


def test_a_harness_error_is_neither_a_pass_nor_a_fail() -> None:
    summary = gate_summary(ran("a", Status.PASS), ScenarioResult(name="b", status=None, error="no slot is free"))
    said = text_of(summary)
    assert summary.exit is Exit.HARNESS
    assert summary.status is Status.INCONCLUSIVE
    assert "b: harness error" in said
    assert "no slot is free" in said
    assert "Every acknowledged record was read back" not in said


@pytest.mark.parametrize("status", [Status.PASS, Status.FAIL])
def test_an_upgrade_names_the_earlier_release(status: Status) -> None:
    given = verdict("upgraded", status)
    began = replace(given, facts=VerdictFacts(starts_on=NamedRelease(version="3.9.1", commit="f745")))
    line = "  upgraded from Kafka 3.9.1 (commit f745)"
    assert line in text_of(gate_summary(ran("upgraded", status)), began).splitlines()
    assert line not in text_of(gate_summary(ran("upgraded", status)), given).splitlines()


def test_admin_operations_are_counted_where_there_are_any() -> None:
    lost_topic = Finding(
        kind=Kind.ADMIN_LOST,
        topic="ops-topic-1",
        reader="nodes 1, 2, 3",
        first_ns=1_795_265_533_567_153_459,
        last_ns=1_795_265_533_867_153_459,
        step="kill_controller",
        detail="operation 7 of ops made it 9; nodes 1, 2, 3 report that it does not exist",
    )
    given = verdict("a", Status.FAIL, lost_topic)
    assert given.score is not None
    score = replace(given.score, operations_acked=170, operations_standing=90, operations_held=89)
    said = text_of(gate_summary(ran("a", Status.FAIL)), replace(given, score=score))
    assert "admin_lost: 1 operation of ops-topic-1, seen by nodes 1, 2, 3, asked 12:52:13.567 to " in said
    assert "  89 of 90 last operations of admins on an entity were found in effect; 170 were acknowledged" in said
    assert "operations of admins" not in text_of(gate_summary(ran("a", Status.FAIL)), given)


def test_reads_from_the_remote_tier_are_counted_where_there_is_one() -> None:
    given = verdict("a", Status.PASS)
    far = replace(given, facts=VerdictFacts(read_from_tier=ReadFromTier(records=90_000, of=91_000)))
    said = text_of(gate_summary(ran("a", Status.PASS)), far)
    assert "  90,000 of 91,000 records read back from tiered topics came from the remote tier" in said
    assert "remote tier" not in text_of(gate_summary(ran("a", Status.PASS)), given)


def slowed(name: str, s: float | None, *also_open: str) -> Verdict:
    """A verdict with its longest time without acks, in s; None = never 0.5 s or longer."""
    given = verdict(name, Status.PASS)
    acks = {"before": AckTimes(acks=9, p50=4.2, p99=31.0), "during": AckTimes(acks=5, p50=7.0, p99=3904.4)}
    stall = LongestStall(place="plain/0", s=s, fault="kill_leader", also_open=also_open) if s is not None else None
    reads = {"during": ReadTimes(records=5, p50=120.0, p99=410.0)}
    reported = Availability(ack_ms=acks, read_ms=reads, longest_stall=stall, tier_caught_up_s={"outage": 2.04})
    return replace(given, facts=VerdictFacts(availability=reported))


def test_the_longest_stalls_are_named_and_latencies_only_for_a_single_scenario() -> None:
    said = text_of(gate_summary(ran("a", Status.PASS)), slowed("a", 4.14)).splitlines()
    assert "  acks took p50/p99: before 4/31 ms, during 7/3,904 ms" in said
    assert "  live reads took p50/p99: during 120/410 ms" in said
    assert "  the remote tier caught up after healing within: 2.0 s (outage)" in said
    assert "  longest without acks: 4.1 s in plain-0 (kill_leader)" in said
    shared = slowed("a", 4.14, "followers", "slow")
    said = text_of(gate_summary(ran("a", Status.PASS)), shared).splitlines()
    assert "  longest without acks: 4.1 s in plain-0 (kill_leader, while followers and slow were active)" in said
    many = [slowed(name, s) for name, s in (("a", 1.0), ("b", 4.0), ("c", None), ("d", 2.0), ("e", 3.0))]
    said = text_of(gate_summary(*(ran(v.scenario, Status.PASS) for v in many)), *many).splitlines()
    reported = ", ".join(
        f"{s} s in plain-0 of {name} (kill_leader)" for s, name in (("4.0", "b"), ("3.0", "e"), ("2.0", "d"))
    )
    assert f"  longest without acks: {reported}" in said
    assert not any("acks took" in line for line in said)


def faultless(name: str, status: Status, lost_without_fault: int, *findings: Finding) -> Verdict:
    given = verdict(name, status, *findings)
    assert given.score is not None
    none = replace(given.score, episodes=0, episodes_with_loss=0, loss_bound=1.0, lost_without_fault=lost_without_fault)
    return replace(given, score=none)


def test_runs_without_faults_say_nothing_about_fault_episodes() -> None:
    summary = gate_summary(ran("a", Status.FAIL), ran("b", Status.FAIL))
    said = text_of(summary, faultless("a", Status.FAIL, 50, lost()), faultless("b", Status.FAIL, 1, lost(1)))
    assert "fault episodes" not in said
    assert "51 promised records or operations were lost where no fault had an effect" in said.splitlines()
    said = text_of(gate_summary(ran("a", Status.PASS)), faultless("a", Status.PASS, 0))
    assert "no fault had an effect, so there is no figure about fault episodes" in said.splitlines()


def test_a_loss_without_a_fault_is_named_beside_the_episodes_of_other_runs() -> None:
    summary = gate_summary(ran("a", Status.FAIL), ran("b", Status.PASS))
    said = text_of(summary, faultless("a", Status.FAIL, 50, lost()), verdict("b", Status.PASS))
    assert (
        "0 of 6 fault episodes lost promised records; "
        "with 95 % confidence, at most 39 % of such episodes lose records; "
        "50 promised records or operations were lost where no fault had an effect"
    ) in said.splitlines()


def test_excused_losses_are_shown_under_a_pass() -> None:
    summary = gate_summary(ran("exact_loss", Status.PASS))
    excused = lost(50, excused_by="unclean election of epoch 5 with surviving log end 100")
    said = text_of(summary, verdict("exact_loss", Status.PASS, excused))
    assert "permitted: unclean election of epoch 5" in said
    assert "1,000 of 1,000 promised records (100 %) are durable" in said


def with_unknown(given: Verdict, unknown: int, episodes: int) -> Verdict:
    """The verdict, with records and fault episodes of which it is unknown whether they were lost."""
    assert given.score is not None
    left = given.score.episodes - episodes
    durable = given.score.durable_raw - unknown
    scored = replace(given.score, unknown=unknown, durable_raw=durable, episodes=left, episodes_unknown=episodes)
    return replace(given, score=scored, durable=given.durable - unknown)


def test_records_that_were_not_read_back_are_named_and_not_called_durable() -> None:
    """Neither are fault episodes called free of loss."""
    none = with_unknown(verdict("a", Status.INCONCLUSIVE), 1000, 6)
    said = text_of(gate_summary(ran("a", Status.INCONCLUSIVE)), none).splitlines()
    assert "it is unknown whether 6 fault episodes lost promised records" in said
    text = "it is unknown whether 1,000 promised records are lost: no read after healing returned them"
    assert f"  {text}" in said
    some = with_unknown(verdict("a", Status.INCONCLUSIVE), 300, 2)
    results = (ran("a", Status.INCONCLUSIVE), ran("b", Status.PASS))
    said = text_of(gate_summary(*results), some, verdict("b", Status.PASS)).splitlines()
    assert (
        "0 of 10 fault episodes lost promised records; "
        "with 95 % confidence, at most 26 % of such episodes lose records; "
        "it is unknown whether 2 other fault episodes lost promised records"
    ) in said
    assert (
        "  1,700 of 1,700 promised records (100 %) are durable; "
        "it is unknown whether 300 other promised records are lost: no read after healing returned them"
    ) in said
    assert durable_text(some).startswith("700 of 700 promised records durable; it is unknown whether 300 other")


def test_findings_of_one_place_and_step_are_one_incident() -> None:
    findings = [lost(10, first=100 * n) for n in range(9)]
    said = text_of(gate_summary(ran("a", Status.FAIL)), verdict("a", Status.FAIL, *findings))
    assert "  lost: 90 records of plain-0, offsets 0 to 809, sent 12:52:13.567 to " in said
    assert said.count("lost: ") == 1
    assert "(9 findings)" in said


def fifty() -> list[Finding]:
    """One in each of 50 partitions."""
    return [replace(lost(n + 1), partition=n) for n in range(50)]


def test_a_fail_with_fifty_incidents_has_at_most_25_lines_and_every_sort_of_text_in_it() -> None:
    doubted = [Doubt("floor_after", f"{n} acks after healing on plain-{n}, 500 wanted") for n in range(6)]
    given = replace(verdict("a", Status.FAIL, *fifty()), doubts=tuple(doubted), notes=("note",) * 9)
    tries = [Try(bundle="a", status=Status.FAIL), Try(bundle="a-again", status=Status.PASS)]
    summary = replace(gate_summary(decided("a", tries), required=40), not_run={f"left_out_{n}": "no" for n in range(9)})
    said = text_of(summary, given).splitlines()
    assert len(said) <= LINES_MAX - 1  # and the line about the review page
    assert sum("lost: " in line for line in said) >= 3
    assert said[next(n for n, line in enumerate(said) if "lost: " in line)].startswith("  lost: 50 records of plain-49")
    counted = next(int(line.split()[1]) for line in said if line.endswith("more incidents"))
    assert counted + sum("lost: " in line for line in said) == 50
    (doubt,) = [line for line in said if "doubt" in line]
    assert "0 acks after healing on plain-0" in doubt
    assert "and 5 more of this sort: floor_after" in doubt
    assert "play again:  durability run a --kafka 4.3.1 --seed 7" in said


def test_incidents_that_fit_are_all_shown_and_nothing_is_counted() -> None:
    said = text_of(gate_summary(ran("a", Status.FAIL)), verdict("a", Status.FAIL, *fifty()[:6]))
    assert said.count("lost: ") == 6
    assert "more incident" not in said


@pytest.mark.parametrize(
    ("kafka", "maven_repo", "named"),
    [
        ("4.3.1", None, "4.3.1"),
        ("4.3.1", "https://host/staging", "4.3.1 --maven-repo https://host/staging"),
        ("/opt/my kafka", None, "'/opt/my kafka'"),
        ("image:apache/kafka:4.3.1", None, "image:apache/kafka:4.3.1"),
        (None, None, None),
    ],
)
def test_a_scenario_is_played_again_on_the_release_that_it_was_played_on(
    kafka: str | None, maven_repo: str | None, named: str | None
) -> None:
    release = replace(RELEASE, kafka=kafka, maven_repo=maven_repo)
    summary = replace(gate_summary(ran("a", Status.FAIL)), release=release)
    wanted = "" if named is None else f"durability run a --kafka {named} --seed 7"
    assert replay_command(summary, verdict("a", Status.FAIL, lost())) == wanted
    control = replace(verdict("a", Status.FAIL, lost()), facts=VerdictFacts(negative_control="acks=1"))
    assert replay_command(summary, control) == ""


def test_a_scenario_is_played_again_with_the_same_number_of_records() -> None:
    summary = replace(gate_summary(ran("a", Status.FAIL)), records=20_000, backends=("processes",))
    given = verdict("a", Status.FAIL, lost())
    command = "durability run a --kafka 4.3.1 --seed 7 --records 20000 --backend processes"
    assert replay_command(summary, given) == command
    assert replay_command(summary, given, "VERSION") == command.replace("4.3.1", "VERSION")
    assert replay_lacks(summary) == ""
    assert "--records" in replay_with(summary)
    assert "does not say --records" in replay_lacks(replace(summary, records=None))


@pytest.mark.parametrize(
    ("limits", "options"),
    [
        (None, ""),
        (limits_of("768m", 0.5), " --memory 768m --cpus 0.5"),
        (limits_of("1000000001", None), " --memory 1000000001"),
        (Limits(cpus=2.0), " --cpus 2"),
    ],
)
def test_a_scenario_is_played_again_with_the_same_limits(limits: Limits | None, options: str, tmp_path: Path) -> None:
    write_gate(tmp_path, replace(gate_summary(ran("a", Status.FAIL)), limits=limits))
    summary = read_gate(tmp_path)
    command = f"durability run a --kafka 4.3.1 --seed 7{options}"
    assert replay_command(summary, verdict("a", Status.FAIL, lost())) == command


def test_a_scenario_is_played_again_with_the_same_files(tmp_path: Path) -> None:
    """The user's own scenario, and the user's remote storage."""
    summary = replace(
        gate_summary(ran("a", Status.FAIL)), scenario_files={"a": "/mine/a b.toml"}, tier_storage="/s.toml"
    )
    write_gate(tmp_path, summary)
    command = "durability run '/mine/a b.toml' --kafka 4.3.1 --seed 7 --tier-storage /s.toml"
    assert replay_command(read_gate(tmp_path), verdict("a", Status.FAIL, lost())) == command


@pytest.mark.parametrize(
    ("episodes", "said"), [(1, "1 episode is too few"), (4, "4 episodes are too few"), (5, "45 %")]
)
def test_few_episodes_bound_nothing(episodes: int, said: str) -> None:
    given = verdict("a", Status.PASS)
    assert given.score is not None
    few = replace(given, score=replace(given.score, episodes=episodes))
    (line,) = [
        text for text in text_of(gate_summary(ran("a", Status.PASS)), few).splitlines() if "episodes lost" in text
    ]
    assert said in line
    assert ("too few to say how likely a loss is" in line) is (episodes < 5)


def test_the_difference_between_acknowledged_and_promised_records_is_explained() -> None:
    given = verdict("a", Status.PASS, lost(50, excused_by="acks=1"))
    records = Totals(attempted=1400, acked=1300, promised=1000, refused=100, unknown=0)
    facts = VerdictFacts(records=records, deleted_by={"the deletion of their topic": 70, "retention.ms=1": 9})
    facts = replace(facts, deleted_records=9)
    (said,) = promised_lines([replace(given, promised=950, facts=facts)])
    assert said == (
        "1,300 records were acknowledged, and 941 of them are promised. Of the others, 230 were in transactions that "
        "did not commit, 70 were in topics that were deleted on purpose, 9 were deleted, as configured or requested, "
        "and the contract permits the loss of 50."
    )
    whole = Totals(attempted=1000, acked=1000, promised=1000, refused=0, unknown=0)
    assert promised_lines([replace(verdict("a", Status.PASS), facts=VerdictFacts(records=whole))]) == []


def test_the_losses_that_a_contract_permits_are_shown_beside_the_promised_records() -> None:
    given = replace(verdict("a", Status.PASS, lost(50, excused_by="acks=1")), promised=950, durable=950)
    said = text_of(gate_summary(ran("a", Status.PASS)), given)
    permitted = "with 50 whose loss the contract permits, 950 of 1,000 records (95 %, 1.3 nines)"
    assert f"  950 of 950 promised records (100 %) are durable; {permitted}" in said


@pytest.mark.parametrize(
    "text", ["\x1b[2Jgone", "bell\x07", "two\nlines", "tab\there", "right\u202eleft"], ids=lambda text: repr(text)
)
def test_foreign_text_cannot_control_the_terminal(text: str) -> None:
    assert clean(text).isprintable()


def test_output_in_ci_has_no_control_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CI", "true")
    judged(tmp_path / "a", verdict("a", Status.FAIL, Finding(kind=Kind.LOST, topic="t\x1b[31m", partition=0)))
    write_gate(tmp_path, gate_summary(ran("a", Status.FAIL)))
    reports.publish(tmp_path)
    reports.table(("one", "two"), [("a", "b"), ("longer", "c")])
    with reports.progress() as progress:
        progress("working")
        progress("working")
        progress.line("done")
    said = capsys.readouterr()
    assert all(c.isprintable() or c == "\n" for c in said.out + said.err)
    assert "longer  c" in said.out
    assert said.err.count("working") == 1


@pytest.mark.parametrize(
    ("part", "headline", "skipped"),
    [
        (True, "PASS of 1 of 2 scenarios: ", True),
        (False, "INCONCLUSIVE: 1 of 2 scenarios PASS, 1 without a verdict: ", False),
    ],
)
def test_a_scenario_that_could_not_be_played_is_named_with_the_reason(
    tmp_path: Path, part: bool, headline: str, skipped: bool
) -> None:
    why = "scenario left_out_0: step full: disk_full needs disk.full"
    summary = replace(gate_summary(ran("a", Status.PASS), required=2), not_run={"left_out_0": why}, part=part)
    said = text_of(summary, verdict("a", Status.PASS))
    assert said.strip().startswith(headline)
    assert f"  not run: {why}" in said.splitlines()
    assert ("--without NAME leaves one out" in said) is not part
    judged(tmp_path / "a", verdict("a", Status.PASS))
    write_gate(tmp_path, summary)
    assert read_gate(tmp_path) == summary
    reports.write_junit(summary, tmp_path)
    (suite,) = JUnitXml.fromfile(str(tmp_path / "junit.xml"))
    assert [(case.name, case.is_skipped) for case in suite] == [("a", False), ("left_out_0", skipped)]


def test_a_scenario_that_is_left_out_or_not_applicable_is_part_of_the_headline(tmp_path: Path) -> None:
    summary = replace(
        gate_summary(ran("a", Status.PASS), required=3), left_out=("left_out_0",), not_applicable={"left_out_1": "old"}
    )
    said = text_of(summary, verdict("a", Status.PASS))
    assert said.strip().startswith(
        "PASS of 1 of 3 scenarios, without left_out_0 (left out with --without); "
        "left_out_1 (not applicable to this release): Kafka"
    )
    assert "  not applicable: old" in said.splitlines()
    assert "without a verdict" not in said
    write_gate(tmp_path, summary)
    assert read_gate(tmp_path) == summary


def test_junit_has_one_case_for_each_scenario(tmp_path: Path) -> None:
    judged(tmp_path / "bad", verdict("bad", Status.FAIL, lost(50)))
    judged(tmp_path / "thin", verdict("thin", Status.INCONCLUSIVE))
    judged(tmp_path / "good", verdict("good", Status.PASS))
    broke = ScenarioResult(name="broke", status=None, error="no slot is free \x1b")
    summary = gate_summary(
        ran("good", Status.PASS), ran("bad", Status.FAIL), ran("thin", Status.INCONCLUSIVE), broke, required=5
    )
    reports.write_junit(summary, tmp_path)
    document = JUnitXml.fromfile(str(tmp_path / "junit.xml"))
    cases = {case.name: case.result for suite in document for case in suite}
    assert cases.keys() == {"good", "bad", "thin", "broke", "left_out_0"}
    assert cases["good"] == []
    assert isinstance(cases["bad"][0], Failure)
    assert cases["bad"][0].message == "50 lost"
    assert "offsets 100 to 149" in cases["bad"][0].text
    assert isinstance(cases["thin"][0], Error)
    assert (cases["thin"][0].type, cases["broke"][0].type) == ("INCONCLUSIVE", "HarnessFailure")
    assert cases["left_out_0"][0].message == "not reached: the gate ended before it"
    assert (document.tests, document.failures, document.errors) == (5, 1, 3)


def write_times(bundle: Path, started_ns: int | None, ended_ns: int | None) -> None:
    contract: dict[str, object] = {"topics": {}, "exact_losses": [], "producers": {}}
    run = {"finished": True, "contract": contract, "started_ns": started_ns, "ended_ns": ended_ns}
    write_json(bundle / "run.json", run)


@pytest.mark.parametrize(("took_s", "whole"), [(61.5, 61.5), (None, 34.25)])
def test_junit_says_how_long_each_scenario_ran(tmp_path: Path, took_s: float | None, whole: float) -> None:
    """Both tries of `a` count; of `b` the end is not known, and `c` has no run.json."""
    start = 1_795_265_533_000_000_000
    for name, ended_ns in (("a", start + 4_250_000_000), ("a-again", start + 90_000_000_000), ("b", None)):
        judged(tmp_path / name, verdict(name, Status.PASS))
        write_times(tmp_path / name, start + 60_000_000_000 * (name == "a-again"), ended_ns)
    judged(tmp_path / "c", verdict("c", Status.PASS))
    first, second = (Try(bundle=name, status=Status.PASS) for name in ("a", "a-again"))
    results = (decided("a", [first, second]), ran("b", Status.PASS), ran("c", Status.PASS))
    reports.write_junit(replace(gate_summary(*results), took_s=took_s), tmp_path)
    document = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert [case.get("time") for case in document.iter("testcase")] == ["34.25", None, None]
    (suite,) = document.iter("testsuite")
    assert suite.get("timestamp") == "2026-11-21T12:52:13"
    assert set(document.keys()) == {"name", "tests", "failures", "errors", "time"}
    for one in (document, suite):
        assert float(one.get("time") or 0) == whole
        assert re.fullmatch(r"\d+(\.\d+)?", one.get("time") or "")  # readers know no exponents


def test_junit_of_one_bundle_has_its_time(tmp_path: Path) -> None:
    judged(tmp_path / "a", verdict("a", Status.PASS))
    write_times(tmp_path / "a", 10**9, 3 * 10**9)
    reports.write_junit(gate_summary(ran("a", Status.PASS)), tmp_path / "a")
    (case,) = ElementTree.parse(tmp_path / "a" / "junit.xml").getroot().iter("testcase")
    assert case.get("time") == "2.0"


def test_a_verdict_is_the_outcome_of_a_test() -> None:
    assert_pass(verdict("a", Status.PASS))
    with pytest.raises(AssertionError, match="offsets 100 to 149"):
        assert_pass(verdict("a", Status.FAIL, lost()))
    with pytest.raises(Inconclusive, match="500 wanted"):
        assert_pass(verdict("a", Status.INCONCLUSIVE))
    assert not issubclass(Inconclusive, AssertionError)


def test_verdicts_and_gate_summaries_are_read_back_equal(tmp_path: Path) -> None:
    given = verdict("a", Status.FAIL, lost(), lost(1, excused_by="x"))
    assert verdict_of(plain(given)) == given
    assert read_verdict(judged(tmp_path / "a", given)) == given
    summary = gate_summary(ran("a", Status.FAIL), ScenarioResult(name="b", status=None, error="e"), required=3)
    write_gate(tmp_path, summary)
    assert read_gate(tmp_path) == summary


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"verdict": "GREAT"}', '{"verdict": "PASS", "findings": [{}]}'])
def test_a_foreign_verdict_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "verdict.json").write_text(content)
    with pytest.raises(BadEvidence):
        read_verdict(tmp_path)
    (tmp_path / "gate.json").write_text(content)
    with pytest.raises(BadEvidence):
        read_gate(tmp_path)


def tried(first: Status, origin: DoubtOrigin) -> ScenarioResult:
    tries = [Try(bundle="a", status=first, origins=(origin,)), Try(bundle="a-again", status=Status.PASS)]
    return decided("a", tries)


@pytest.mark.parametrize(
    ("origin", "status", "said"),
    [
        (DoubtOrigin.SCENARIO, Status.PASS, ["INCONCLUSIVE, a", "PASS, a-again; it decides"]),
        (
            DoubtOrigin.RELEASE,
            Status.INCONCLUSIVE,
            ["INCONCLUSIVE, a; it decides, as its doubts may be about the release", "PASS, a-again"],
        ),
    ],
)
def test_every_try_is_shown_in_order_with_its_own_verdict(
    tmp_path: Path, origin: DoubtOrigin, status: Status, said: list[str]
) -> None:
    result = tried(Status.INCONCLUSIVE, origin)
    summary = gate_summary(result)
    for name, of in (("a", Status.INCONCLUSIVE), ("a-again", Status.PASS)):
        judged(tmp_path / name, verdict("a", of))
    wanted = [f"  try {number}: {text}" for number, text in enumerate(said, 1)]
    shown = text_of(summary, verdict("a", status))
    assert [line for line in shown.splitlines() if "try " in line] == wanted
    reports.write_junit(summary, tmp_path)
    (case,) = ElementTree.parse(tmp_path / "junit.xml").getroot().iter("testcase")
    assert (case.findtext("system-out") or "").splitlines()[1:] == wanted
    assert (case.find("error") is None) == (status is Status.PASS)
    write_gate(tmp_path, summary)
    assert read_gate(tmp_path) == summary


def test_bundles_of_a_killed_gate_are_found(tmp_path: Path) -> None:
    summary = gate_summary(required=3)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "scenario.json").write_text("{}")
    assert [path.name for path in bundles_in(tmp_path)] == ["one", "two"]
    after = rejudged(summary, {"one": verdict("s1", Status.PASS), "two": verdict("s2", Status.FAIL)})
    assert [(r.name, r.status) for r in after.results] == [("s1", Status.PASS), ("s2", Status.FAIL)]
    assert after.missing == summary.required


@pytest.mark.parametrize(
    ("losses", "episodes", "bound"),
    [
        (0, 12, 0.2209),
        (0, 1, 0.95),
        (1, 12, 0.3387),
        (12, 12, 1.0),
        (0, 0, 1.0),
        (0, 1_001, 0.0030),
        (1_000, 2_000, 0.5186),
        (1_999, 2_000, 1.0),
    ],
)
def test_the_bound_is_exact(losses: int, episodes: int, bound: float) -> None:
    """0 of n by hand: 1 - 0.05 ** (1 / n). 1 of 12: Clopper-Pearson tables, one-sided."""
    assert loss_bound(losses, episodes) == pytest.approx(bound, abs=5e-5)


def test_the_readme_shows_a_real_fail() -> None:
    """The example is the verdict of a real run. If the summary changes, the README has to follow."""
    example = Path(__file__).with_name("fail_example")
    reported = example.joinpath("summary.txt").read_text(encoding="utf-8").strip()
    assert text_of(read_gate(example), read_verdict(example)).strip() == reported
    assert f"\n{reported}\n" in Path(reports.__file__).parents[1].joinpath("README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("part", "whole", "said"),
    [
        (0, 0, ""),
        (0, 10, " (0 %)"),
        (10, 10, " (100 %)"),
        (1, 10, " (10 %, 0.0 nines)"),
        (999_950, 1_000_000, " (99.995 %, 4.3 nines)"),
        (10**10 - 1, 10**10, " (99.99999999 %, 10.0 nines)"),
    ],
)
def test_a_share_is_never_rounded_up_to_100_percent(part: int, whole: int, said: str) -> None:
    assert _share(part, whole, "records") == f"{part:,} of {whole:,} records{said}"


IN_A_TERMINAL = """
import reports, time
with reports.progress() as progress:
    progress.line("Kafka 4.3.1 from here")
    progress("killing the leader")
    time.sleep(0.3)
    progress.line("done")
reports.table(("one", "two"), [("a", "b [bold]not markup[/bold]")])
"""


def in_a_terminal(script: str, **variables: str) -> str:
    """What a script writes to a pseudo-terminal: rich behaves differently on a pipe."""
    environment = {k: v for k, v in os.environ.items() if k not in {"CI", "NO_COLOR"}} | {"TERM": "xterm-256color"}
    master, terminal = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=Path(__file__).parents[3],
        env=environment | variables,
    )
    os.close(terminal)
    seen = b""
    with child, suppress(OSError):  # EIO: the other end is closed
        while read := os.read(master, 4096):
            seen += read
    os.close(master)
    assert child.returncode == 0, seen
    return seen.decode()


def test_a_terminal_gets_a_spinner_and_keeps_the_lines() -> None:
    said = in_a_terminal(IN_A_TERMINAL)
    assert "\x1b[" in said
    assert "killing the leader" in said
    assert said.index("Kafka 4.3.1 from here") < said.index("done")
    assert "[bold]not markup[/bold]" in said


IN_COLOR = """
from reports.terminal import print_lines
print_lines([("FAIL of scenario a", "bold red")])
"""
COLORS = re.compile("\x1b" + r"\[[0-9;]*3[0-7]m")


def test_no_color_leaves_the_words_without_colors() -> None:
    assert COLORS.search(in_a_terminal(IN_COLOR))
    said = in_a_terminal(IN_COLOR, NO_COLOR="1")
    assert "FAIL of scenario a" in said
    assert not COLORS.search(said)


def read_back(copies_read: int, copies: int | None, **deleted: int) -> Verdict:
    return with_deleted(deleted, ReadBack(partitions=8, copies_read=copies_read, copies=copies))


def with_deleted(by: Mapping[str, int], read: ReadBack | None = None) -> Verdict:
    """Of 1,000 promised records these were deleted."""
    records = Totals(attempted=1000, acked=1000, promised=1000, refused=0, unknown=0)
    below = sum(count for cause, count in by.items() if cause not in ("compaction", "the deletion of their topic"))
    facts = VerdictFacts(read_back=read, deleted_by=dict(by), deleted_records=below, records=records)
    return replace(verdict("a", Status.PASS), facts=facts)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            read_back(24, 24),
            "Every promised record was read back from every copy: once, in order and unchanged. "
            "24 copies of 8 partitions were read.",
        ),
        (
            read_back(8, 24),
            "Every promised record was read back: once, in order and unchanged. "
            "8 of 24 copies were read; nothing is known about the others.",
        ),
        (
            read_back(8, None),
            "Every promised record was read back: once, in order and unchanged. "
            "8 copies were read; no broker reported how many there are.",
        ),
        (verdict("a", Status.PASS), "Every promised record was read back: once, in order and unchanged."),
    ],
)
def test_a_pass_says_how_many_copies_were_read(given: Verdict, said: str) -> None:
    assert f"  {said}" in text_of(gate_summary(ran("a", Status.PASS)), given).splitlines()


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (
            {"compact,delete with retention.ms=1000": 21},
            "21 of 1,000 deleted, as compact,delete with retention.ms=1000 permits.",
        ),
        (
            {"compaction": 200, "DeleteRecords": 40, "retention.ms=1000": 3},
            "243 of 1,000 deleted: 40 by DeleteRecords, 200 by compaction, 3 as retention.ms=1000 permits.",
        ),
        # These are not promised any more, so they are not among the 1,000.
        ({"the deletion of their topic": 500}, "500 of 1,500 deleted, with their topic."),
    ],
)
def test_a_verdict_says_how_many_records_were_deleted_by_what(by: Mapping[str, int], said: str) -> None:
    given = with_deleted(by)
    lines = text_of(gate_summary(ran("a", Status.PASS)), given).splitlines()
    assert f"  {said}" in lines
    assert "  Every promised record that was not deleted was read back: once, in order and unchanged." in lines
    # Else the share of records that are there would look like a loss.
    assert f"  {said}" in text_of(gate_summary(ran("a", Status.FAIL)), replace(given, status=Status.FAIL)).splitlines()


def test_without_deletions_nothing_is_said_of_them() -> None:
    assert "deleted" not in text_of(gate_summary(ran("a", Status.PASS)), read_back(24, 24))


def test_deleted_records_are_not_durable() -> None:
    said = text_of(gate_summary(ran("a", Status.PASS)), with_deleted({"retention.ms=1000": 21}))
    assert "  979 of 979 promised records (100 %) are durable" in said.splitlines()

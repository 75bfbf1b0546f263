"""The story of a gate, with stand-ins for the release, the brokers and the judge: what it plays, says and leaves."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from harness import clusters, scenarios
from harness.clusters import choosing
from harness.commands import cli, prepare, tries, verify
from harness.commands.gate import gate
from harness.commands.options import GateOptions, GateResult
from harness.evidence import Bundle
from harness.evidence.gate import GateSummary, ScenarioResult, read_gate
from harness.evidence.layout import RELEASE_JARS
from harness.evidence.seal import seal_directory
from harness.kafka.release import tier_needs
from harness.kafka.release.release import Release
from harness.model.documents.manifest import NamedRelease
from harness.model.errors import BadInput, HarnessFailure
from harness.model.exits import Exit
from harness.model.known_findings import KnownFile, KnownFinding
from harness.model.verdict import Status, Verdict
from harness.run import cluster_pool
from harness.run.scenario_run import Driven, Task
from suites.unit.evidence_examples import judged, lost, verdict, write_example

FindSpec = Callable[[str, str | None], ModuleSpec | None]
Drive = Callable[[Task, Any, Any], Driven]
GATE = tuple(s.name for s in scenarios.gate())


class Lines(list[str]):
    def __call__(self, text: str) -> None: ...

    def line(self, text: str) -> None:
        self.append(text)


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A release without jars, clusters without nodes, runs that leave FORMAT.md's example, a judge that passes.

    These tests run without PySpark, so its presence and its version are stand-ins, too.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", None)
    of_release(monkeypatch, "4.3.1")
    monkeypatch.setattr(clusters, "choose", lambda wanted, *_, **__: "processes")
    monkeypatch.setattr(verify, "spark_java_home", lambda cache: cache)
    monkeypatch.setattr("importlib.util.find_spec", finds_pyspark(importlib.util.find_spec))
    monkeypatch.setattr(sys.modules[gate.__module__], "version", "of {}".format)
    for name in ("equip_clients", "equip_streams"):
        monkeypatch.setattr(prepare, name, lambda release, lacking, **_: (release, lacking))
    for need in tier_needs.NEEDS:
        monkeypatch.setitem(tier_needs.NEEDS, need, lambda release, **_: release)
    monkeypatch.setattr(clusters, "make", lambda release, shape, **_: FakeCluster(shape))
    monkeypatch.setattr(cluster_pool, "clear", lambda cluster, scenario: None)
    monkeypatch.setattr(tries, "drive", drive)
    monkeypatch.setattr(verify, "judge_bundles", judging({}))


def finds_pyspark(find_spec: FindSpec) -> FindSpec:
    def find(name: str, package: str | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, None) if name == "pyspark" else find_spec(name, package)

    return find


class FakeCluster:
    def __init__(self, shape: Any) -> None:
        self.shape = shape

    def stop(self) -> None: ...

    def close(self) -> None: ...


def of_release(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    release = Release(version, "c", "here", ())
    monkeypatch.setattr(clusters, "find_release", lambda spec, **_: release)
    monkeypatch.setattr(clusters, "find_start", lambda shape, tested, **_: release)


def drive(task: Task, cluster: Any, say: Any) -> Driven:
    seal_directory(write_example(task.out))
    return Driven(bundle=task.out, healthy=True, doubts=())


def judging(broken: dict[str, Exception | Status]) -> Callable[..., list[Verdict]]:
    """A judge that passes all but these: it raises, or has another verdict."""

    def judge(bundles: list[Bundle], master: str | None, progress: Any) -> list[Verdict]:
        verdicts = []
        for bundle in bundles:
            outcome = broken.get(bundle.path.name, Status.PASS)
            if isinstance(outcome, Exception):
                raise outcome
            verdicts.append(verdict(bundle.path.name, outcome, *([lost()] if outcome is Status.FAIL else [])))
            judged(bundle.path, verdicts[-1])
        return verdicts

    return judge


def breaks_on(broken: dict[str, Exception]) -> Drive:
    def broken_drive(task: Task, cluster: Any, say: Any) -> Driven:
        if task.scenario.name in broken:
            raise broken[task.scenario.name]
        return drive(task, cluster, say)

    return broken_drive


def run(
    said: Lines | None = None, *, out: str = "out", fail_fast: bool = False, known: KnownFile | None = None
) -> GateResult:
    options = GateOptions(seed=1, out=Path(out), leave_out=True, fail_fast=fail_fast, known=known)
    return gate(options, Lines() if said is None else said)


def test_a_gate_records_the_digest_of_the_jars_and_their_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jar").write_bytes(b"one")
    release = Release("4.3.1", "c", "here", (tmp_path / "a.jar",))
    monkeypatch.setattr(clusters, "find_release", lambda spec, **_: release)
    monkeypatch.setattr(clusters, "find_start", lambda shape, tested, **_: release)
    result = run(out=str(tmp_path / "out"))
    listing = (tmp_path / "out" / RELEASE_JARS).read_bytes()
    assert listing == f"{hashlib.sha512(b'one').hexdigest()}  a.jar\n".encode()
    build = read_gate(tmp_path / "out").release.build
    assert build == result.summary.release.build
    assert build is not None
    assert (build.of, build.digest, build.jars) == ("jars", f"sha512:{hashlib.sha512(listing).hexdigest()}", 1)


def test_a_whole_gate_that_passes_is_a_pass_of_all() -> None:
    said = Lines()
    result = run(said)
    assert (result.summary.status, result.exit, result.summary.subset) == (Status.PASS, Exit.PASS, None)
    assert tuple(r.name for r in result.summary.results) == GATE
    assert read_gate(Path("out")) == result.summary
    assert said[:3] == ["Kafka 4.3.1 (commit c) from here", "prepared Kafka 4.3.1: 0 jars, 0 s", "seed 1"]
    assert any(line.startswith("prepared for the scenarios: ") and "local" in line for line in said)


def test_one_scenario_that_breaks_the_harness_leaves_the_verdicts_of_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tries, "drive", breaks_on({GATE[1]: ZeroDivisionError("division by zero")}))
    result = run()
    by_name = {r.name: r for r in result.summary.results}
    assert [name for name in GATE if by_name[name].status is Status.PASS] == [n for n in GATE if n != GATE[1]]
    broken = by_name[GATE[1]]
    assert (broken.status, result.exit) == (None, Exit.HARNESS)
    assert f"ZeroDivisionError: division by zero; traceback: out/{GATE[1]}-traceback.txt" in (broken.error or "")
    assert "Traceback" in Path(f"out/{GATE[1]}-traceback.txt").read_text()


def test_a_fail_is_the_exit_even_where_another_scenario_broke_the_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tries, "drive", breaks_on({GATE[1]: ZeroDivisionError()}))
    monkeypatch.setattr(verify, "judge_bundles", judging({GATE[2]: Status.FAIL}))
    assert run().exit is Exit.FAIL


@pytest.mark.parametrize("fail_fast", [False, True])
def test_one_bundle_that_breaks_the_judge_leaves_the_verdicts_of_all_others(
    monkeypatch: pytest.MonkeyPatch, fail_fast: bool
) -> None:
    last = GATE[-1]
    monkeypatch.setattr(verify, "judge_bundles", judging({last: KeyError("column")}))
    result = run(fail_fast=fail_fast)
    assert {r.status for r in result.summary.results if r.name != last} == {Status.PASS}
    broken = next(r for r in result.summary.results if r.name == last)
    assert (broken.status, broken.bundle, result.exit) == (None, last, Exit.HARNESS)
    assert f"traceback: out/{last}-traceback.txt" in (broken.error or "")


def test_a_bundle_that_cannot_be_opened_is_a_harness_error_of_its_own_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(task: Task, cluster: Any, say: Any) -> Driven:
        driven = drive(task, cluster, say)
        if task.scenario.name == GATE[0]:
            (task.out / "steps.json").write_text("[")
        return driven

    monkeypatch.setattr(tries, "drive", damaged)
    result = run()
    assert [r.name for r in result.summary.results if r.status is None] == [GATE[0]]
    assert "steps.json" in (result.summary.results[0].error or "")
    assert result.exit is Exit.HARNESS


def test_fail_fast_stops_after_the_first_scenario_that_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "judge_bundles", judging({GATE[1]: Status.INCONCLUSIVE}))
    result = run(fail_fast=True)
    assert tuple(r.name for r in result.summary.results) == GATE[:2]
    assert (result.exit, result.summary.lacking) == (Exit.INCONCLUSIVE, GATE[2:])


def test_fail_fast_goes_on_after_known_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "judge_bundles", judging({GATE[1]: Status.FAIL, GATE[3]: Status.INCONCLUSIVE}))
    entry = KnownFinding(
        scenario=GATE[1],
        kind="lost",
        first_release="4.3.0",
        last_release="4.3.1",
        records=50,
        owner="a team",
        reason="It is open.",
        link="https://example.org/1",
        failed=1,
        tries=1,
        expires="2026-12-01",
    )
    known = KnownFile(file="known.toml", sha256="", entries=(entry,), day=date(2026, 12, 1))
    result = run(fail_fast=True, known=known)
    assert tuple(r.name for r in result.summary.results) == GATE[:4]
    assert (result.summary.word, result.exit) == ("INCONCLUSIVE", Exit.INCONCLUSIVE)
    assert read_gate(Path("out")).known == result.summary.known
    expired = run(out="other", fail_fast=True, known=replace(known, day=date(2026, 12, 2)))
    assert tuple(r.name for r in expired.summary.results) == GATE[:2]
    assert expired.exit is Exit.FAIL


def without_jars(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Jars of the remote tier cannot be had; returns the scenarios of the gate that need them."""

    def none(release: Release, **_: Any) -> Release:
        raise BadInput("the jars of the remote tier cannot be had")

    monkeypatch.setitem(tier_needs.NEEDS, "local", none)
    return {s.name for s in scenarios.gate() if s.shape.tier == "local"}


def test_a_whole_gate_that_lacks_a_verdict_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    tiered = without_jars(monkeypatch)
    said = Lines()
    result = run(said)
    assert result.summary.not_run.keys() == set(result.summary.lacking) == tiered
    assert {r.status for r in result.summary.results} == {Status.PASS}
    assert (result.summary.status, result.exit) == (Status.INCONCLUSIVE, Exit.INCONCLUSIVE)
    assert sum(line.startswith("not run: scenario tiered") for line in said) == len(tiered)


def test_a_scenario_that_is_left_out_on_purpose_is_named_and_does_not_hinder_a_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiered = [name for name in GATE if name in without_jars(monkeypatch)]
    assert cli.invoke(["gate", "--without", ",".join(tiered), "--out", "out"]) is Exit.PASS
    count = f"PASS of {len(GATE) - len(tiered)} of {len(GATE)} scenarios"
    assert f"{count}, without {', '.join(tiered)} (left out with --without): Kafka 4.3.1" in capsys.readouterr().out


def test_a_scenario_that_needs_a_newer_kafka_is_named_and_does_not_hinder_a_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    of_release(monkeypatch, "3.7.2")
    assert cli.invoke(["gate", "--out", "out"]) is Exit.PASS
    summary = read_gate(Path("out"))
    assert "tiered_outage" in summary.not_applicable
    assert (summary.lacking, summary.not_run) == ((), {})
    shown = capsys.readouterr().out
    assert f"PASS of {len(summary.ran)} of {len(GATE)} scenarios, without " in shown
    assert "(not applicable to this release): Kafka 3.7.2" in shown


def test_a_part_of_the_gate_follows_what_ran(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["gate", "--only", f"{GATE[0]},{GATE[1]}", "--out", "out"]) is Exit.PASS
    assert f"PASS of 2 of {len(GATE)} scenarios: Kafka" in capsys.readouterr().out
    assert read_gate(Path("out")).part


def test_a_gate_that_died_is_no_whole_one_when_its_bundles_are_judged_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tries, "drive", breaks_on({GATE[2]: KeyboardInterrupt()}))  # type: ignore[dict-item]
    assert cli.invoke(["gate", "--out", "out"]) is Exit.INTERRUPTED
    assert cli.invoke(["verify", "out"]) is Exit.INCONCLUSIVE
    assert (
        f"INCONCLUSIVE: 2 of {len(GATE)} scenarios PASS, {len(GATE) - 2} without a verdict" in capsys.readouterr().out
    )


@pytest.mark.parametrize("error", [HarnessFailure("Spark does not start"), BadInput("no Spark")])
def test_a_judge_that_does_not_start_leaves_the_evidence_to_be_judged_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(verify, "judge_bundles", judging({GATE[0]: error}))
    with pytest.raises(type(error)):
        run()
    monkeypatch.setattr(verify, "judge_bundles", judging({}))
    assert cli.invoke(["verify", "out"]) is Exit.PASS


@pytest.mark.parametrize(
    ("arguments", "version", "said"),
    [
        (["gate", "--only", "tiered_outage"], "3.7.2", "give --kafka a newer release"),
        (["run", "upgraded"], "3.9.1", "Kafka 3.9.1 is no upgrade of 3.9.1"),
        (["run", "--tag", "tier"], "3.5.2", "Kafka 3.5.2"),
        (["contracts", "--only", "contract_producer_expires"], "3.3.2", "Kafka 3.3.2"),
        (
            ["run", "regression", "--issue", "KAFKA-1"],
            "4.3.1",
            "no scenario compares releases with and without the bug",
        ),
    ],
)
def test_a_command_that_is_refused_late_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    version: str,
    said: str,
) -> None:
    monkeypatch.setattr(choosing, "missing", dict)  # whatever this machine lacks
    monkeypatch.delenv("CI")
    of_release(monkeypatch, version)
    assert cli.invoke(arguments) is Exit.USAGE
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_without_spark_a_gate_is_refused_before_a_broker_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    assert cli.invoke(["gate"]) is Exit.USAGE
    assert "judging needs pyspark: pip install 'kafka-durability[spark]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_older_release_that_cannot_be_had_costs_only_the_scenarios_that_begin_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def offline(shape: Any, tested: Release, **_: Any) -> Release:
        raise BadInput("Maven Central cannot be reached")

    monkeypatch.setattr(clusters, "find_start", offline)
    options = GateOptions(seed=1)
    wanted = [scenarios.load("calm"), scenarios.load("upgraded")]
    prepared = prepare.prepare(Release("4.3.1", "c", "here", ()), wanted, options, Lines())
    assert prepared.lacking == {wanted[1].shape.starts_on: "Maven Central cannot be reached"}
    assert prepared.releases.earlier == {}


def test_a_place_for_evidence_that_has_gone_meanwhile_is_bad_input() -> None:
    Path("file").write_text("in the way")
    with pytest.raises(BadInput, match=r"below cannot be made \(Not a directory\): give --out a folder"):
        run(out="file/below")


@pytest.mark.parametrize(
    ("summary", "subset"),
    [
        ({}, "INCONCLUSIVE of 1 of 3 scenarios"),
        ({"part": True}, "PASS of 1 of 3 scenarios"),
        ({"left_out": ("two", "three")}, "PASS of 1 of 3 scenarios, without two, three (left out with --without)"),
        (
            {"left_out": ("two",), "not_applicable": {"three": "it is too old"}},
            "PASS of 1 of 3 scenarios, without two (left out with --without); three (not applicable to this release)",
        ),
        ({"left_out": ("two",), "not_run": {"three": "no jar"}}, "INCONCLUSIVE of 1 of 3 scenarios, without two (left"),
    ],
)
def test_of_how_many_scenarios_a_verdict_is(summary: dict[str, Any], subset: str) -> None:
    passed = ScenarioResult(name="one", status=Status.PASS, bundle="one")
    found = GateSummary(required=("one", "two", "three"), results=(passed,), release=NamedRelease(), **summary)
    assert (found.subset or "").startswith(subset)
    assert found.exit is (Exit.PASS if subset.startswith("PASS") else Exit.INCONCLUSIVE)

"""A check of a plugin judges: it names a planted defect, leaves a near miss alone, and its crash never is a PASS."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from pyspark.sql import SparkSession

from harness.commands.plugins import loaded
from harness.evidence.documents import plain
from harness.evidence.parsing import MisfitError
from harness.evidence.seal import seal_directory
from harness.evidence.verdicts import read_verdict, verdict_of
from harness.model.excuse import Evidence, EvidenceKind, Excused
from harness.model.exits import Exit
from harness.model.plugin import Plugin, active
from harness.model.verdict import Status, Verdict
from suites.unit.evidence_examples import write_example
from suites.verify.checks.test_admin_operations import operated
from suites.verify.history import Built, History
from suites.verify.judging import few_queries, verdicts
from suites.verify.test_command import durability
from suites.verify.test_plugins_command import CHECK, acme

__all__ = ["acme"]

ROOT = Path(__file__).parents[2]
AUDIT = ROOT / "suites" / "plugins" / "audit"
MS = 10**6


@pytest.fixture(autouse=True)
def _few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    few_queries(monkeypatch, "lost")


def waited(ms: int) -> Built:
    """A run in which the acknowledgement of the second of three records took so long."""
    history = History("AAA", name=f"waited {ms} ms").build()
    (row,) = history.rows("ledger", seq=1)
    row["returned_ns"] = row["called_ns"] + ms * MS
    return history


def judged(spark: SparkSession, acme: Path, *histories: Built) -> list[Verdict]:
    with loaded([acme]):
        return verdicts(spark, histories)


def found(verdict: Verdict) -> list[tuple[str, int | None, str]]:
    return [(f.kind.value, f.offset_first, f.detail) for f in verdict.findings if f.condemns]


def test_a_planted_defect_is_named_and_a_near_miss_is_not(spark: SparkSession, acme: Path) -> None:
    late, near = judged(spark, acme, waited(12_001), waited(12_000))
    assert found(late) == [("late_ack", 1, "its acknowledgement took up to 12001 ms")]
    assert late.findings[0].contract == "a record is acknowledged within 12 s (our service level)"
    assert (late.status, near.status) == (Status.FAIL, Status.PASS)
    (plugin,) = late.facts.plugins
    assert plugin.checks == {"ack_limit": "Every record is acknowledged within 12 s."}
    assert plugin.files.keys() >= {CHECK}
    assert "the plugin acme judged, too, with ack_limit" in near.notes
    (alone,) = verdicts(spark, [waited(12_001)])
    assert (alone.status, alone.facts.plugins) == (Status.PASS, ())


def test_a_verdict_of_a_plugin_is_read_without_it(spark: SparkSession, acme: Path) -> None:
    (late,) = judged(spark, acme, waited(12_001))
    content = json.loads(json.dumps(plain(late)))
    again = verdict_of(content)
    assert [(f.kind.value, f.kind.meaning) for f in again.findings] == [
        ("late_ack", "A record was acknowledged more than 12 s after its send.")
    ]
    assert plain(again) == plain(late)
    del content["facts"]["plugins"]
    with pytest.raises(MisfitError, match=r'^findings\[0\]\.kind is "late_ack", which is no known kind of finding$'):
        verdict_of(content)


def broken(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return change


DOUBT = "adds=lambda known: Addition(doubts=[Doubt('slow_network', 'the network was slow')])"
ROWS = "on_driver=(OnDriver(name='late_acks_rows', read=lambda given: {}, none=list),)"
WINDOW = "evidence=Evidence(kind=EvidenceKind.CONTRACT, what='maintenance')"
EXCUSE = "excuses=(Excuse(name=__name__, permits='Brokers were maintained.', kinds=(LATE_ACK,), {}),)"


def by_clauses(kind: str) -> str:
    return EXCUSE.format(f"clauses=lambda n, case: clauses(n, [{kind}], 'a maintenance window', {WINDOW})")


def by_rows(why: str) -> str:
    excused = f"rows.withColumn('excused_by', F.coalesce('excused_by', {why}))"
    return EXCUSE.format(f"rows=lambda rows, given: {excused}, {WINDOW}")


IMPORTS = """\
from harness.model.excuse import Evidence, EvidenceKind
from harness.model.finding import Kind, OwnKind
from harness.model.finding import Finding
from harness.model.verdict import Doubt
from harness.verify.addition import Addition
from harness.verify.engine.on_driver import OnDriver
from harness.verify.excuse import Excuse
from harness.verify.excuses.clauses import clauses
"""


def without_excuses(text: str) -> str:
    return text.replace("    excuses=(SLOW_LINKS,),\n", "")


def declaring(line: str) -> Callable[[str], str]:
    """One more line in the declaration of the check, in place of its excuses if it is about them."""

    def change(text: str) -> str:
        if line.startswith("excuses="):
            text = without_excuses(text)
        text = text.replace("from harness.model.finding import OwnKind\n", IMPORTS)
        return text.replace("    queries=", f"    {line},\n    queries=")

    return change


BROKEN = {
    "it raises": (broken("waited_ns = ", "waited_ns = 1 / 0 + "), "late_acks_{}", "ZeroDivisionError"),
    "it fails in Spark": (broken("F.floor(waited_ns / 10**6)", "F.raise_error(F.lit('no'))"), "late_acks_{}", "no"),
    "its rows have another form": (
        broken("F.floor(waited_ns / 10**6))", "F.floor(waited_ns / 10**6)).drop('seq')"),
        "late_acks_{}",
        "its rows have other columns than `found` makes: seq",
    ),
    "its kind is not introduced": (
        broken("found(late, LATE_ACK", "found(late, 'later'"),
        "later",
        "none introduces it in its `kinds`",
    ),
    "its doubts raise": (declaring("adds=lambda known: 1 / 0"), "broken_{}", "ZeroDivisionError"),
    "its excuses raise": (declaring(by_clauses("1 / 0")), "broken_{}", "ZeroDivisionError"),
    "it excuses findings of others": (
        declaring(by_clauses("Kind.LOST")),
        "broken_{}",
        "it excuses findings of the kind lost, which it does not declare",
    ),
    "its few rows cannot be read": (declaring(ROWS.format("1 / 0")), "late_acks_{}_rows", "ZeroDivisionError"),
    "it reads too few rows": (declaring(ROWS.format("[]")), "late_acks_{}_rows", "it read 0 results for 3 bundles"),
    "it adds findings of others": (
        declaring("adds=lambda known: Addition(findings=[Finding(kind=Kind.LOST)])"),
        "broken_{}",
        "it adds findings of the kind lost, which it does not declare",
    ),
    "its excuse fails in Spark": (declaring(by_rows("F.raise_error(F.lit('no'))")), "broken_{}", "no"),
}


def test_a_check_that_fails_is_a_doubt_and_softens_no_finding(spark: SparkSession, acme: Path) -> None:
    """All ways to fail at once: one judgement takes as long as the next."""
    text = (acme / CHECK).read_text()
    for number, (change, _, _) in enumerate(BROKEN.values()):
        path = acme / "checks" / f"broken_{number}" / "__init__.py"
        path.parent.mkdir()
        path.write_text(re.sub(r"""(["'])(late_acks?|slow_links)(_rows)?\1""", rf"\1\2_{number}\3\1", change(text)))
    lost = waited(1)
    lost.drop("observations", kind="drain", offset=2)
    sound, late, worse = judged(spark, acme, waited(1), waited(12_001), lost)
    for verdict in (sound, late, worse):
        doubts = {doubt.name: doubt.text for doubt in verdict.doubts}
        for number, (_, name, said) in enumerate(BROKEN.values()):
            of_check = f"check_failed:{name.format(number)}"
            assert said in doubts[of_check]
            # It is not known which check reported a kind that none introduces.
            owner = "harness" if name == "later" else "plugin acme"
            assert doubts[of_check].endswith(f"please report it as a defect of the {owner}")
    assert (sound.status, worse.status) == (Status.INCONCLUSIVE, Status.FAIL)
    # Checks of which only the doubts or the excuses fail report their findings.
    assert {kind for kind, _, _ in found(late)} == {
        "late_ack",
        *(f"late_ack_{number}" for number in range(4, len(BROKEN))),
    }
    assert {kind for kind, _, _ in found(worse)} == {"lost"}


def test_a_check_declares_doubts_and_excuses(spark: SparkSession, acme: Path) -> None:
    text = declaring(DOUBT)(declaring(by_clauses("LATE_ACK"))((acme / CHECK).read_text()))
    (acme / CHECK).write_text(text)
    late, near = judged(spark, acme, waited(12_001), waited(12_000))
    (finding,) = late.findings
    assert finding.excused_by == "a maintenance window"
    evidence = Evidence(kind=EvidenceKind.CONTRACT, what="maintenance")
    assert finding.excuse == Excused(name="durability_plugins.acme.checks.ack_limit", evidence=evidence)
    assert verdict_of(json.loads(json.dumps(plain(late)))) == late
    assert [(d.name, d.text) for d in near.doubts] == [("slow_network", "the network was slow")]
    assert (late.status, near.status) == (Status.INCONCLUSIVE, Status.INCONCLUSIVE)


def test_an_excuse_by_rows_excuses_only_its_own_kinds(spark: SparkSession, acme: Path) -> None:
    (acme / CHECK).write_text(declaring(by_rows("F.lit('all is permitted')"))((acme / CHECK).read_text()))
    late = waited(12_001)
    late.drop("observations", kind="drain", offset=2)
    (verdict,) = judged(spark, acme, late)
    assert verdict.status is Status.FAIL
    assert {f.kind.value for f in verdict.findings if f.excused_by == "all is permitted"} == {"late_ack"}
    assert {kind for kind, _, _ in found(verdict)} == {"lost"}


def test_a_check_of_small_evidence_is_one_package_and_one_test(spark: SparkSession) -> None:
    """It adds a finding, a doubt and a count, and no other file knows it."""
    files = {path.relative_to(AUDIT).as_posix() for path in AUDIT.rglob("*.py")}
    assert files == {"checks/slow_operation/__init__.py", "tests/test_slow_operation.py"}
    assert [path for path in (ROOT / "harness").rglob("*.py") if "slow_operation" in path.read_text()] == []
    slow, silent = operated("a1", "1"), operated("u1", "-")
    slow.tables["admin_ops"][0]["returned_ns"] += 60 * 10**9
    with loaded([AUDIT]):
        late, none = verdicts(spark, [slow, silent])
    assert found(late) == [("slow_operation", None, "its acknowledgement took 61.0 s")]
    assert late.facts.counts == {"slow_operation": {"operations": 1}}
    assert [doubt.name for doubt in none.doubts] == ["no_operation", "no_operation_timed"]
    assert verdict_of(json.loads(json.dumps(plain(late)))) == late
    alone = verdicts(spark, [slow, silent])
    assert [(verdict.status, verdict.facts.counts) for verdict in alone] == [
        (Status.PASS, {}),
        (Status.INCONCLUSIVE, {}),
    ]


def played_with(history: Built, plugin: Plugin) -> Built:
    history.manifest["plugins"] = [to_builtins(plugin.used)]
    history.scenario["name"] = "leader_hung"
    return history


def test_a_plugin_that_played_and_is_missing_is_said(spark: SparkSession, acme: Path) -> None:
    with loaded([acme]):
        (plugin,) = active()
    (without,) = verdicts(spark, [played_with(waited(1), plugin)])
    assert [doubt.name for doubt in without.doubts] == ["check_missing"]
    assert "the check ack_limit of the plugin acme, which is not here" in without.doubts[0].text
    assert any("the scenario leader_hung is of the plugin acme, which is not here" in note for note in without.notes)
    (here,) = judged(spark, acme, played_with(waited(1), plugin))
    assert (here.status, [*here.notes]) == (Status.PASS, ["the plugin acme judged, too, with ack_limit"])
    (acme / CHECK).write_text((acme / CHECK).read_text() + "\n# changed\n")
    (changed,) = judged(spark, acme, played_with(waited(1), plugin))
    assert f"the plugin acme has changed since the run: {CHECK}" in changed.notes
    shutil.rmtree(acme / "checks")
    shutil.rmtree(acme / "scenarios")
    (fewer,) = judged(spark, acme, played_with(waited(1), plugin))
    assert [doubt.name for doubt in fewer.doubts] == ["check_missing"]


def _bundle(folder: Path, change: Callable[[dict[str, Any]], object] = lambda row: None) -> Path:
    """The bundle of FORMAT.md without its lost record; `change` gets the ledger row of the second record."""
    write_example(folder)
    scenario = folder / "scenario.json"
    scenario.write_text(scenario.read_text().replace("by_hand", folder.name))
    drain = folder / "observations" / "drain.jsonl"
    first, last = drain.read_text().splitlines()
    missing = re.sub(r'"offset": 0, "stream": 1, "seq": 0', '"offset": 1, "stream": 1, "seq": 1', first)
    drain.write_text("\n".join([first, missing.replace('"timestamp_ms": 2000', '"timestamp_ms": 3000'), last]) + "\n")
    ledger = folder / "ledger" / "app.jsonl"
    rows = [json.loads(line) for line in ledger.read_text().splitlines()]
    change(rows[1])
    ledger.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    seal_directory(folder)
    return folder


def test_the_ordinary_command_judges_with_a_plugin(tmp_path: Path, acme: Path) -> None:
    late = _bundle(tmp_path / "out" / "late", lambda row: row.update(returned_ns=row["called_ns"] + 13 * 10**9))
    near = _bundle(tmp_path / "out" / "near")
    done = durability("verify", str(tmp_path / "out"), "--plugins", str(acme))
    assert done.returncode == Exit.FAIL, done.stderr
    assert "judged by plugins, too: acme (ack_limit)" in done.stdout
    assert "late_ack: " in done.stdout
    kinds = {bundle: [finding.kind.value for finding in read_verdict(bundle).findings] for bundle in (late, near)}
    assert kinds == {late: ["late_ack"], near: []}
    assert [plugin.name for plugin in read_verdict(late).facts.plugins] == ["acme"]
    assert read_verdict(near).status is not Status.FAIL
    assert "the plugin acme judged, too, with ack_limit" in read_verdict(near).notes

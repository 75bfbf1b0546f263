"""`--plugins`: faults, scenarios and checks outside the tree are listed, documented, or refused as a whole."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness import scenarios
from harness.commands import cli
from harness.commands.options import GateOptions
from harness.commands.plugins import loaded
from harness.commands.scenario_selection import check_choice, choose_scenarios
from harness.faults.steps.registry import all_kinds, build_step
from harness.model.backend import PROCESSES
from harness.model.documents.manifest import Digest
from harness.model.errors import BadInput
from harness.model.exits import Exit
from harness.model.finding import kinds
from harness.model.plugin import active
from harness.model.scenario.scenario import Step
from harness.verify.promise import declared

EXAMPLE = Path(__file__).parents[1] / "plugins" / "acme"
FAULT, SCENARIO, CHECK = "faults/hang_and_kill.py", "scenarios/leader_hung.toml", "checks/ack_limit/__init__.py"
TEST = "tests/test_ack_limit.py"


@pytest.fixture
def acme(tmp_path: Path) -> Path:
    """A plugin with one fault, one scenario and one check, outside the tree."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "acme", ignore=shutil.ignore_patterns("__pycache__")))


def in_use() -> tuple[object, ...]:
    """Everything that a plugin adds to."""
    modules = [name for name in sys.modules if name.startswith("durability_plugins")]
    return all_kinds(), [*scenarios.every()], [*declared()], kinds(), active(), modules, sys.dont_write_bytecode


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("faults", "hang_and_kill"),
        ("scenarios", "leader_hung"),
        ("checks", "late_ack"),
    ],
)
def test_a_plugin_is_listed_only_while_it_is_given(
    acme: Path, capsys: pytest.CaptureFixture[str], what: str, line: str
) -> None:
    assert cli.invoke(["list", what, "--plugins", str(acme)]) is Exit.PASS
    assert sum(row.startswith(line) for row in capsys.readouterr().out.splitlines()) == 1
    assert cli.invoke(["list", what]) is Exit.PASS
    assert line not in capsys.readouterr().out


def test_the_environment_names_plugins_too(
    acme: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other" / "scenarios"
    other.mkdir(parents=True)
    (other / "my_calm.toml").write_text(scenarios.path_of("calm").read_text())
    monkeypatch.setenv("DURABILITY_PLUGINS", os.pathsep.join([str(acme), str(other.parent)]))
    assert cli.invoke(["list", "scenarios"]) is Exit.PASS
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line[:1].isalpha()]
    assert {"leader_hung", "my_calm", "calm"} <= {*listed}


def test_a_loaded_plugin_can_be_used_and_leaves_nothing(acme: Path) -> None:
    before, files = in_use(), sorted(acme.rglob("*"))
    with loaded([acme, acme]):
        (plugin,) = active()
        assert (plugin.name, plugin.faults, plugin.scenarios) == ("acme", ("hang_and_kill",), ("leader_hung",))
        assert plugin.checks == {"ack_limit": "Every record is acknowledged within 12 s."}
        assert sorted(plugin.files) == sorted([FAULT, SCENARIO, CHECK])
        step = build_step(Step(do="hang_and_kill", name="hang", args={"node": "leader(plain/0)", "hung_s": 3}))
        assert [fact.text for fact in step.declared()] == ["frozen", "stopped (killed)"]
        control = scenarios.load("leader_hung").negative_control
        assert control is not None
        assert control.expect == ("late_ack",)
        assert [s.name for s in scenarios.tagged(["acme"])] == ["leader_hung"]
    assert in_use() == before
    assert sorted(acme.rglob("*")) == files


def test_runs_and_the_gate_take_the_scenarios_of_a_plugin(acme: Path) -> None:
    asked = GateOptions(seed=1, only=("leader_hung",))
    with loaded([acme]):
        check_choice(asked)
        assert [one.name for one in choose_scenarios(asked, PROCESSES).wanted] == ["leader_hung"]
        whole = choose_scenarios(GateOptions(seed=1), PROCESSES)
    with pytest.raises(BadInput, match="there is no scenario 'leader_hung'"):
        check_choice(asked)
    edit(SCENARIO, "tags = ", "gate = true\ntags = ")(acme)
    with loaded([acme]):
        wider = choose_scenarios(GateOptions(seed=1), PROCESSES)
    assert {*wider.required} == {*whole.required, "leader_hung"}


def test_the_digest_of_a_plugin_follows_its_files_and_not_its_notes(acme: Path) -> None:
    def digests() -> Mapping[str, Digest]:
        with loaded([acme]):
            return active()[0].files

    before = digests()
    (acme / "README.md").write_text("notes")
    (acme / "faults" / "README.md").write_text("notes")
    assert digests() == before
    (acme / "checks" / "ack_limit" / "_limits.py").write_text("LIMIT = 3")
    after = digests()
    assert after.keys() - before.keys() == {"checks/ack_limit/_limits.py"}
    (acme / CHECK).write_text((acme / CHECK).read_text().replace("LIMIT_S: Final = 12", "LIMIT_S: Final = 13"))
    assert {path for path in after if digests()[path] != after[path]} == {CHECK}


def test_files_of_a_plugin_may_share_code(acme: Path) -> None:
    (acme / "faults" / "_pause.py").write_text("HUNG_S = 4.0\n")
    text = (acme / FAULT).read_text()
    text = text.replace("from harness.faults.nodes", "from ._pause import HUNG_S\nfrom harness.faults.nodes")
    (acme / FAULT).write_text(text.replace("Seconds = 2.0", "Seconds = HUNG_S"))
    with loaded([acme]):
        step = build_step(Step(do="hang_and_kill", name="hang", args={"node": "broker(1)"}))
        assert vars(step)["hung_s"] == 4.0


def test_the_catalogue_of_a_plugin_is_written_into_its_folder(acme: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["docs", "--plugins", str(acme)]) is Exit.PASS
    assert capsys.readouterr().out == f"wrote {acme / 'CATALOGUE.md'}\n"
    text = (acme / "CATALOGUE.md").read_text()
    rows = [line.split("`")[1] for line in text.splitlines() if line.startswith(("| `", "| [`"))]
    assert rows == ["hang_and_kill", "leader_hung", "ack_limit"]
    assert cli.invoke(["docs", "--plugins", str(acme)]) is Exit.PASS  # the catalogue is no part of the plugin
    assert (acme / "CATALOGUE.md").read_text() == text


def rename(old: str, new: str) -> Callable[[Path], object]:
    return lambda acme: (acme / old).rename(acme / new)


def edit(name: str, old: str, new: str) -> Callable[[Path], object]:
    def change(acme: Path) -> None:
        text = (acme / name).read_text()
        assert old in text
        (acme / name).write_text(text.replace(old, new))

    return change


def add(name: str, text: str) -> Callable[[Path], object]:
    def write(acme: Path) -> None:
        (acme / name).parent.mkdir(exist_ok=True)
        (acme / name).write_text(text)

    return write


def empty(acme: Path) -> None:
    for path in acme.iterdir():
        shutil.rmtree(path)


def a_file(acme: Path) -> None:
    shutil.rmtree(acme / "faults")
    (acme / "faults").write_text("")


REASON = """\
from harness.verify.engine.rows import Reason

class Late(Reason):
    SLOW = "slow", "It was slow."

LIMIT_S: Final = 12"""
REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (shutil.rmtree, "acme is no folder; give one with"),
    "an empty folder": (empty, "has no faults/*.py"),
    "a misspelled folder": (rename("checks", "check"), "check would be ignored; rename it to checks"),
    "a fault with another suffix": (
        rename(FAULT, "faults/hang.txt"),
        "hang.txt would be ignored: faults/ has one file",
    ),
    "a check that is a file": (add("checks/late.py", "CHECK = 1"), "late.py would be ignored: checks/ has one folder"),
    "a file in the place of a folder": (
        a_file,
        "faults would be ignored, because it is no folder",
    ),
    "a name with a hyphen": (rename(FAULT, "faults/hang-and-kill.py"), "may only have a-z, 0-9 and _"),
    "a syntax error": (edit(FAULT, "def _stop(", "def _stop(("), f"{FAULT}: line "),
    "an exception": (
        add("faults/zero.py", "1 / 0"),
        "zero.py cannot be imported (ZeroDivisionError: div",
    ),
    "an exit": (add("faults/zero.py", "raise SystemExit(0)"), "zero.py cannot be imported (SystemExit: 0)"),
    "a missing library": (add("faults/zero.py", "import nowhere"), "No module named 'nowhere'"),
    "a file without a fault": (add("faults/nothing.py", "X = 1"), "nothing.py declares no kind of step"),
    "a fault without facts": (edit(FAULT, "    facts:", "    other:"), "hang_and_kill in durability_plugins.acme"),
    "an abstract fault": (edit(FAULT, "def _stop(", "def _halt("), "HangAndKill does not define _stop"),
    "a word of a built-in fault": (edit(FAULT, '"hang_and_kill"', '"kill"'), "two kinds of steps are called 'kill'"),
    "a built-in scenario": (rename(SCENARIO, "scenarios/calm.toml"), "calm.toml: there already is a scenario 'calm'"),
    "an unknown key": (edit(SCENARIO, "tags =", "tag ="), "leader_hung.toml: scenario leader_hung: unknown"),
    "an unknown step": (
        edit(SCENARIO, 'do = "hang_and_kill"', 'do = "hang_and_kil"'),
        "no kind of step is called 'hang_and_kil'; did you mean 'hang_and_kill'?",
    ),
    "an unknown finding": (edit(SCENARIO, '["late_ack"]', '["late_akc"]'), "'late_akc'"),
    "a check without CHECK": (edit(CHECK, "CHECK: Final", "TEST: Final"), "declares no check"),
    "a check without queries": (
        edit(CHECK, 'queries={"late_acks": late_acks}', "queries={}"),
        "has no queries and adds nothing",
    ),
    "a kind without a sentence": (
        edit(CHECK, "seen={(LATE_ACK, Only.ONE): lambda run:", "seen={} and {(LATE_ACK, Only.ONE): lambda run:"),
        "the kind late_ack of the check ack_limit has no sentence; write one in its `seen`",
    ),
    "a reason without a sentence": (
        edit(CHECK, "LIMIT_S: Final = 12", REASON),
        "the reason Late.SLOW of the check ack_limit has no sentence; write one in its `seen`, or name it in",
    ),
    "a check of a built-in name": (rename("checks/ack_limit", "checks/lost"), "there already is a check 'lost'"),
    "a query of a built-in name": (edit(CHECK, '"late_acks": late', '"lost": late'), "already has the query lost"),
    "a built-in kind": (edit(CHECK, 'OwnKind("late_ack"', 'OwnKind("lost"'), "already is a kind of finding 'lost'"),
    "a kind that is a doubt": (edit(CHECK, 'OwnKind("late_ack"', 'OwnKind("not_read"'), "of finding 'not_read'"),
    "a kind that is plain text": (
        edit(CHECK, 'OwnKind("late_ack", "A record was acknowledged more than 12 s after its send.")', '"late_ack"'),
        "its kind 'late_ack' is plain text; write OwnKind(name, meaning)",
    ),
    "an excuse without its comma": (
        edit(CHECK, "excuses=(SLOW_LINKS,)", "excuses=SLOW_LINKS"),
        "its excuses are not a tuple; write excuses=(NAME,)",
    ),
    "an excuse without a function": (
        edit(CHECK, "    clauses=_while_slow,\n", ""),
        "its excuse slow_links has no function, so it permits nothing",
    ),
    "a fault without a summary": (edit(FAULT, "    summary:", "    other:"), "HangAndKill has no summary; write in"),
    "a fault without a proof": (edit(FAULT, "    proof:", "    other:"), "HangAndKill has no proof; write what"),
    "an unknown capability": (
        edit(FAULT, '{"pause", ', '{"paus", '),
        "HangAndKill needs 'paus', which no backend has; did you mean 'pause'?",
    ),
    "an unknown input": (edit(CHECK, "late_acks(given:", "late_acks(ledger:"), "needs 'ledger', which is no input"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_plugin_is_refused_in_one_sentence_and_leaves_nothing(
    acme: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    change, said = REFUSED[name]
    change(acme)
    before, files = in_use(), sorted(acme.rglob("*"))
    assert cli.invoke(["list", "faults", "--plugins", str(acme)]) is Exit.USAGE
    out, err = capsys.readouterr()
    (line,) = err.splitlines()
    assert (out, line.startswith("durability: ")) == ("", True)
    assert said in line
    assert str(acme) in line or "acme" in line
    assert in_use() == before
    assert sorted(acme.rglob("*")) == files


def test_the_readme_shows_the_example_as_it_is() -> None:
    text = (Path(scenarios.__file__).parents[1] / "README.md").read_text()
    shown = dict(re.findall(r"^\+\+\+ b/acme/(\S+)\n@@ [^\n]+ @@\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    for name in (FAULT, SCENARIO, CHECK, TEST):
        assert re.sub(r"^\+", "", shown[name], flags=re.MULTILINE) == (EXAMPLE / name).read_text()


def test_negative_controls_of_a_plugin_are_collected(acme: Path) -> None:
    assert "fails_with_the_expected_kind[leader_hung]" in proof(acme, "--collect-only").stdout
    refused = proof(acme / "nowhere", "--collect-only")
    assert (refused.returncode, "nowhere is no folder" in refused.stderr) == (pytest.ExitCode.USAGE_ERROR, True)


def test_a_scenario_without_a_negative_control_is_said_where_it_is_listed_and_proven(
    acme: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "none, so nothing proves that it can FAIL; add a [negative_control] to it"
    text = (acme / SCENARIO).read_text()
    (acme / SCENARIO).write_text(text[: text.index("[negative_control]")])
    assert cli.invoke(["list", "scenarios", "--plugins", str(acme)]) is Exit.PASS
    listed = capsys.readouterr().out.splitlines()
    assert [row.endswith(said) for row in listed if row.startswith("leader_hung")] == [True]
    assert cli.invoke(["docs", "--plugins", str(acme)]) is Exit.PASS
    assert said in (acme / "CATALOGUE.md").read_text()
    played = proof(acme)
    assert played.returncode == pytest.ExitCode.TESTS_FAILED
    assert f"negative control of leader_hung: {said}" in played.stdout


def proof(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """The command of the guide that plays the negative control of one scenario."""
    command = [sys.executable, "-m", "pytest", "-q", "suites/gate/test_proof.py", *more]
    options = ["--only", "leader_hung", "--plugins", str(folder)]
    root = Path(__file__).parents[2]
    return subprocess.run([*command, *options], cwd=root, capture_output=True, text=True, check=False)


def test_two_plugins_of_one_name_are_refused(acme: Path, tmp_path: Path) -> None:
    twin = Path(shutil.copytree(acme, tmp_path / "twin" / "acme"))
    with pytest.raises(BadInput, match="two plugins are called acme"), loaded([acme, twin]):
        pytest.fail("loaded")


def test_what_two_plugins_share_is_refused(acme: Path, tmp_path: Path) -> None:
    twin = Path(shutil.copytree(acme, tmp_path / "other"))
    before = in_use()
    with pytest.raises(BadInput, match="two kinds of steps are called 'hang_and_kill'"), loaded([acme, twin]):
        pytest.fail("loaded")
    assert in_use() == before

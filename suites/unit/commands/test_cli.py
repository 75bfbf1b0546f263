"""The command line: exit codes, one sentence for every refusal, nothing half-written. No broker, no Spark."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import scenarios
from harness.clusters import choosing
from harness.clusters.choosing import CAPABILITIES
from harness.clusters.disks import loop_devices
from harness.clusters.nodes import clocks
from harness.commands import cli
from harness.commands.options import GateOptions, GateResult
from harness.commands.output import Output
from harness.evidence.gate import GateSummary, ScenarioResult, Try, decided, write_gate
from harness.evidence.seal import seal_directory
from harness.faults.steps.registry import needs
from harness.model.documents.manifest import NamedRelease
from harness.model.errors import BadEvidence, BadInput, HarnessFailure
from harness.model.exits import Exit
from harness.model.limits import Limits
from harness.model.verdict import Status
from suites.unit.evidence_examples import judged, lost, verdict, write_example

ROOT = Path(__file__).parents[3]
DURABILITY = [sys.executable, "-c", "from harness.commands.main import main; main()"]


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


def fake_run(monkeypatch: pytest.MonkeyPatch, gate: Callable[..., Any]) -> None:
    """Replaces the gate: these tests are about what the command makes of its result."""
    module = types.ModuleType("harness.commands.gate")
    module.gate = gate  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "harness.commands.gate", module)


def gate_of(out: Path, *statuses: Status | None) -> Callable[[GateOptions, Any], GateResult]:
    """A part of a gate of three scenarios; those with a status ran."""

    def gate(options: GateOptions, progress: Any) -> GateResult:
        progress.line("Kafka 4.3.1 (commit c) from here")
        progress("doing")
        names = ("one", "two", "three")
        results = []
        for name, status in zip(names, statuses, strict=False):
            if status is None:
                results.append(ScenarioResult(name=name, status=None, error="no slot is free"))
                continue
            judged(out / name, verdict(name, status, *([lost()] if status is Status.FAIL else [])))
            results.append(ScenarioResult(name=name, status=status, bundle=name))
        summary = GateSummary(
            required=names, results=tuple(results), seed=options.seed, part=True, release=NamedRelease()
        )
        write_gate(out, summary)
        return GateResult(out=out, summary=summary)

    return gate


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ((Status.PASS, Status.PASS, Status.PASS), Exit.PASS),
        ((Status.PASS, Status.INCONCLUSIVE, Status.PASS), Exit.INCONCLUSIVE),
        ((Status.PASS, Status.INCONCLUSIVE, Status.FAIL), Exit.FAIL),
        ((Status.PASS, None, Status.INCONCLUSIVE), Exit.HARNESS),
        ((Status.FAIL, None), Exit.FAIL),
        ((Status.PASS,), Exit.PASS),
        ((), Exit.INCONCLUSIVE),
    ],
)
def test_the_worst_result_counts_and_a_part_of_the_gate_follows_what_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statuses: tuple[Status | None, ...], code: Exit
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    fake_run(monkeypatch, gate_of(out, *statuses))
    assert cli.invoke(["gate"]) is code
    assert (out / "junit.xml").is_file()
    assert (out / "report" / "index.html").is_file()


def test_the_common_options_are_those_of_each_command_that_plays() -> None:
    output = {"as_json", "quiet", "summary", "notify", "allure", "history"}
    attached = {"bootstrap", "command_config", "hooks", "allow_faults", "rate"}
    for command, own in (
        (cli.gate, {"only", "without", "fail_fast", "known", "against", *attached}),
        (cli.run, {"scenario", "tag", "without", "issue", "known", *attached}),
        (cli.contracts, {"only", "tag"}),
    ):
        assert {option.name for option in command.params} == {*cli.Common.__annotations__, "plugins", *output, *own}


def test_a_gate_prints_the_release_first_and_no_control_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.joinpath("out").mkdir()
    fake_run(monkeypatch, gate_of(tmp_path / "out", Status.FAIL, Status.PASS))
    cli.invoke(["gate", "--seed", "7"])
    said = capsys.readouterr()
    assert said.out.splitlines()[0] == "Kafka 4.3.1 (commit c) from here"
    assert "FAIL in 1 of 2 scenarios that ran, of 3" in said.out
    assert all(c.isprintable() or c == "\n" for c in said.out + said.err)


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (BadInput("there is no Kafka 9"), Exit.USAGE, "there is no Kafka 9"),
        (BadEvidence("x is damaged"), Exit.USAGE, "x is damaged"),
        (HarnessFailure("no slot is free"), Exit.HARNESS, "no slot is free"),
        (ValueError("two\nlines"), Exit.HARNESS, "ValueError: two"),
        (KeyboardInterrupt(), Exit.INTERRUPTED, "interrupted"),
        (SystemExit(1), Exit.HARNESS, "SystemExit: 1"),
        (BrokenPipeError("of a socket"), Exit.HARNESS, "of a socket"),
        (AssertionError(), Exit.HARNESS, "AssertionError"),
    ],
)
def test_nothing_uncaught_ends_in_1(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    raised: BaseException,
    code: Exit,
    said: str,
) -> None:
    def gate(options: GateOptions, progress: Any) -> GateResult:
        raise raised

    fake_run(monkeypatch, gate)
    assert cli.invoke(["gate"]) is code
    error = [line for line in capfd.readouterr().err.splitlines() if line.startswith("durability:")]
    assert len(error) == 1
    assert said in error[0]
    kept = list(tmp_path.glob("durability-traceback-*.txt"))
    assert bool(kept) == (code is Exit.HARNESS)
    if kept:
        assert "Traceback" in kept[0].read_text()
        assert str(kept[0]) in error[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gate", "--records", "0"], "--records"),
        (["gate", "--records", "many"], "--records"),
        (["gate", "--seed", "-1"], "--seed"),
        (["gate", "--only", "leader_kiled"], "did you mean leader_killed"),
        (["gate", "--only", "zzz"], "durability list scenarios"),
        (["gate", "--only", ","], "--only names no scenario"),
        (["gate", "--without", ","], "--without names no scenario"),
        (["gate", "--without", "clam"], "--without clam: that is none of the scenarios of this run; did you mean calm"),
        (["gate", "--without", "calm", "--only", "calm"], "--only and --without exclude each other"),
        (["run", "calm", "--without", "calm"], "--without needs --tag"),
        (["run", "/dev/zero"], "no scenario '/dev/zero'"),
        (["run", "ZERO.toml"], "cannot be read (it is a device, a pipe or a socket, and not a regular file)"),
        (["gate", "--tier-storage", "/dev/zero"], "it is a device, a pipe or a socket"),
        (["matrix", "/dev/zero"], "/dev/zero does not exist or is not a file"),
        (["contract", "--bootstrap", "h:1", "--command-config", "/dev/zero"], "it is a device, a pipe or a socket"),
        (["contract", "--bootstrap", "h"], "the address 'h' has no port"),
        (["clean", "nowhere"], "there is no run 'nowhere' in "),
        (["gate", "--backend", "moon"], "--backend"),
        (["gate", "--memory", "much"], "--memory 'much' is not a size"),
        (["gate", "--memory", "400m"], "is too small for a broker, whose heap alone has 384 MiB: give 640m or more"),
        (["run", "calm", "--cpus", "0.1"], "give 0.25 or more"),
        (["gate", "--cpus", "many"], "--cpus"),
        (["gate", "--out", "FILE"], "is a file"),
        (["gate", "--out", "FULL"], "is not empty"),
        (["gate", "--out", "FILE/below"], "cannot be made (Not a directory): give a folder that you may write to"),
        (["gate", "--out", "DANGLING"], "is a file or a link to nothing"),
        (["gate", "--out", "DANGLING/below"], "cannot be made (No such file"),
        (["gate", "--out", "LOOP"], "is a file or a link to nothing"),
        (["gate", "--out", "LOOP/below"], "cannot be made (Too many levels"),
        (["gate", "--out", "/proc/x"], "cannot be made"),
        (["gate", "--out", "x" * 300], "cannot be made (File name too long)"),
        (["gate", "--out", ""], "'' names no file or folder"),
        (["verify", ""], "'' names no file or folder"),
        (["gate", "--allure", "FILE"], "--allure FILE is a file or a link to nothing"),
        (["run", "calm", "--allure", "DANGLING"], "--allure DANGLING is a file or a link to nothing"),
        (["contracts", "--allure", "/proc/x"], "--allure /proc/x cannot be written (No such file or directory)"),
        (["verify", "nowhere", "--allure", "FILE/below"], "--allure FILE/below cannot be written (Not a directory)"),
        (["report", "nowhere", "--allure", ""], "'' names no file or folder"),
        (["chaos", "--out", "new"], "give either --hours or --episodes"),
        (["chaos", "--out", "new", "--hours", "1", "--episodes", "5"], "give either --hours or --episodes"),
        (["chaos", "--out", "FILE", "--hours", "1"], "--out FILE is a file or a link to nothing"),
        (["chaos", "--out", "new", "--hours", "1", "--profile", "disc"], "no profile 'disc'"),
        (["chaos", "--out", "new", "--hours", "1", "--profile", "nope.toml"], "profile nope.toml cannot be read"),
        (["replay", "--out", "new"], "give either BUNDLE, or --seed and --episode"),
        (["replay", "nowhere", "--out", "new"], "nowhere is no evidence bundle and no scenario file"),
        (["shrink", "nowhere", "--out", "new"], "nowhere is no evidence bundle and no scenario file"),
        (["shrink", "nowhere", "--out", "new", "--budget", "soon"], "--budget 'soon' is no time"),
        (["gate", "--zzzz"], "No such option '--zzzz'; `durability gate --help` says more"),
        (["gate", "--records", "1e6"], "'1e6' is not a valid whole number"),
        (["gate", "--records", "9" * 400], "is not in the range"),
        (["gate", "--seed", "9" * 400], "is not in the range"),
        (["gate", "--tries", "0"], "is not in the range"),
        (["gate", "--tries", "3"], "is not in the range"),
        (["gate", "--memory", "9" * 400], "is not a size"),
        (["run"], "Missing argument"),
        (["run", "nope.toml"], "nope.toml"),
        (["run", "leader_kiled"], "did you mean leader_killed"),
        (["run", "--tag", "disc"], "no scenario has the tag 'disc'; did you mean 'disk'?"),
        (["run", "calm", "--tag", "disk"], "'calm' and --tag exclude each other"),
        (["run", "--tag", "disk", "--backend", "containers"], "disk_full needs disk.full"),  # CI is set
        (["run", "regression"], "`regression` and --issue KAFKA-N go together"),
        (["run", "calm", "--issue", "KAFKA-17062"], "`regression` and --issue KAFKA-N go together"),
        (["run", "regression", "--issue", "KAFKA-17062", "--tag", "tier"], "'regression' and --tag exclude each other"),
        (["run", "regression", "--issue", "KAFKA-17062", "--keep"], "run the scenario by its name"),
        (["verify", "nowhere"], "nowhere"),
        (["verify", "FULL"], "holds no evidence bundle"),
        (["report", "nowhere"], "there is no folder nowhere"),
        (["report", "FULL"], "holds no evidence bundle"),
        (["report", ""], "'' names no file or folder"),
        (["seal", "nowhere"], "nowhere is not a folder"),
        (["run", "calm", "--hooks", "FILE"], "--hooks needs --bootstrap HOST:PORT"),
        (["gate", "--rate", "10"], "--rate needs --bootstrap HOST:PORT"),
        (["gate", "--allow-faults", "ID"], "--allow-faults needs --bootstrap HOST:PORT"),
        (["gate", "--command-config", "FILE"], "--command-config needs --bootstrap HOST:PORT"),
        (["gate", "--bootstrap", "h:1", "--backend", "processes"], "--bootstrap and --backend exclude each other"),
        (["run", "calm", "--bootstrap", "h:1", "--keep"], "--bootstrap and --keep exclude each other"),
        (["gate", "--bootstrap", "h:1", "--memory", "1g"], "--bootstrap and --memory exclude each other"),
        (["gate", "--bootstrap", "h:1", "--rate", "0"], "is not in the range"),
        (["gate", "--bootstrap", "h:1", "--hooks", "FILE"], "bad hooks FILE: not valid TOML"),
        (["gate", "--bootstrap", "h:1", "--hooks", "/dev/zero"], "bad hooks /dev/zero: cannot be read"),
        (["gate", "--bootstrap", "h:1", "--command-config", "/dev/zero"], "it is a device, a pipe or a socket"),
        (["list", "planets"], "planets"),
        (["launch"], "No such command"),
    ],
)
def test_a_refused_command_is_exit_2_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    (tmp_path / "FILE").write_text("x")
    (tmp_path / "FULL").mkdir()
    (tmp_path / "FULL" / "x").write_text("x")
    (tmp_path / "DANGLING").symlink_to("nothing")
    (tmp_path / "LOOP").symlink_to("LOOP")
    (tmp_path / "ZERO.toml").symlink_to("/dev/zero")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)

    def never(options: GateOptions, progress: Any) -> GateResult:
        pytest.fail("started")

    fake_run(monkeypatch, never)
    assert cli.invoke(arguments) is Exit.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert sorted(tmp_path.rglob("*")) == before


def test_evidence_that_could_not_be_written_here_asks_for_another_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_run(monkeypatch, lambda options, progress: pytest.fail("started"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "durability-out").write_text("a file")
    assert cli.invoke(["gate"]) is Exit.USAGE
    monkeypatch.chdir("/proc")  # not even root can make a folder there
    assert cli.invoke(["gate"]) is Exit.USAGE
    for line in capsys.readouterr().err.splitlines():
        assert "durability-out cannot be written in the working directory" in line
        assert "give --out a folder" in line


def test_a_scenario_that_this_machine_cannot_play_is_refused_by_name_and_missing_in_a_gate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    less = {backend: able - {"kill"} for backend, able in choosing.CAPABILITIES.items()}
    monkeypatch.setattr(choosing, "CAPABILITIES", less)
    started: list[GateOptions] = []

    def undecided(options: GateOptions, output: Output) -> Exit:
        started.append(options)
        return Exit.INCONCLUSIVE

    monkeypatch.setattr(cli, "_gate", undecided)
    assert cli.invoke(["run", "leader_killed"]) is Exit.USAGE
    assert "needs kill" in capsys.readouterr().err
    assert started == []
    assert cli.invoke(["gate"]) is Exit.INCONCLUSIVE  # with what it can play
    nothing = {backend: frozenset[str]() for backend in choosing.CAPABILITIES}
    monkeypatch.setattr(choosing, "CAPABILITIES", nothing)
    assert cli.invoke(["run", "--tag", "disk"]) is Exit.USAGE


@pytest.mark.parametrize(
    ("backend", "code"), [("containers", Exit.USAGE), ("processes", Exit.PASS), ("auto", Exit.PASS)]
)
def test_a_full_disk_is_refused_where_the_named_backend_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], backend: str, code: Exit
) -> None:
    (tmp_path / "out").mkdir()
    fake_run(monkeypatch, gate_of(tmp_path / "out", Status.PASS, Status.PASS, Status.PASS))
    assert cli.invoke(["run", "disk_full", "--backend", backend]) is code
    assert ("scenario disk_full: step full: disk_full needs disk.full" in capsys.readouterr().err) == (code != 0)


def test_outside_ci_a_set_starts_without_what_this_machine_cannot_play(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    fake_run(monkeypatch, gate_of(tmp_path / "out", Status.PASS, Status.PASS))
    monkeypatch.delenv("CI")
    assert cli.invoke(["run", "--tag", "disk", "--backend", "containers"]) is Exit.PASS


def test_the_lists_name_what_only_one_backend_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    for what, row in (("scenarios", "disk_full"), ("faults", "disk_full")):
        assert cli.invoke(["list", what]) is Exit.PASS
        reported = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(row))
        assert "with --backend processes only" in reported


def test_options_reach_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[GateOptions] = []

    def gate(options: GateOptions, progress: Any) -> GateResult:
        seen.append(options)
        raise BadInput("enough")

    fake_run(monkeypatch, gate)
    own = tmp_path / "own.toml"
    own.write_text(scenarios.path_of("leader_killed").read_text())
    cli.invoke(["gate", "--only", "leader_killed, leader_killed", "--seed", "3", "--records", "10", "--fail-fast"])
    cli.invoke(["run", "leader_killed", "--tries", "1", "--kafka", "3.9.1", "--keep", "--out", str(tmp_path / "new")])
    cli.invoke(["run", str(own), "--kafka", "image:apache/kafka:4.1.0", "--memory", "768m", "--cpus", "0.5"])
    assert seen[0] == GateOptions(seed=3, only=("leader_killed",), records=10, fail_fast=True)
    assert (seen[0].tries_max, seen[1].tries_max) == (2, 1)
    assert (seen[1].only, seen[1].kafka, seen[1].keep, seen[1].out) == (
        ("leader_killed",),
        "3.9.1",
        True,
        tmp_path / "new",
    )
    assert (seen[2].only, seen[2].scenarios) == ((), (own,))
    cli.invoke(["run", "--tag", "groups", "--tag", "acks"])
    assert (seen[3].tags, seen[3].only, seen[3].leave_out) == (("groups", "acks"), (), False)
    assert (seen[2].kafka, seen[2].limits) == ("image:apache/kafka:4.1.0", Limits(memory=768 << 20, cpus=0.5))
    assert seen[1].seed != seen[2].seed


def test_a_gate_writes_allure_results_on_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, results = tmp_path / "out", tmp_path / "a/results"
    fake_run(monkeypatch, gate_of(out, Status.PASS, Status.FAIL, None))
    assert cli.invoke(["gate"]) is Exit.FAIL
    assert "Allure" not in capsys.readouterr().out
    assert cli.invoke(["gate", "--allure", str(results)]) is Exit.FAIL
    assert f"Allure results: {results} (3 of this evidence)" in capsys.readouterr().out
    assert len(list(results.glob("*-result.json"))) == 3
    before = {path.name: path.read_bytes() for path in results.iterdir()}
    assert cli.invoke(["report", str(out / "one"), "--allure", str(results)]) is Exit.USAGE  # it is no whole bundle
    seal_directory(write_example(out / "one"))
    assert cli.invoke(["report", str(out / "one"), "--allure", str(results)]) is Exit.PASS
    assert {path.name for path in results.iterdir()} > before.keys()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda content: content[:200],
    "empty": lambda _: b"",
    "another document": lambda _: b"[]",
    "another word": lambda content: content.replace(b'"PASS"', b'"GREAT"'),
    "a finding without its kind": lambda content: content.replace(b'"findings": []', b'"findings": [{}]'),
    "of another format": lambda content: content.replace(b'"format_version": ', b'"format_version": 9'),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_verdict_that_cannot_be_read_is_never_shown_as_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    """A bundle alone is refused; one of a folder is named on the terminal and the page, and the others are shown."""
    results = []
    for name in ("whole", "torn"):
        bundle = judged(seal_directory(write_example(tmp_path / "out" / name)).path, verdict(name, Status.PASS))
        results.append(decided(name, [Try(bundle=bundle.name, status=Status.PASS)]))
    summary = GateSummary(required=("whole", "torn"), results=tuple(results), release=NamedRelease(version="4.4.0"))
    write_gate(tmp_path / "out", summary)
    file = tmp_path / "out" / "torn" / "verdict.json"
    changed = DAMAGES[damage](file.read_bytes())
    assert changed != file.read_bytes()
    file.write_bytes(changed)
    assert cli.invoke(["report", str(tmp_path / "out" / "torn")]) is Exit.USAGE
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith(f"durability: {file} ")
    assert line.endswith(f"; run `durability verify {file.parent}`")
    assert not (file.parent / "report").exists()
    assert cli.invoke(["report", str(tmp_path / "out")]) is Exit.PASS
    assert f"not judged: {file} " in capsys.readouterr().err
    page = (tmp_path / "out" / "report" / "index.html").read_text(encoding="utf-8")
    assert "<h1>INCONCLUSIVE: PASS of 1 of 2 bundles; 1 could not be judged" in page
    (section,) = re.findall(r'id="scenario-torn".*?</summary>', page, re.DOTALL)
    assert '<span class="word not-judged">NOT JUDGED</span>' in section
    assert cli.invoke(["compare", str(tmp_path / "out"), str(tmp_path / "out")]) is Exit.USAGE
    assert cli.invoke(["report", str(tmp_path / "out"), "--vote"]) is Exit.PASS
    assert capsys.readouterr().out.startswith("0 (non-binding)")


def test_each_of_several_folders_gets_its_page_or_none_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outs = [tmp_path / name for name in ("a", "b")]
    for out in outs:
        judged(seal_directory(write_example(out / "calm")).path, verdict("calm", Status.PASS))
    assert cli.invoke(["report", *map(str, outs)]) is Exit.PASS
    pages = [out / "report" / "index.html" for out in outs]
    assert capsys.readouterr().out.splitlines() == [f"wrote {page}" for page in pages]
    assert cli.invoke(["report", *map(str, outs), "--json"]) is Exit.PASS
    assert json.loads(capsys.readouterr().out) == [{"page": str(page)} for page in pages]
    pages[0].unlink()
    for wrong in (["nowhere"], ["--out", str(tmp_path / "c")], ["--allure", str(tmp_path / "c")]):
        assert cli.invoke(["report", *map(str, outs), *wrong]) is Exit.USAGE
    assert not pages[0].exists()


def test_a_folder_that_cannot_have_allure_results_does_not_change_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = gate_of(tmp_path / "out", Status.PASS, Status.PASS, Status.PASS)

    def gate(options: GateOptions, progress: Any) -> GateResult:
        (tmp_path / "results").write_text("it became a file while the gate ran")
        return made(options, progress)

    fake_run(monkeypatch, gate)
    assert cli.invoke(["gate", "--allure", str(tmp_path / "results")]) is Exit.PASS
    assert "there are no Allure results" in capsys.readouterr().err


def test_help_and_version_are_no_verdict() -> None:
    for option in ("--help", "--version"):
        done = subprocess.run([*DURABILITY, option], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert subprocess.run(DURABILITY, cwd=ROOT, capture_output=True, check=False).returncode == Exit.USAGE


def test_seal_names_the_next_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = write_example(tmp_path / "b")
    assert cli.invoke(["seal", str(bundle)]) is Exit.PASS
    assert f"durability verify {bundle}" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["scenarios", "faults"])
def test_lists_are_plain_and_aligned(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["list", what]) is Exit.PASS
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 1
    assert any("leader_killed" in line or line.startswith("kill ") for line in lines)


def test_doctor_names_a_remedy_for_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    assert cli.invoke(["doctor"]) is Exit.USAGE
    line = next(line for line in capsys.readouterr().out.splitlines() if "PySpark" in line)
    assert line.startswith("MISSING")
    assert "pip install 'kafka-durability[spark]'" in line


def test_every_machine_can_play_the_gate() -> None:
    """By processes, without root. Else its gate would always be INCONCLUSIVE."""
    everywhere = CAPABILITIES["processes"] - loop_devices.ALL - {clocks.CLOCK}
    assert [s.name for s in scenarios.gate() if not needs(s) <= everywhere] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--backend", "processes", "--kafka", "image:apache/kafka:4.1.0"],
            "use --backend containers, or leave it out",
        ),
        (
            ["--backend", "processes", "--memory", "1g"],
            "--memory is not possible with --backend processes: use --backend",
        ),
        (
            ["--backend", "auto", "--kafka", "image:apache/kafka:4.1.0"],
            "runs only in containers, and no container engine",
        ),
        (
            ["--kafka", "image:apache/kafka:4.1.0", "--maven-repo", "https://example.org"],
            "--maven-repo is only for versions",
        ),
    ],
)
def test_what_only_containers_can_do_is_refused_before_a_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """By the real gate, which ends here."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    assert cli.invoke(["gate", *arguments]) is Exit.USAGE
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("durability:")]
    assert said in line
    assert list(tmp_path.iterdir()) == []

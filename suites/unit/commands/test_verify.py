"""`durability verify` of one bundle and of many: each has a verdict or a reason why it has none. No Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from harness.commands import cli, verify
from harness.evidence import Bundle
from harness.evidence.gate import (
    GateSummary,
    ScenarioResult,
    Try,
    backends_and_duration,
    bundles_in,
    decided,
    read_gate,
    rejudged,
    write_gate,
)
from harness.evidence.seal import seal_directory
from harness.model.documents.manifest import NamedRelease
from harness.model.doubt_names import DoubtOrigin
from harness.model.errors import BadEvidence, BadInput, HarnessFailure
from harness.model.exits import Exit
from harness.model.verdict import Doubt, Status, Verdict
from suites.unit.evidence_examples import judged, lost, verdict, write_example


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


def fake_judge(monkeypatch: pytest.MonkeyPatch, status: Status) -> None:
    def judge(bundles: list[Any], master: str | None, progress: Any) -> list[Verdict]:
        verdicts = [verdict(b.documents.scenario.name or "", status, *([lost()] if status else [])) for b in bundles]
        for bundle, given in zip(bundles, verdicts, strict=True):
            judged(bundle.path, given)
        return verdicts

    monkeypatch.setattr(verify, "judge_bundles", judge)


def test_verify_prints_json_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = write_example(tmp_path / "b")
    seal_directory(bundle)
    fake_judge(monkeypatch, Status.FAIL)
    assert cli.invoke(["verify", str(bundle), "--json"]) is Exit.FAIL
    assert json.loads(capsys.readouterr().out)["verdict"] == "FAIL"
    assert cli.invoke(["verify", str(bundle)]) is Exit.FAIL
    said = capsys.readouterr().out
    assert "FAIL of scenario by_hand" in said
    assert "offsets 100 to 149" in said
    assert "<failure" in (bundle / "junit.xml").read_text()
    assert "FAIL of scenario by_hand" in (bundle / "report" / "index.html").read_text(encoding="utf-8")


def test_verify_writes_allure_results_and_says_so_beside_no_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = write_example(tmp_path / "b")
    seal_directory(bundle)
    fake_judge(monkeypatch, Status.FAIL)
    arguments = ["verify", str(bundle), "--allure", str(tmp_path / "results")]
    assert cli.invoke([*arguments, "--json"]) is Exit.FAIL
    assert json.loads(capsys.readouterr().out)["verdict"] == "FAIL"
    [first] = (tmp_path / "results").glob("*-result.json")
    assert json.loads(first.read_text(encoding="utf-8"))["status"] == "failed"
    assert cli.invoke(arguments) is Exit.FAIL
    assert f"Allure results: {tmp_path / 'results'} (1 of this evidence)" in capsys.readouterr().out
    assert list((tmp_path / "results").glob("*-result.json")) == [first]


def test_verify_keeps_what_a_gate_required_and_judges_its_other_bundles_where_one_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("by_hand", "broken"):
        seal_directory(write_example(tmp_path / "out" / name))
    (tmp_path / "out" / "broken" / "steps.json").unlink()
    results = tuple(ScenarioResult(name=n, status=Status.PASS, bundle=n) for n in ("by_hand", "broken"))
    write_gate(
        tmp_path / "out",
        GateSummary(required=("by_hand", "broken", "other"), results=results, seed=5, release=NamedRelease()),
    )
    fake_judge(monkeypatch, Status.PASS)
    assert cli.invoke(["verify", str(tmp_path / "out")]) is Exit.USAGE
    fake_judge(monkeypatch, Status.FAIL)
    assert cli.invoke(["verify", str(tmp_path / "out")]) is Exit.FAIL
    assert "steps.json is missing" in capsys.readouterr().err
    summary = read_gate(tmp_path / "out")
    assert (summary.status, summary.seed, summary.missing) == (Status.FAIL, 5, ("other",))


_TRY: dict[str, object] = {"bundle": "calm", "verdict": "PASS"}
_ROW: dict[str, object] = {"name": "calm", "status": "PASS", "bundle": "calm", "error": None, "earlier": []}


@pytest.mark.parametrize(
    ("foreign", "said"),
    [
        ({"scenarios": [{**_ROW, "bundle": 5}]}, "scenarios[0].bundle is 5 and must be text"),
        ({"scenarios": [{**_ROW, "earlier": [1]}]}, "scenarios[0].earlier[0] is 1 and must be text"),
        ({"scenarios": [{**_ROW, "error": 5}]}, "scenarios[0].error is 5 and must be text"),
        ({"scenarios": [{**_ROW, "status": "GOOD"}]}, 'scenarios[0].status is "GOOD" and must be'),
        ({"scenarios": {}}, "scenarios is {} and must be a list"),
        ({"release": "x"}, 'release is "x" and must be an object'),
        ({"release": None}, "release is null and must be an object"),
        ({"required": [5]}, "required[0] is 5 and must be text"),
        ({"seed": "x"}, 'seed is "x" and must be a whole number'),
        ({"took_s": "long"}, 'took_s is "long" and must be a number'),
        ({"backends": "processes"}, 'backends is "processes" and must be a list'),
    ],
)
def test_a_foreign_summary_of_a_gate_is_one_sentence(tmp_path: Path, foreign: dict[str, Any], said: str) -> None:
    plain = {"required": ["calm"], "scenarios": [_ROW], "release": {}, "seed": None}
    (tmp_path / "gate.json").write_text(json.dumps(plain))
    assert read_gate(tmp_path).status is Status.PASS
    (tmp_path / "gate.json").write_text(json.dumps(plain | foreign))
    with pytest.raises(BadEvidence) as refusal:
        read_gate(tmp_path)
    assert f"gate.json is not the summary of a gate: {said}" in str(refusal.value)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([_ROW, {**_ROW, "bundle": "other"}], "has two results of the scenario calm"),
        ([{**_ROW, "tries": [{"bundle": "calm", "verdict": "FAIL"}]}], "has a result of calm that does not follow"),
        ([{**_ROW, "tries": [{"bundle": "calm-again", "verdict": "PASS"}]}], "has a result of calm that does not"),
        (
            [{**_ROW, "tries": [_TRY | {"bundle": "../.."}, _TRY]}],
            "names the bundle '../..', which is no folder beside it",
        ),
        ([{**_ROW, "tries": [_TRY, _TRY]}], "names the bundle calm twice"),
        ([{**_ROW, "bundle": None}], "has a verdict on calm without a bundle"),
        ([_ROW, {**_ROW, "name": "other"}], "names the bundle calm twice"),
        ([{**_ROW, "earlier": ["calm"]}], "names the bundle calm twice"),
        ([{**_ROW, "bundle": "../calm"}], "names the bundle '../calm', which is no folder beside it"),
        ([{**_ROW, "earlier": [".."]}], "names the bundle '..', which is no folder beside it"),
        ([{**_ROW, "bundle": ""}], "names the bundle '', which is no folder beside it"),
        ([{**_ROW, "bundle": "/calm"}], "names the bundle '/calm', which is no folder beside it"),
    ],
)
def test_a_summary_is_no_evidence(tmp_path: Path, rows: list[dict[str, object]], said: str) -> None:
    """A verdict counts only with a bundle of its own in the same folder."""
    plain = {"required": ["calm"], "scenarios": rows, "release": {}, "seed": None}
    (tmp_path / "gate.json").write_text(json.dumps(plain))
    with pytest.raises(BadEvidence) as refusal:
        read_gate(tmp_path)
    assert said in str(refusal.value)
    assert "judge its bundles one by one" in str(refusal.value)


def test_a_bundle_of_another_scenario_is_no_evidence_for_this_one() -> None:
    summary = GateSummary(
        required=("calm",),
        results=(decided("calm", [Try(bundle="calm", status=Status.PASS)]),),
        release=NamedRelease(),
    )
    assert rejudged(summary, {"calm": verdict("calm", Status.PASS)}) == summary
    with pytest.raises(BadEvidence, match="names the bundle calm for calm, and it is of leader_killed"):
        rejudged(summary, {"calm": verdict("leader_killed", Status.PASS)})


def played(name: str, *, seed: int = 7, version: str = "4.3.1") -> Verdict:
    given = verdict(name, Status.PASS)
    release = NamedRelease(version=version, commit="c")
    return structs.replace(given, facts=structs.replace(given.facts, release=release, seed=seed))


@pytest.mark.parametrize(
    ("bundle", "said"),
    [
        (played("calm"), None),
        (verdict("calm", Status.PASS), None),  # sealed by hand: release and seed are not known
        (played("calm", seed=8), "is about the seed 7, and the bundle calm has 8"),
        (played("calm", version="4.3.0"), r"is about the release 4\.3\.1, and the bundle calm has 4\.3\.0"),
    ],
)
def test_a_bundle_of_another_release_or_gate_is_no_evidence_for_this_one(bundle: Verdict, said: str | None) -> None:
    row = decided("calm", [Try(bundle="calm", status=Status.PASS)])
    release = NamedRelease(version="4.3.1", commit="c")
    summary = GateSummary(required=("calm",), results=(row,), release=release, seed=7)
    if said is None:
        assert rejudged(summary, {"calm": bundle}) == summary
    else:
        with pytest.raises(BadEvidence, match=said):
            rejudged(summary, {"calm": bundle})


def test_the_bundles_of_a_gate_that_died_are_tries_of_one_scenario(tmp_path: Path) -> None:
    summary = GateSummary(required=("calm",), results=(), release=NamedRelease())
    first = structs.replace(verdict("calm", Status.INCONCLUSIVE), doubts=(Doubt("node_hung", "it hangs"),))
    after = rejudged(summary, {"calm-again": verdict("calm", Status.PASS), "calm": first})
    (found,) = after.results
    assert (found.status, found.bundle) == (Status.INCONCLUSIVE, "calm")
    write_gate(tmp_path, after)
    assert read_gate(tmp_path) == after


def test_a_second_bundle_of_a_scenario_that_no_row_names_is_refused() -> None:
    row = decided("calm", [Try(bundle="calm", status=Status.PASS)])
    summary = GateSummary(required=("calm",), results=(row,), release=NamedRelease())
    both = {name: verdict("calm", Status.PASS) for name in ("calm", "copy_of_calm")}
    with pytest.raises(BadEvidence, match="has a result of calm, and does not name its bundle copy_of_calm"):
        rejudged(summary, both)


def test_a_link_to_a_bundle_elsewhere_is_no_bundle_of_the_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seal_directory(write_example(tmp_path / "elsewhere" / "by_hand"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "by_hand").symlink_to(tmp_path / "elsewhere" / "by_hand")
    row = decided("by_hand", [Try(bundle="by_hand", status=Status.PASS)])
    write_gate(tmp_path / "out", GateSummary(required=("by_hand",), results=(row,), release=NamedRelease()))
    fake_judge(monkeypatch, Status.PASS)
    assert cli.invoke(["verify", str(tmp_path / "out")]) is Exit.USAGE
    assert "by_hand is a link to evidence elsewhere" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("first", "origin", "status", "decides"),
    [
        (Status.INCONCLUSIVE, DoubtOrigin.SCENARIO, Status.PASS, "calm-again"),
        (Status.INCONCLUSIVE, DoubtOrigin.RELEASE, Status.INCONCLUSIVE, "calm"),
        (Status.FAIL, DoubtOrigin.SCENARIO, Status.FAIL, "calm"),
    ],
)
def test_tries_that_are_judged_again_decide_as_they_did_at_first(
    first: Status, origin: DoubtOrigin, status: Status, decides: str
) -> None:
    lucky = Try(bundle="calm-again", status=Status.PASS)
    row = decided("calm", [Try(bundle="calm", status=Status.INCONCLUSIVE), lucky])
    summary = GateSummary(required=("calm",), results=(row,), release=NamedRelease())
    again = structs.replace(verdict("calm", first), doubts=(Doubt("floor_after", "12 acks", origin),))
    (found,) = rejudged(summary, {"calm": again, "calm-again": verdict("calm", Status.PASS)}).results
    assert (found.status, found.bundle) == (status, decides)
    assert found.tries == (Try(bundle="calm", status=first, origins=(origin,)), lucky)


@pytest.mark.parametrize(
    ("reported", "said"),
    [
        ({"took_s": 2112.4, "backends": ["processes"]}, ", on processes, in 35 min 12 s"),
        ({"took_s": 8.0, "backends": ["containers", "processes"]}, ", on containers and processes, in 8 s"),
        ({"took_s": None, "backends": []}, ""),
        ({}, ""),
    ],
)
def test_the_backends_and_the_duration_of_a_gate_are_reported_where_they_are_known(
    tmp_path: Path, reported: dict[str, Any], said: str
) -> None:
    plain = {"required": ["calm"], "scenarios": [_ROW], "release": {}, "seed": None}
    (tmp_path / "gate.json").write_text(json.dumps(plain | reported))
    summary = read_gate(tmp_path)
    assert backends_and_duration(summary.backends, summary.took_s) == said
    write_gate(tmp_path, summary)
    assert read_gate(tmp_path) == summary


def test_a_folder_without_read_access_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", refuses)
    (bundle,) = bundles_in(tmp_path)
    with pytest.raises(BadEvidence, match=r"cannot be read or written \(Permission denied\)"):
        Bundle.open(bundle)


def three_of_which(tmp_path: Path, damage: Callable[[Path], object]) -> Path:
    """OUT with two good bundles, and `damaged`."""
    for name in ("one", "damaged", "two"):
        seal_directory(write_example(tmp_path / "out" / name))
    damage(tmp_path / "out" / "damaged")
    return tmp_path / "out"


def test_a_folder_without_read_access_costs_no_other_bundle_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = three_of_which(tmp_path, lambda bundle: None)
    fake_judge(monkeypatch, Status.PASS)
    for question in ("is_file", "exists"):
        well = getattr(Path, question)

        def refuses(path: Path, well: Callable[[Path], bool] = well) -> bool:
            if path.parent == out / "damaged":
                raise PermissionError(13, "Permission denied", str(path))
            return well(path)

        monkeypatch.setattr(Path, question, refuses)
    assert cli.invoke(["verify", str(out)]) is Exit.USAGE
    said = capsys.readouterr().out
    assert said.strip().startswith("PASS of 2 of 3 bundles; 1 could not be judged: ")
    assert "cannot be read or written (Permission denied)" in said


def _unrecognizable(bundle: Path) -> None:
    for name in ("manifest.json", "scenario.json"):
        (bundle / name).unlink()


@pytest.mark.parametrize("damage", [lambda bundle: (bundle / "run.json").unlink(), _unrecognizable])
def test_a_pass_never_speaks_for_a_bundle_that_could_not_be_judged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[Path], object],
) -> None:
    out = three_of_which(tmp_path, damage)
    fake_judge(monkeypatch, Status.PASS)
    assert cli.invoke(["verify", str(out)]) is Exit.USAGE
    headline = capsys.readouterr().out.strip().splitlines()
    assert headline[0].startswith("PASS of 2 of 3 bundles; 1 could not be judged: ")
    assert any(line.startswith(f"    damaged: {out / 'damaged'}") for line in headline)
    assert 'type="NotJudged"' in (out / "junit.xml").read_text()
    assert cli.invoke(["verify", str(out), "--json"]) is Exit.USAGE
    plain = json.loads(capsys.readouterr().out)
    assert (plain["verdict"], plain["verdicts"].keys(), plain["refused"].keys()) == (
        "INCONCLUSIVE",
        {"one", "two"},
        {"damaged"},
    )


def test_a_folder_that_never_was_a_bundle_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = three_of_which(tmp_path, lambda bundle: None)
    (out / "allure" / "logs").mkdir(parents=True)
    fake_judge(monkeypatch, Status.PASS)
    assert cli.invoke(["verify", str(out)]) is Exit.PASS
    assert capsys.readouterr().out.strip().startswith("PASS of all 3 scenarios: ")


def test_a_bundle_that_a_gate_names_and_that_is_lost_has_no_pass_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seal_directory(write_example(tmp_path / "out" / "by_hand"))
    results = tuple(ScenarioResult(name=n, status=Status.PASS, bundle=n) for n in ("by_hand", "moved_away"))
    write_gate(
        tmp_path / "out",
        GateSummary(required=("by_hand", "moved_away"), results=results, seed=5, release=NamedRelease()),
    )
    fake_judge(monkeypatch, Status.PASS)
    assert cli.invoke(["verify", str(tmp_path / "out")]) is Exit.USAGE
    said = capsys.readouterr().out
    assert said.strip().startswith(
        "INCONCLUSIVE: 1 of 2 scenarios PASS, 1 without a verdict; 1 bundle could not be judged: "
    )
    assert "without a verdict: moved_away" in said


@pytest.mark.parametrize(
    ("crash", "kept", "code"),
    [
        (ValueError("two\nlines"), "crashed", Exit.HARNESS),
        (BadEvidence("damaged: a document lacks something"), "refused", Exit.USAGE),
    ],
)
def test_an_error_on_one_bundle_leaves_the_verdicts_on_the_others(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    crash: Exception,
    kept: str,
    code: Exit,
) -> None:
    out = three_of_which(tmp_path, lambda bundle: None)
    fake_judge(monkeypatch, Status.PASS)
    breaks_on(monkeypatch, "damaged", crash)
    assert cli.invoke(["verify", str(out), "--json"]) is code
    plain = json.loads(capsys.readouterr().out)
    assert (plain["verdict"], plain["verdicts"].keys(), plain[kept].keys()) == (
        "INCONCLUSIVE",
        {"one", "two"},
        {"damaged"},
    )
    assert "\n" not in plain[kept]["damaged"]
    fake_judge(monkeypatch, Status.FAIL)
    breaks_on(monkeypatch, "damaged", crash)
    assert cli.invoke(["verify", str(out)]) is Exit.FAIL
    assert "FAIL in 2 of 2 scenarios; 1 bundle could not be judged: " in capsys.readouterr().out


@pytest.mark.parametrize("crash", [HarnessFailure("Spark does not start"), BadInput("no Spark session on moon")])
def test_an_error_about_no_bundle_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash: Exception
) -> None:
    out = three_of_which(tmp_path, lambda bundle: None)
    fake_judge(monkeypatch, Status.PASS)
    asked = breaks_on(monkeypatch, "damaged", crash)
    assert cli.invoke(["verify", str(out)]) is (Exit.USAGE if isinstance(crash, BadInput) else Exit.HARNESS)
    assert asked == [3]


def test_after_a_signal_the_bundles_are_not_judged_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = three_of_which(tmp_path, lambda bundle: None)
    fake_judge(monkeypatch, Status.PASS)
    of_the_bridge = ConnectionError("answer from Java side is empty")
    of_the_bridge.__context__ = KeyboardInterrupt()
    asked = breaks_on(monkeypatch, "damaged", of_the_bridge)
    cli.invoke(["verify", str(out)])
    assert asked == [3]


def breaks_on(monkeypatch: pytest.MonkeyPatch, name: str, crash: Exception) -> list[int]:
    """Judging fails whenever that bundle is among those judged. Returns the sizes of the batches."""
    well = verify.judge_bundles
    asked: list[int] = []

    def judge(bundles: Any, master: str | None, progress: Any) -> list[Verdict]:
        asked.append(len(bundles))
        if name in {bundle.path.name for bundle in bundles}:
            raise crash
        return well(bundles, master, progress)

    monkeypatch.setattr(verify, "judge_bundles", judge)
    return asked


def test_an_error_on_a_bundle_that_is_alone_in_a_folder_is_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seal_directory(write_example(tmp_path / "out" / "damaged"))
    fake_judge(monkeypatch, Status.PASS)
    breaks_on(monkeypatch, "damaged", ValueError("we broke"))
    assert cli.invoke(["verify", str(tmp_path / "out")]) is Exit.HARNESS
    kept = tmp_path / "out" / "damaged-traceback.txt"
    assert f"the harness failed on it: ValueError: we broke; traceback: {kept}" in capsys.readouterr().err
    assert "Traceback" in kept.read_text()


@pytest.mark.parametrize(("crash", "code"), [(ValueError("we broke"), Exit.HARNESS), (BadEvidence("bad"), Exit.USAGE)])
def test_an_error_on_the_one_bundle_that_was_given_ends_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], crash: Exception, code: Exit
) -> None:
    seal_directory(write_example(tmp_path / "damaged"))
    fake_judge(monkeypatch, Status.PASS)
    breaks_on(monkeypatch, "damaged", crash)
    assert cli.invoke(["verify", str(tmp_path / "damaged"), "--json"]) is code
    said = capsys.readouterr()
    assert said.out == ""
    assert len([line for line in said.err.splitlines() if line.startswith("durability: ")]) == 1


def test_a_bundle_that_was_changed_after_its_verdict_is_named_and_one_alone_is_refused(tmp_path: Path) -> None:
    whole, changed = (seal_directory(write_example(tmp_path / "out" / name)).path for name in ("whole", "changed"))
    assert verify.damaged(tmp_path / "out") == verify.damaged(whole) == {}
    (changed / "steps.json").write_text("[]")
    assert list(verify.damaged(tmp_path / "out")) == ["changed"]
    with pytest.raises(BadEvidence):
        verify.damaged(changed)

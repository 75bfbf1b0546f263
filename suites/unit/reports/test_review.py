"""Tests of the review page: its numbers are those of the verdicts, and no text of the evidence becomes markup."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

import reports
from harness.commands import cli
from harness.evidence.gate import GateSummary, ScenarioResult, Try, decided, write_gate
from harness.evidence.layout import RELEASE_JARS
from harness.evidence.verdicts import read_verdict
from harness.model.documents.manifest import BuildDigest, NamedRelease, UsedPlugin
from harness.model.documents.steps import Effect
from harness.model.documents.verdict_facts import ShownStep, Totals
from harness.model.doubt_names import DoubtOrigin
from harness.model.errors import BadEvidence, BadInput
from harness.model.exits import Exit
from harness.model.finding import Finding, Kind, OwnKind
from harness.model.verdict import Doubt, Status, Verdict
from reports.review import page as page_module
from reports.review.content import doubts, incidents
from reports.review.coverage import NO_FAULT, coverage_of
from reports.review.loaded import load
from reports.summary import headline_lines
from suites.unit.evidence_examples import judged, lost, verdict
from suites.unit.reports.timeline_examples import send, step, write_run, write_steps, write_table

RELEASE = NamedRelease(version="4.3.1", commit="abc123", source="Maven Central", kafka="4.3.1")
MIB = 1 << 20


class Text(HTMLParser):
    """The text of a page without scripts and styles, its elements, and their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.inside, self.tags = "", set[str]()
        self.words, self.attributes = list[str](), list[tuple[str, str]]()
        self.feed(html)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside not in ("script", "style"):
            self.words.append(data)


def gate(out: Path, *verdicts: Verdict, required: int = 0) -> Path:
    """An --out folder with these verdicts and their tables."""
    for one in verdicts:
        write_run(judged(out / one.scenario, one))
    results = tuple(decided(v.scenario, [Try(bundle=v.scenario, status=v.status)]) for v in verdicts)
    names = tuple(v.scenario for v in verdicts) + tuple(f"left_{n}" for n in range(required))
    write_gate(out, GateSummary(required=names, results=results, release=RELEASE, seed=7, took_s=61.0))
    return out


def page(evidence: Path) -> str:
    return reports.write_page(evidence).read_text(encoding="utf-8")


def in_fault(given: Verdict, *, name: str = "kill_leader", do: str = "kill") -> Verdict:
    shown = ShownStep(name=name, do=do, is_fault=True, effect=Effect(held=True, because="it rose"))
    return replace(given, facts=replace(given.facts, steps=(shown,)))


def test_the_top_has_the_words_of_the_terminal_and_the_origin_of_the_release(tmp_path: Path) -> None:
    out = gate(tmp_path, verdict("a", Status.FAIL, lost(50)), verdict("b", Status.PASS), required=1)
    text = Text(page(out)).text
    loaded = load(out)
    for line, _ in headline_lines(loaded.summary, loaded.verdicts, {}):
        assert line.strip() in text
    for fact in ("4.3.1", "abc123", "Maven Central", "seed 7", "in 1 min 1 s", "1 of 12 fault episodes lost"):
        assert fact in text
    assert "not reached: the gate ended before it: left_0" in text


def test_the_top_names_the_files_and_the_java_that_were_tested(tmp_path: Path) -> None:
    build = BuildDigest(of="jars", digest="sha512:ab12", jars=92)
    release = replace(RELEASE, build=build, java="21.0.8 (Eclipse Adoptium)")
    given = verdict("a", Status.PASS)
    given = replace(given, facts=replace(given.facts, release=release))
    out = gate(tmp_path, given)
    text = Text(page(out)).text
    assert "SHA-512 of the list of 92 jars ab12" in text
    assert "Java of the brokers 21.0.8 (Eclipse Adoptium)" in text
    assert "list with the SHA-512 of each" not in text
    (out / RELEASE_JARS).write_text("ab12  a.jar\n", encoding="utf-8")
    read = Text(page(out))
    assert "jars list with the SHA-512 of each" in read.text
    assert ("href", f"../{RELEASE_JARS}") in read.attributes


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (BuildDigest(of="tarball", digest="sha512:cd34", jars=92), "SHA-512 of the tarball cd34"),
        (BuildDigest(of="image", digest="sha256:ef56"), "id of the image sha256:ef56"),
        (None, "SHA-512 not recorded"),
    ],
)
def test_a_digest_says_what_it_is_of(tmp_path: Path, build: BuildDigest | None, words: str) -> None:
    given = verdict("a", Status.PASS)
    given = replace(given, facts=replace(given.facts, release=replace(RELEASE, build=build)))
    text = Text(page(gate(tmp_path, given))).text
    assert words in text
    assert "Java of the brokers not recorded" in text


def test_a_scenario_has_the_command_that_plays_it_again(tmp_path: Path) -> None:
    control = verdict("b", Status.FAIL, lost(1))
    control = replace(control, facts=replace(control.facts, negative_control="acks=1"))
    text = Text(page(gate(tmp_path, verdict("a", Status.FAIL, lost(1)), control))).text
    assert text.count("durability run ") == text.count("durability run a ") == 2  # at the top, and at the scenario
    assert "durability run a --kafka 4.3.1 --seed 7" in text


def test_every_number_of_a_verdict_is_on_the_page(tmp_path: Path) -> None:
    found = (lost(1234), lost(7, first=9000), lost(3, first=20_000, excused_by="acks=1"))
    given = verdict("a", Status.FAIL, *found)
    totals = Totals(attempted=98_765, acked=87_654, promised=87_000, refused=111, unknown=11_000)
    out = gate(tmp_path, replace(given, facts=replace(given.facts, records=totals), promised=87_001, durable=85_760))
    text, read = Text(page(out)).text, read_verdict(out / "a")
    assert read.facts.records == totals
    numbers = [*(totals.attempted, totals.acked, totals.refused, totals.unknown), read.promised, read.durable]
    assert [n for n in numbers if f"{n:,}" not in text] == []
    assert "1,241 records of plain-0, offsets 100 to 9006" in text
    assert "1,234 records of plain-0, offsets 100 to 1333" in text
    assert "3 records of plain-0, offsets 20000 to 20002" in text
    assert f"{read.promised:,} promised records" in text


def test_findings_of_one_kind_partition_and_step_are_one_incident_and_the_worst_come_first() -> None:
    elsewhere = replace(lost(5), partition=1)
    later = replace(lost(500), kind=Kind.DUPLICATED)
    own = Finding(kind=OwnKind("of_a_plugin", "A promise of ours is broken."), count=1)
    given = verdict("a", Status.FAIL, later, lost(2), elsewhere, lost(4, first=900), own, lost(9, excused_by="x"))
    made = incidents({"a": given, "b": verdict("b", Status.FAIL, lost(1))}, condemning=True)
    assert [(i.scenario, i.kind, i.place, i.count, i.findings) for i in made] == [
        ("a", "of_a_plugin", "", 1, 1),
        ("a", "lost", "plain-0", 6, 2),
        ("a", "lost", "plain-1", 5, 1),
        ("b", "lost", "plain-0", 1, 1),
        ("a", "duplicated", "plain-0", 500, 1),
    ]
    assert made[1].span_ns == (lost().first_ns, lost().last_ns)
    (permitted,) = incidents({"a": given}, condemning=False)
    assert (permitted.count, permitted.reasons) == (9, ("permitted: x",))


def test_doubts_that_say_the_same_are_one_line_with_their_origin() -> None:
    said = [Doubt("floor_after", "12 acks", DoubtOrigin.SCENARIO)] * 2 + [Doubt("client_hung", "it hangs")]
    given = replace(verdict("a", Status.INCONCLUSIVE), doubts=tuple(said))
    assert [(one.origin, one.texts) for one in doubts({"a": given})] == [
        ("release", ("it hangs",)),
        ("scenario", ("12 acks",)),
    ]


def test_a_cell_of_the_matrix_says_the_worst_that_was_found_with_its_fault(tmp_path: Path) -> None:
    verdicts = {
        "a": in_fault(verdict("a", Status.FAIL, lost(50), lost(5, first=500))),
        "b": in_fault(
            verdict("b", Status.PASS, replace(lost(8, excused_by="acks=1"), step="cut")), name="cut", do="cut"
        ),
        "c": in_fault(verdict("c", Status.INCONCLUSIVE), name="p", do="pause"),
        "d": verdict("d", Status.PASS),
    }
    bundles = {name: write_run(tmp_path / name) for name in verdicts}
    write_table(bundles["a"], "transactions", [{"txn_id": 1}])
    made = coverage_of(verdicts, bundles)
    assert made.faults == ("cut", "kill", "pause", NO_FAULT)
    cells = {line.kind: [(cell.look, cell.text, cell.scenario) for cell in line.cells] for line in made.lines}
    assert cells["vanished"] == [
        ("pass", "PASS", "b"),
        ("pass", "PASS", "a"),
        ("inconclusive", "INCONCLUSIVE", "c"),
        ("pass", "PASS", "d"),
    ]
    # These bundles have no reads.json, without which a lost record cannot be told from one that was not read.
    assert cells["lost"] == [
        ("permitted", "permitted 8", "b"),
        ("fail", "FAIL 55", "a"),
        ("not-run", "not run", None),
        ("not-run", "not run", None),
    ]
    # Only the bundle of `a` has the table that could show a torn transaction.
    assert [text for _, text, _ in cells["torn_transaction"]] == ["not run", "PASS", "not run", "not run"]


def test_a_kind_of_a_plugin_counts_as_tested_where_the_plugin_judged(tmp_path: Path) -> None:
    plugin = UsedPlugin(name="acme", files={}, faults=(), scenarios=(), checks={}, kinds={"late_ack": "It was late."})
    late = Finding(kind=OwnKind("late_ack", "It was late."), count=3)
    verdicts = {
        name: in_fault(verdict(name, status, *found), do=name)
        for name, status, found in (("a", Status.FAIL, [late]), ("b", Status.PASS, []), ("c", Status.PASS, []))
    }
    for name in ("a", "b"):
        verdicts[name] = replace(verdicts[name], facts=replace(verdicts[name].facts, plugins=(plugin,)))
    (line,) = [line for line in coverage_of(verdicts, {}).lines if line.kind == "late_ack"]
    assert [cell.text for cell in line.cells] == ["FAIL 3", "PASS", "not run"]


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\x00\u202e'\"{{ 7 * 7 }}\ud800"


def test_foreign_text_is_text(tmp_path: Path) -> None:
    hostile = replace(lost(3), topic=HOSTILE, detail=HOSTILE, contract=HOSTILE, step=HOSTILE, reader=HOSTILE)
    given = replace(
        in_fault(verdict("a", Status.FAIL, hostile), name=HOSTILE, do=HOSTILE),
        doubts=(Doubt(HOSTILE, HOSTILE),),
        notes=(HOSTILE,),
        not_covered=(HOSTILE,),
    )
    out = gate(tmp_path, given)
    write_table(out / "a", "ledger", [send(0, 0.1, topic=HOSTILE.replace("\ud800", ""))])
    write_steps(out / "a", step(HOSTILE, HOSTILE, 0, 1, error=HOSTILE, effect={"held": False, "because": HOSTILE}))
    html = page(out)
    read = Text(html)
    assert "img" not in read.tags
    assert not [name for name, _ in read.attributes if name.startswith("on")]
    assert html.count("<script") == html.count("</script>") == 5  # four programs and the data of one timeline
    assert all(c.isprintable() or c == "\n" for c in html)
    assert "{{ 7 * 7 }}" in read.text
    assert "49" not in re.findall(r"[{}] ?(\d+) ?[{}]", unescape(html))


def test_a_text_of_a_megabyte_is_cut(tmp_path: Path) -> None:
    out = gate(tmp_path, verdict("a", Status.FAIL, replace(lost(3), detail="x" * MIB)))
    assert "(1,044,576 more characters)" in Text(page(out)).text


def test_only_the_scripts_of_this_package_may_run_and_markup_loads_nothing(tmp_path: Path) -> None:
    read = Text(page(gate(tmp_path, verdict("a", Status.PASS))))
    (policy,) = [value for _, value in read.attributes if value.startswith("default-src")]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert policy.count("'sha256-") == 4
    (scripts,) = re.findall(r"script-src ([^;]*);", policy)
    assert {word for word in scripts.split() if "sha256" not in word} == {"'strict-dynamic'"}  # only they load others
    addresses = [value for name, value in read.attributes if name in ("src", "href")]
    assert [value for value in addresses if "//" in value] == []
    assert not read.tags & {"link", "iframe", "object", "form", "base"}


def test_every_link_within_the_page_has_a_target_and_every_file_exists(tmp_path: Path) -> None:
    out = gate(tmp_path, in_fault(verdict("a", Status.FAIL, lost(1))), in_fault(verdict("b c", Status.PASS)))
    read = Text(page(out))
    targets = {value for name, value in read.attributes if name == "id"}
    links = {value for name, value in read.attributes if name == "href"}
    assert {link[1:] for link in links if link.startswith("#")} <= targets
    files = [link for link in links if not link.startswith("#")]
    assert "../b%20c/verdict.json" in files
    assert all((out / "report" / link.replace("%20", " ")).exists() for link in files)


def test_a_bundle_without_tables_history_and_steps_gives_a_page_that_says_so(tmp_path: Path) -> None:
    judged(tmp_path, verdict("a", Status.PASS))
    (tmp_path / "scenario.json").write_text("{}", encoding="utf-8")
    text = Text(page(tmp_path)).text
    assert "PASS of scenario a" in text
    assert "so there is no timeline" in text


def test_a_bundle_without_a_verdict_gives_a_page_that_says_so(tmp_path: Path) -> None:
    out = gate(tmp_path, verdict("a", Status.PASS), verdict("b", Status.PASS))
    (out / "b" / "verdict.json").unlink()
    text = Text(page(out)).text
    assert text.count("has no verdict.json yet; run `durability verify") >= 2
    assert "PASS of 1 of 2 bundles; 1 could not be judged" in text
    only = Text(page(out / "b")).text
    assert "NOT JUDGED" in only
    assert "Ack" in only or "Timeline" in only


def test_a_verdict_that_differs_from_the_gate_is_named(tmp_path: Path) -> None:
    out = gate(tmp_path, verdict("a", Status.PASS))
    judged(out / "a", verdict("a", Status.FAIL, lost(5)))
    text = Text(page(out)).text
    assert "gate.json says PASS, and its verdict.json FAIL" in text
    assert text.startswith("INCONCLUSIVE: ")
    assert "5 records of plain-0" in text


def test_bundles_without_a_gate_are_shown_with_their_tries(tmp_path: Path) -> None:
    write_run(judged(tmp_path / "a", verdict("a", Status.INCONCLUSIVE)))
    write_run(judged(tmp_path / "a-again", verdict("a", Status.PASS)))
    text = Text(page(tmp_path)).text
    assert "try 1: INCONCLUSIVE, a" in text
    assert "try 2: PASS, a-again" in text


def test_a_bundle_that_the_gate_does_not_name_and_a_harness_error_are_not_hidden(tmp_path: Path) -> None:
    out = gate(tmp_path, verdict("a", Status.PASS))
    write_run(judged(out / "other", verdict("other", Status.FAIL)))
    broke = ScenarioResult(name="broke", status=None, error="no slot is free")
    results = (decided("a", [Try(bundle="a", status=Status.PASS)]), broke)
    write_gate(out, GateSummary(required=("a", "broke"), results=results, release=RELEASE))
    text = Text(page(out)).text
    assert "gate.json does not name it; run durability verify: other" in text
    assert "harness error: no slot is free: broke" in text


def test_a_large_gate_stays_below_5_mb(tmp_path: Path) -> None:
    """200 scenarios, one of them with a million records to count: more than a gate has."""
    names = [f"scenario_{n}" for n in range(200)]
    made = [
        in_fault(verdict(name, Status.PASS, *[lost(1, first=n, excused_by="x") for n in range(20)])) for name in names
    ]
    out = gate(tmp_path, *made)
    write_table(out / names[0], "ledger", [send(i / 500, (i % 97) / 100) for i in range(100_000)])
    path = reports.write_page(out)
    assert path.stat().st_size < 5_000_000


def test_timelines_that_do_not_fit_are_left_out_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "TIMELINES_MAX", 10)
    text = Text(page(gate(tmp_path, verdict("a", Status.PASS)))).text
    assert "The timeline is too large for this page: run durability report on this bundle alone." in text


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = gate(tmp_path / "out", verdict("a", Status.PASS))
    before = page(out)
    monkeypatch.setattr(Path, "replace", lambda self, target: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(BadInput, match=r"cannot be written \(No space left\); give another folder with --out"):
        reports.write_page(out)
    assert [path.name for path in (out / "report").rglob("*.tmp")] == []
    assert (out / "report" / "index.html").read_text(encoding="utf-8") == before


def test_the_terminal_says_where_the_page_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = gate(tmp_path, verdict("a", Status.PASS))
    reports.publish(out)
    assert capsys.readouterr().out.endswith(f"review page: {out / 'report' / 'index.html'}\n")


def test_a_page_that_cannot_be_written_changes_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = gate(tmp_path, verdict("a", Status.PASS))
    (out / "report").write_text("a file")
    reports.publish(out)
    said = capsys.readouterr()
    assert "PASS of scenario a" in said.out
    (line,) = said.err.splitlines()
    assert line.startswith("durability: there is no review page: ")
    assert "review page:" not in said.out

    def broken(*given: object, **named: object) -> str:
        raise RuntimeError("a bug\nin two lines")

    (out / "report").unlink()
    monkeypatch.setattr("reports.review.page_of", broken)
    reports.publish(out)
    assert "there is no review page: RuntimeError: a bug in two lines" in capsys.readouterr().err


def test_the_command_writes_the_page_where_it_is_asked_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = gate(tmp_path / "out", verdict("a", Status.FAIL, lost(1)))
    assert cli.invoke(["report", str(out), "--out", str(tmp_path / "x" / "y")]) is Exit.PASS
    assert capsys.readouterr().out == f"wrote {tmp_path / 'x' / 'y' / 'index.html'}\n"
    assert "../../out/a/verdict.json" in (tmp_path / "x" / "y" / "index.html").read_text(encoding="utf-8")
    assert not (out / "report").exists()
    (tmp_path / "file").write_text("x")
    assert cli.invoke(["report", str(out), "--out", str(tmp_path / "file")]) is Exit.USAGE
    assert "cannot be written" in capsys.readouterr().err


def test_what_is_no_evidence_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadEvidence, match="holds no evidence bundle"):
        reports.write_page(tmp_path)
    (tmp_path / "gate.json").write_text("[]", encoding="utf-8")
    with pytest.raises(BadEvidence, match="is not the summary of a gate"):
        reports.write_page(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["gate.json"]

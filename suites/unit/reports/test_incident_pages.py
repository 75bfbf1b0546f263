"""Tests of the pages of incidents: numbers, records and pictures are those of the evidence, and text stays text."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import reports
from harness.evidence.gate import GateSummary, Try, decided, write_gate
from harness.evidence.verdicts import read_verdict
from harness.model.documents.manifest import NamedRelease
from harness.model.errors import BadInput
from harness.model.finding import Finding, Kind
from harness.model.verdict import Status
from reports.incidents import page as page_module
from reports.incidents import records
from reports.policy import script
from reports.review.content import Incident, incidents, with_page
from suites.unit.evidence_examples import judged, verdict
from suites.unit.reports.incident_examples import (
    bundle_with,
    log_line,
    lost,
    page_of,
    picture_in,
    rows_of,
    unpacked,
    write_cluster,
    write_findings,
    write_logs,
)
from suites.unit.reports.test_review import HOSTILE, Text
from suites.unit.reports.timeline_examples import TOPIC_ID, at

RELEASE = NamedRelease(version="4.3.1", commit="abc123", source="Maven Central", kafka="4.3.1")


def written(bundle: Path) -> Path:
    """The folder of the pages of a bundle."""
    return reports.write_page(bundle).parent


def cells(html: str) -> list[list[str]]:
    """The rows of the table of records."""
    (table,) = re.findall(r'<table class="records">(.*?)</table>', html, re.DOTALL)
    return [re.findall(r"<td>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", table)][1:]


def heads(html: str) -> list[str]:
    (table,) = re.findall(r'<table class="records">(.*?)</table>', html, re.DOTALL)
    return re.findall(r'<th scope="col">(.*?)</th>', table)


def test_a_page_has_the_words_of_the_review_page_and_both_lead_to_each_other(tmp_path: Path) -> None:
    report = written(bundle_with(tmp_path, lost(100, 50)))
    html, index = page_of(report), (report / "index.html").read_text(encoding="utf-8")
    text = Text(html).text
    for said in ("lost", "50 records of plain-0, offsets 100 to 149", "during kill_leader", Kind.LOST.meaning):
        assert said in text
        assert said in Text(index).text
    (there,) = {*re.findall(r'href="(incident-[^"]*)\.html"', index)}  # at the top, and below
    (back,) = re.findall(r'href="index\.html#([^"]*)"', html)
    assert there == back
    assert f'id="{back}"' in index
    assert (report / f"{there}.html").is_file()


def test_every_number_of_the_verdict_is_on_the_page(tmp_path: Path) -> None:
    found = (lost(100, 1234), lost(9000, 7, stream=3, seq_first=77_000, seq_last=77_006))
    bundle = bundle_with(tmp_path, *found)
    text, read = Text(page_of(written(bundle))).text, read_verdict(bundle)
    assert sum(one.count for one in read.findings) == 1241
    assert "1,241 records of plain-0, offsets 100 to 9006" in text
    assert "(2 findings)" in text
    assert "1,234 records of plain-0, offsets 100 to 1333" in text
    assert "7 records of plain-0, offsets 9000 to 9006, sent" in text
    assert "The first 100 of 1,241 rows" in text


def test_it_says_that_no_cause_was_looked_for(tmp_path: Path) -> None:
    html = page_of(written(bundle_with(tmp_path, lost(100, 50))))
    (cause,) = re.findall(r'<section id="cause".*?</section>', html, re.DOTALL)
    assert "No tool has looked for the cause of this incident yet; it will stand here." in Text(cause).text


def test_it_has_the_commands_that_play_and_judge_it_again(tmp_path: Path) -> None:
    bundle = bundle_with(tmp_path / "a b", lost(100, 50))
    results = (decided("a b", [Try(bundle="a b", status=Status.FAIL)]),)
    write_gate(tmp_path, GateSummary(required=("a b",), results=results, release=RELEASE, seed=7))
    text = Text(page_of(written(tmp_path))).text
    assert "durability run 'a b' --kafka 4.3.1 --seed 7" in text
    assert f"durability verify '{bundle}'" in text
    alone = Text(page_of(written(bundle))).text  # its manifest, which names the release, is missing
    assert "durability run" not in alone
    assert "is not known" in alone


def test_the_first_hundred_records_are_those_of_the_table(tmp_path: Path) -> None:
    finding = lost(100, 250)
    bundle = bundle_with(tmp_path, finding)
    html = page_of(written(bundle))
    assert "The first 100 of 250 rows" in Text(html).text
    expected = pq.read_table(bundle / "findings.parquet").to_pylist()[:100]
    names = {"sent, UTC": "called_ns", "answered, UTC": "returned_ns"}
    columns = [names.get(head, head) for head in heads(html)]
    assert columns == ["offset", "stream", "seq", "outcome", "called_ns", "returned_ns", "producer", "reason"]

    def shown(name: str, value: object) -> str:
        if not name.endswith("_ns") or not isinstance(value, int):
            return str(value)
        return f"{datetime.fromtimestamp(value // 10**9, UTC):%H:%M:%S}.{value % 10**9:09d}"

    assert cells(html) == [[shown(name, row[name]) for name in columns] for row in expected]


def test_all_records_are_in_both_files_and_no_others(tmp_path: Path) -> None:
    own = [lost(100, 150), lost(340, 5, reader="app"), lost(400, 3)]
    others = [
        lost(100, 5, partition=1),
        lost(110, 5, excused_by="acks=1"),
        lost(120, 5, explained_by="the client"),
        lost(130, 5, reader="other", step="later"),
        lost(140, 5, topic="plain-0"),
        lost(150, 5, kind=Kind.CORRUPT),
    ]
    bundle = bundle_with(tmp_path, *others, *own)
    report = written(bundle)
    made = incidents({bundle.name: read_verdict(bundle)}, condemning=True)
    (incident,) = [one for one in made if (one.kind, one.place, one.step) == ("lost", "plain-0", "kill_leader")]
    assert incident.count == 158
    as_parquet = pq.read_table(report / f"{incident.stem}.parquet")
    assert as_parquet.to_pylist() == [
        {name: row.get(name) for name in as_parquet.column_names} for one in own for row in rows_of(one)
    ]
    as_csv = pa_csv.read_csv(report / f"{incident.stem}.csv")
    assert as_csv.column_names == as_parquet.column_names
    for name in ("offset", "seq", "called_ns", "returned_ns", "topic", "reason"):
        assert as_csv.column(name).to_pylist() == as_parquet.column(name).to_pylist()
    rows = [pq.read_metadata(path).num_rows for path in report.glob("*.parquet")]
    assert sorted(rows) == [5, 5, 5, 5, 10, 158]  # the permitted and the explained one are one incident


def test_ranges_that_a_verdict_does_not_list_have_their_records_too(tmp_path: Path) -> None:
    rest = Finding(kind=Kind.LOST, count=7, detail="2 more ranges of offsets; findings.parquet has every record")
    bundle = bundle_with(tmp_path, lost(100, 5), rest)
    hidden = [lost(200, 4), lost(300, 3, partition=1)]
    other = lost(400, 9, excused_by="acks=1")
    write_findings(bundle, [row for one in (lost(100, 5), *hidden, other) for row in rows_of(one)])
    report = written(bundle)
    html = next(t for t in map(Path.read_text, report.glob("incident-*.html")) if "2 more ranges of offsets" in t)
    assert heads(html)[:3] == ["topic", "partition", "offset"]
    where = [("plain", "0", n) for n in (200, 201, 202, 203)] + [("plain", "1", n) for n in (300, 301, 302)]
    assert [tuple(row[:3]) for row in cells(html)] == [(topic, place, str(n)) for topic, place, n in where]
    assert "All 7 rows" in Text(html).text
    assert "The findings name no single partition" in Text(html).text


def test_the_rest_of_one_partition_is_shown_without_that_of_another(tmp_path: Path) -> None:
    place = {"kind": Kind.LOST, "topic": "plain", "topic_id": TOPIC_ID, "detail": "more ranges of offsets"}
    rest = [Finding(partition=partition, count=count, **place) for partition, count in ((0, 4), (1, 3))]  # type: ignore[arg-type]
    bundle = bundle_with(tmp_path, lost(100, 5), *rest)
    hidden = [lost(200, 4), lost(300, 3, partition=1)]
    write_findings(bundle, [row for one in (lost(100, 5), *hidden) for row in rows_of(one)])
    report = written(bundle)
    pages = [cells(html) for html in map(Path.read_text, report.glob("incident-*.html")) if "more ranges" in html]
    assert [["300", "301", "302"] in [[row[0] for row in page] for page in pages]] == [True]
    assert sum(len(page) for page in pages) == 4 + 3


def test_records_without_an_offset_are_found_by_stream_and_sequence(tmp_path: Path) -> None:
    missing = Finding(
        kind=Kind.LOST, topic="plain", topic_id=TOPIC_ID, partition=0, stream=3, seq_first=5, seq_last=6, count=2
    )
    bundle = bundle_with(tmp_path, missing)
    row = {**rows_of(lost(0, 1))[0], "offset": None}
    rows = [{**row, "seq": 4}, {**row, "seq": 5}, {**row, "seq": 6}, {**row, "seq": 5, "stream": 4}]
    write_findings(bundle, [*rows, {**row, "seq": 6, "offset": 6}])
    html = page_of(written(bundle))
    assert heads(html)[:2] == ["stream", "seq"]
    assert [row[:2] for row in cells(html)] == [["3", "5"], ["3", "6"]]


def test_a_finding_without_rows_says_so_and_writes_no_files(tmp_path: Path) -> None:
    crashed = Finding(kind=Kind.CRASHED, count=1, first_ns=at(2), last_ns=at(2), detail="broker 1 ended")
    report = written(bundle_with(tmp_path, crashed))
    html = page_of(report)
    text = Text(html).text
    assert "findings.parquet has no row about this incident" in text
    assert "The findings name no single partition" in text
    assert sorted(p.suffix for p in report.iterdir() if p.is_file()) == [".html", ".html"]
    picture = picture_in(html)
    assert picture["span"] == {"text": "crashed: 1 node", "from_s": 2.0, "to_s": 2.0, "moments": []}
    assert picture["by_offset"] == []


def test_a_long_list_of_records_is_compressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "PLAIN_ROWS_MAX", 49)
    report = written(bundle_with(tmp_path, lost(100, 50)))
    (packed,) = report.glob("*.csv.gz")
    assert gzip.decompress(packed.read_bytes()).count(b"\n") == 51
    assert f'href="{packed.name}"' in page_of(report)
    assert ">csv.gz</a>" in page_of(report)


def test_the_picture_by_time_has_every_acknowledged_record_in_its_epoch(tmp_path: Path) -> None:
    html = page_of(written(bundle_with(tmp_path, lost(100, 80))))
    picture = picture_in(html)
    acked = picture["acked"]
    assert isinstance(acked, list)
    assert sum(one["count"] for one in acked) == 230
    first, second = ([one for one in acked if one["epoch"] == epoch] for epoch in (0, 1))
    assert (min(s["low"] for s in first), max(s["high"] for s in first), sum(s["count"] for s in first)) == (
        0,
        179,
        180,
    )
    assert (min(s["low"] for s in second), max(s["high"] for s in second)) == (100, 149)
    found = picture["found"]
    assert isinstance(found, list)
    assert sum(one["count"] for one in found) == 80
    assert all(one["from_s"] <= 1.3 + (one["low"] - 100) / 100 <= one["to_s"] + 1e-6 for one in found)
    positions = picture["positions"]
    assert isinstance(positions, dict)
    assert positions["ends"] == {"1": [[0.5, 50], [1.5, 150]], "2": [[1.5, 100], [3.0, 150]]}


def test_the_picture_by_offset_has_exact_parts_where_a_cell_is_an_offset(tmp_path: Path) -> None:
    picture = picture_in(page_of(written(bundle_with(tmp_path, lost(160, 20)))))
    shown = picture["by_offset"]
    assert isinstance(shown, list)
    whole, near = shown
    assert (whole["name"], whole["low"], whole["high"]) == ("whole log", 0, 179)
    assert (near["name"], near["low"], near["high"]) == ("around the incident", 140, 179)
    rows = {row["name"]: [(p["low"], p["high"], p["share"], p["epoch"]) for p in row["parts"]] for row in whole["rows"]}
    assert rows == {
        "acknowledged": [(0, 99, 1.0, 0), (100, 149, 1.0, None), (150, 179, 1.0, 0)],  # both epochs have 100 to 149
        "lost": [(160, 179, 1.0, None)],
        "live readers": [(0, 119, 1.0, None)],
        "leader, after healing": [(0, 149, 1.0, None)],
        "log of broker 1": [(0, 99, 1.0, 0), (100, 149, 1.0, 1)],
        "log of broker 2": [(0, 99, 1.0, 0), (100, 149, 1.0, 1)],
    }


def test_the_tables_say_where_logs_ended_before_each_epoch_and_after_healing(tmp_path: Path) -> None:
    text = Text(page_of(written(bundle_with(tmp_path, lost(100, 50))))).text
    assert "epoch 1, broker 2 2 the ISR 1: 150, 2: 100" in text
    assert "broker 1 0 from 0, 1 from 100 0 150" in text
    assert "High watermark of the leader: 150." in text
    assert "acknowledged 230 0 179" in text
    assert "leader, after healing 150 0 149" in text


def test_log_lines_around_an_incident_are_shown_and_those_about_the_partition_first(tmp_path: Path) -> None:
    bundle = bundle_with(tmp_path, lost(100, 50))
    write_logs(
        bundle,
        "server-2.log",
        log_line(-60, "long before"),
        log_line(1.0, "Replica plain-0 fails to answer", "WARN"),
        "java.io.IOException: Connection reset",
        "\tat org.apache.kafka.Some.method(Some.java:7)",
        log_line(2.0, "plain-0 starts at leader epoch 1 from offset 100"),
        log_line(2.0, "plain-01 starts at leader epoch 9"),
        log_line(2.1, "not about it"),
        log_line(60, "long after"),
    )
    write_logs(bundle, "server-1.log", log_line(1.9, "it ends", "ERROR"), log_line(4, "the last line"))
    (logs,) = re.findall(r'<section id="logs".*?</section>', page_of(written(bundle)), re.DOTALL)
    text = Text(logs).text
    assert "6 lines from" in text
    telling = text.index("server-2 INFO plain-0 starts at leader epoch 1 from offset 100")
    assert telling < text.index("server-2 WARN Replica plain-0 fails") < text.index("server-1 ERROR it ends")
    assert "java.io.IOException: Connection reset" in text
    assert "at org.apache.kafka.Some.method(Some.java:7)" in text
    assert text.index("Warnings and errors: 2") < text.index("server-1 ERROR it ends")
    assert text.index("server-2 WARN Replica") < text.index("Other lines: 3") < text.index("plain-01 starts")
    assert "long before" not in text
    assert "long after" not in text


@pytest.mark.parametrize(("hours", "said"), [(0, None), (5, "5 h ahead of UTC"), (-3, "3 h behind UTC")])
def test_local_times_of_logs_are_shown_in_utc(tmp_path: Path, hours: int, said: str | None) -> None:
    bundle = bundle_with(tmp_path, lost(100, 50))
    for node in (1, 2):
        write_logs(
            bundle, f"server-{node}.log", log_line(2, "it happened", hours=hours), log_line(4, "end", hours=hours)
        )
    write_logs(bundle, "server-3.log", log_line(4, "a clock that a fault changed", hours=hours - 9))
    text = Text(page_of(written(bundle))).text
    time = datetime.fromtimestamp(at(2) // 10**9, UTC)
    assert text.count(f"{time:%H:%M:%S}.000 server-") == 2
    assert "a clock that" not in text
    assert (said in text) if said else ("of UTC" not in text)


def test_lines_that_differ_in_numbers_alone_leave_room_for_others(tmp_path: Path) -> None:
    bundle = bundle_with(tmp_path, lost(100, 50))
    storm = [log_line(1 + n / 1000, f"fetch {n} of plain-0 failed", "ERROR") for n in range(900)]
    write_logs(bundle, "server-1.log", *storm, log_line(2, "quiet"), log_line(4, "end"))
    text = Text(page_of(written(bundle))).text
    assert "5 lines from" in text
    assert "897 other lines of that time" in text
    assert "INFO quiet" in text


def test_an_incident_without_a_time_has_the_lines_of_its_fault(tmp_path: Path) -> None:
    bundle = bundle_with(tmp_path, lost(100, 50, first_ns=None, last_ns=None))
    write_logs(bundle, "server-1.log", log_line(2, "it happened"), log_line(4, "end"))
    text = Text(page_of(written(bundle))).text
    assert "around the fault kill_leader, as the incident has no time" in text
    assert "it happened" in text


def test_hostile_text_is_text(tmp_path: Path) -> None:
    safe = HOSTILE.replace("\ud800", "")
    finding = lost(100, 2, topic=safe, detail=HOSTILE, contract=HOSTILE, step=HOSTILE, reader=safe)
    bundle = bundle_with(tmp_path, finding)
    write_logs(bundle, "server<b>.log", log_line(1, safe, "ERROR"), f"\t{safe}", log_line(4, "end"))
    html = page_of(written(bundle))
    read = Text(html)
    assert "img" not in read.tags
    assert not [name for name, _ in read.attributes if name.startswith("on")]
    assert html.count("<script") == html.count("</script>") == 4  # the data, the library, and two programs
    assert all(c.isprintable() or c == "\n" for c in html)
    assert read.text.count("<img src=x onerror=alert(2)>") >= 8
    assert "{{ 7 * 7 }}" in read.text


def test_topics_that_are_no_text_give_a_page(tmp_path: Path) -> None:
    report = written(bundle_with(tmp_path, lost(100, 50), lost(7, 1, topic="\ud800", offset_first=None)))
    assert len(list(report.glob("incident-*.html"))) == 2


def test_a_line_of_a_megabyte_is_cut(tmp_path: Path) -> None:
    bundle = bundle_with(tmp_path, lost(100, 50))
    write_logs(bundle, "server-1.log", log_line(2, "plain-0 " + "x" * (1 << 20)), log_line(3, "after it"))
    report = written(bundle)
    text = Text(page_of(report)).text
    assert "(a line of 1,048,6" in text
    assert "after it" in text
    assert len(page_of(report)) < 1_000_000


def test_a_page_has_as_many_lines_as_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = bundle_with(tmp_path, lost(100, 50))
    lines = [log_line(1 + n / 1000, "xyz"[n % 3] * (n // 3 + 1) + '"' * 2_900, "ERROR") for n in range(240)]
    write_logs(bundle, "server-1.log", *[line for one in lines for line in (one, *['"' * 5_000] * 9)])
    (page,) = written(bundle).glob("incident-*.html")
    assert 2_000_000 < page.stat().st_size < page_module.SIZE_MAX  # each quotation mark takes five characters
    assert "200 lines from" in Text(page.read_text(encoding="utf-8")).text
    monkeypatch.setattr(page_module, "SIZE_MAX", 2_000_000)
    written(bundle)
    assert 500_000 < page.stat().st_size <= 2_000_000
    text = Text(page.read_text(encoding="utf-8")).text
    assert "50 lines from" in text
    assert "190 other lines" in text


def test_a_link_out_of_the_logs_is_not_followed(tmp_path: Path) -> None:
    bundle = bundle_with(tmp_path / "a", lost(100, 50))
    (tmp_path / "secret.log").write_text(log_line(2, "a secret") + "\n")
    write_logs(bundle, "server-1.log", log_line(2, "no secret"))
    (bundle / "logs" / "server-2.log").symlink_to(tmp_path / "secret.log")
    text = Text(page_of(written(bundle))).text
    assert "no secret" in text
    assert "a secret" not in text


def test_only_scripts_of_this_package_may_run_and_nothing_is_loaded(tmp_path: Path) -> None:
    html = page_of(written(bundle_with(tmp_path, lost(100, 50))))
    read = Text(html)
    (policy,) = [value for _, value in read.attributes if value.startswith("default-src")]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    library = unpacked(html, "library")
    assert library.decode() == script("charts/echarts.min.js")
    programs = [text.encode() for text in re.findall(r"<script>(.*?)</script>", html, re.DOTALL)]
    allowed = re.findall(r"'sha256-([^']*)'", policy)
    assert allowed == [base64.b64encode(hashlib.sha256(one).digest()).decode() for one in (library, *programs)]
    assert "unsafe-eval" not in policy
    assert [v for n, v in read.attributes if n in ("src", "href") and "//" in v] == []
    assert not read.tags & {"link", "iframe", "object", "form", "base"}


def test_both_pages_have_the_same_styles(tmp_path: Path) -> None:
    report = written(bundle_with(tmp_path, lost(100, 50)))
    styles = (Path(reports.__file__).parent / "templates" / "style.css").read_text(encoding="utf-8").strip()
    assert "prefers-color-scheme: dark" in styles
    assert styles in page_of(report)
    assert styles in (report / "index.html").read_text(encoding="utf-8")


def test_every_link_of_a_page_has_a_target(tmp_path: Path) -> None:
    bundle = bundle_with(tmp_path / "a b", lost(100, 50))
    write_logs(bundle, "server-1.log", log_line(2, "x"))
    report = written(bundle)
    read = Text(page_of(report))
    targets = {value for name, value in read.attributes if name == "id"}
    links = {value for name, value in read.attributes if name == "href"}
    assert {link[1:] for link in links if link.startswith("#")} <= targets
    files = {link.partition("#")[0].replace("%20", " ") for link in links if not link.startswith("#")}
    assert {"index.html", "../verdict.json", "../findings.parquet", "../logs"} <= files
    assert all((report / file).exists() for file in files)


GARBAGE = {
    "findings.parquet": "so there are no records|cannot be read as a table|not a whole Parquet file",
    "history.json": "cannot be read as JSON|so leaders and leader epochs are not shown",
    "cluster.json": "cannot be read as JSON|so the logs at the end of the run are not shown",
    "steps.json": "cannot be read as JSON",
    "ledger/one-0.parquet": "not a whole Parquet file|The ledger has no acknowledged record",
    "positions/one-0.parquet": "not a whole Parquet file|so log ends by time are not shown",
    "observations/one-0.parquet": "cannot be read as a table",
}


@pytest.mark.parametrize("name", GARBAGE)
@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_a_damaged_or_missing_part_is_named_and_the_rest_is_there(tmp_path: Path, name: str, how: str) -> None:
    bundle = bundle_with(tmp_path, lost(100, 50))
    if how == "damaged":
        (bundle / name).write_bytes(b"no such thing")
    else:
        (bundle / name).unlink()
    text = Text(page_of(written(bundle))).text
    assert "50 records of plain-0, offsets 100 to 149" in text
    assert "No tool has looked for the cause" in text
    if how == "damaged" or name not in ("steps.json", "observations/one-0.parquet"):
        assert re.search(GARBAGE[name], text)


def test_a_table_without_a_column_is_named(tmp_path: Path) -> None:
    bundle = bundle_with(tmp_path, lost(100, 50))
    for name in ("findings.parquet", "observations/one-0.parquet", "ledger/one-0.parquet"):
        table = pq.read_table(bundle / name)
        pq.write_table(table.drop_columns(["partition"]), bundle / name)
    text = Text(page_of(written(bundle))).text
    assert text.count("cannot be read as a table of the evidence") >= 3


def test_numbers_that_no_run_has_give_a_page(tmp_path: Path) -> None:
    huge = 1 << 80
    found = lost(100, 50, offset_last=huge, first_ns=huge, last_ns=huge)
    bundle = bundle_with(tmp_path, lost(100, 50))
    judged(bundle, verdict(bundle.name, Status.FAIL, found))
    write_cluster(bundle, {1: huge, 2: 150}, [(0, 0), (1, huge)])
    text = Text(page_of(written(bundle))).text
    assert f"offsets 100 to {huge}" in text
    assert f"log end {huge}" not in text
    assert str(huge) in text


def test_incidents_far_apart_have_their_own_log_lines(tmp_path: Path) -> None:
    late = lost(7, 1, partition=1, first_ns=at(100), last_ns=at(100))
    bundle = bundle_with(tmp_path, lost(100, 50), late)
    early = [log_line(2, "early"), log_line(50, "between"), log_line(100, "late"), log_line(101, "end")]
    write_logs(bundle, "server-1.log", *early)
    report = written(bundle)
    texts = [Text(page_of(report, part)).text for part in ("plain_0", "plain_1")]
    assert [[word in text for word in ("early", "between", "late")] for text in texts] == [
        [True, False, False],
        [False, False, True],
    ]


def test_a_bundle_with_nothing_but_a_verdict_has_a_page(tmp_path: Path) -> None:
    judged(tmp_path, verdict("a", Status.FAIL, lost(100, 50)))
    (tmp_path / "scenario.json").write_text("{}", encoding="utf-8")
    text = Text(page_of(written(tmp_path))).text
    assert "findings.parquet is missing" in text
    assert "The bundle has no broker logs." in text
    assert "nothing is shown by time" in text


def of_kinds(count: int, **own: object) -> list[Incident]:
    findings = [lost(n, 1, partition=n, **own) for n in range(count)]
    given = {"a": verdict("a", Status.FAIL, *findings)}
    return incidents(given, condemning=not own)


def test_two_hundred_incidents_get_a_page_those_that_condemn_first() -> None:
    condemning, permitted = of_kinds(250), of_kinds(50, excused_by="x")
    assert with_page(condemning, permitted) == condemning[:200]
    assert with_page(condemning[:190], permitted) == [*condemning[:190], *permitted[:10]]
    assert with_page([], permitted) == permitted[:20]


def test_incidents_without_a_page_have_no_link(tmp_path: Path) -> None:
    findings = [lost(100, 1, partition=n, excused_by="acks=1") for n in range(22)]
    report = written(bundle_with(tmp_path, *findings, status=Status.PASS))
    index = (report / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'href="(incident-[^"]*)"', index)
    assert len(links) == 20
    assert {path.name for path in report.glob("incident-*.html")} == set(links)


def test_names_of_pages_are_stable_safe_and_different() -> None:
    names = ["plain", "PLAIN", "pl.ain", "pl-ain", "../../etc", "a" * 300, "é", "\ud800"]
    found = incidents({"a": verdict("a", Status.FAIL, *[lost(0, 1, topic=n) for n in names])}, condemning=True)
    stems = [one.stem for one in found]
    assert len({stem.lower() for stem in stems}) == len(names)
    assert all(re.fullmatch(r"incident-[A-Za-z0-9_-]{1,120}", stem) for stem in stems)
    again = incidents({"a": verdict("a", Status.FAIL, lost(50, 9))}, condemning=True)
    assert again[0].stem in stems  # other records of the same kind, partition and step
    (permitted,) = incidents({"a": verdict("a", Status.PASS, lost(0, 1, excused_by="x"))}, condemning=False)
    assert permitted.stem not in stems


def test_pages_of_an_earlier_judgement_are_removed_and_other_files_stay(tmp_path: Path) -> None:
    bundle = bundle_with(tmp_path, lost(100, 50), lost(7, 1, partition=1))
    report = written(bundle)
    (report / "incident-notes.html").write_text("my own notes")
    (report / "incident-notes.csv").write_text("my own list")
    judged(bundle, verdict(bundle.name, Status.FAIL, lost(100, 50)))
    written(bundle)
    left = sorted(
        re.sub(r"-\w{8}\.", ".", path.name.replace(bundle.name, "x")) for path in report.iterdir() if path.is_file()
    )
    assert left == [
        "incident-notes.csv",
        "incident-notes.html",
        "incident-x-lost-plain_0-kill_leader.csv",
        "incident-x-lost-plain_0-kill_leader.html",
        "incident-x-lost-plain_0-kill_leader.parquet",
        "index.html",
    ]


@pytest.mark.parametrize("suffix", [".html", ".csv", ".parquet"])
def test_a_page_that_cannot_be_written_leaves_nothing_unfinished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    bundle = bundle_with(tmp_path, lost(100, 50))
    replace = Path.replace

    def full(self: Path, target: Path) -> Path:
        if target.name.startswith("incident-") and target.suffix == suffix:
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(BadInput, match="No space left on device"):
        written(bundle)
    assert not [path for path in (bundle / "report").iterdir() if path.suffix in (".tmp", suffix)]


def test_a_picture_that_is_too_large_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "PICTURE_MAX", 10)
    html = page_of(written(bundle_with(tmp_path, lost(100, 50))))
    assert "The pictures do not fit into this page." in Text(html).text
    assert "<script" not in html


def test_many_rows_are_read_some_at_a_time(tmp_path: Path) -> None:
    bundle = bundle_with(tmp_path, lost(0, 100))
    table = pq.read_table(bundle / "findings.parquet")
    many = pa.concat_tables([table] * 2_000)
    pq.write_table(many, bundle / "findings.parquet", row_group_size=20_000)
    (page,) = written(bundle).glob("incident-*.html")
    text = Text(page.read_text(encoding="utf-8")).text
    assert "The first 100 of 200,000 rows" in text
    assert "The verdict counts 100 records, because several rows may be about one of them." in text

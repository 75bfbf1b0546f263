"""The timeline for Perfetto: its events are those of the timeline, and its size has a limit."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import reports
from harness.evidence.documents import write_json
from harness.evidence.history import write_history
from harness.model.verdict import Status
from reports.review import trace as trace_module
from reports.review.bands import Leaders, Leadership
from reports.review.timeline import Timeline, timeline_of
from reports.review.trace import CLIENTS, FAULTS, INCIDENTS, LEADERS, STEPS, TRACE, trace_of, write_trace
from suites.unit.evidence_examples import judged, lost, verdict
from suites.unit.reports.timeline_examples import at, history, led, send, step, write_run, write_steps, write_table


def written(out: Path) -> dict[str, Any]:
    """The document of the scenario `a` in a report folder, as any reader of JSON sees it."""
    content: dict[str, Any] = json.loads(gzip.decompress((out / "report" / "scenario-a" / TRACE).read_bytes()))
    return content


def of(events: list[dict[str, Any]], ph: str, pid: int) -> list[dict[str, Any]]:
    return [event for event in events if (event["ph"], event["pid"]) == (ph, pid)]


def timeline(bundle: Path) -> Timeline:
    found = timeline_of(bundle)
    assert found is not None
    return found


def test_the_trace_has_what_the_timeline_and_the_steps_have(tmp_path: Path) -> None:
    bundle = write_run(judged(tmp_path / "a", verdict("a", Status.FAIL, lost(50))))
    reports.write_page(bundle)
    document = written(bundle)
    events, known = document["traceEvents"], timeline(bundle)
    assert known.rates is not None
    assert len(of(events, "X", FAULTS)) == len(known.faults) == 1
    assert len(of(events, "X", STEPS)) == 2
    assert len(of(events, "X", LEADERS)) == sum(len(one.spans) for one in known.leaders) == 2
    assert len(of(events, "X", INCIDENTS)) == 1
    counted = Counter(event["name"] for event in of(events, "C", CLIENTS))
    latencies = len([value for value in known.rates.p50_ms if value is not None])
    assert counted == {
        **dict.fromkeys(("acks a second", "errors a second", "live reads a second"), known.buckets + 1),
        **dict.fromkeys(("ack latency p50, ms", "ack latency p99, ms"), latencies + 1),
    }
    acks = [event["args"]["value"] for event in of(events, "C", CLIENTS) if event["name"] == "acks a second"]
    assert round(sum(acks) * known.width_s) == sum(known.rates.acked) == 30
    assert document["otherData"] == {"scenario": "a", "start": f"{known.start} UTC"}


def test_times_are_microseconds_since_the_start(tmp_path: Path) -> None:
    bundle = write_run(judged(tmp_path / "a", verdict("a", Status.PASS)))
    reports.write_page(bundle)
    events = written(bundle)["traceEvents"]
    (fault,) = of(events, "X", FAULTS)
    assert (fault["name"], fault["ts"], fault["dur"]) == ("kill_leader", 1_200_000, 1_300_000)
    assert fault["args"]["effect"] == "yes: its leader epoch rose"
    first, second = of(events, "X", LEADERS)
    assert (first["name"], first["ts"], first["dur"]) == ("broker 1, epoch 0", 0, 1_500_000)
    assert (second["args"]["leader"], second["args"]["isr"]) == (2, [2])
    (track,) = {event["tid"] for event in (first, second)}
    names = {
        event["tid"]: event["args"]["name"] for event in of(events, "M", LEADERS) if event["name"] == "thread_name"
    }
    assert names == {track: "plain-0"}


def test_slices_that_overlap_are_on_different_tracks(tmp_path: Path) -> None:
    bundle = judged(tmp_path / "a", verdict("a", Status.PASS))
    write_table(bundle, "ledger", [send(0, 9)])
    long, beside, after = ({"started_ns": at(a), "ended_ns": at(b)} for a, b in ((1, 5), (2, 3), (6, 7)))
    write_steps(
        bundle,
        {**step("long", "wait", 1), **long},
        {**step("beside", "wait", 2), **beside},
        {**step("after", "wait", 6), **after},
    )
    reports.write_page(bundle)
    tracks = {event["name"]: event["tid"] for event in of(written(bundle)["traceEvents"], "X", STEPS)}
    assert tracks == {"long": 1, "beside": 2, "after": 1}


def test_a_trace_has_a_limit_and_says_what_it_leaves_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_module, "SLICES_MAX", 100)
    known = timeline(write_run(tmp_path))
    spans = tuple(Leadership(from_s=n, to_s=n + 1, leader=1, epoch=n, isr=(1,)) for n in range(101))
    within = trace_of("a", replace(known, leaders=(Leaders(partition="plain-0", spans=spans[:100]),)), ())
    assert not [text for text in within.other_data.values() if "left out" in text]
    beyond = trace_of("a", replace(known, leaders=(Leaders(partition="plain-0", spans=spans),)), ())
    assert "1 later slices are left out" in beyond.other_data.values()
    shown = [event.args["epoch"] for event in beyond.trace_events if (event.pid, event.ph) == (LEADERS, "X")]
    assert shown == [*range(100)]


def test_a_damaged_bundle_has_a_trace_of_what_is_left(tmp_path: Path) -> None:
    bundle = write_run(judged(tmp_path / "a", verdict("a", Status.PASS)))
    (bundle / "history.json").write_text("{", encoding="utf-8")
    write_json(bundle / "steps.json", [{"name": 1}])
    reports.write_page(bundle)
    document = written(bundle)
    assert of(document["traceEvents"], "X", LEADERS) == of(document["traceEvents"], "X", STEPS) == []
    assert len(of(document["traceEvents"], "C", CLIENTS)) > 0
    assert any("history.json" in text for text in document["otherData"].values())


def test_a_bundle_without_times_has_no_trace_and_no_link_to_one(tmp_path: Path) -> None:
    write_json(judged(tmp_path / "a", verdict("a", Status.PASS)) / "scenario.json", {})
    page = reports.write_page(tmp_path / "a")
    assert TRACE not in page.read_text(encoding="utf-8")
    assert [path.name for path in page.parent.iterdir()] == ["index.html"]


def test_foreign_names_are_short_and_without_control_characters(tmp_path: Path) -> None:
    name = "\x1b[31m" + "x" * 1_000_000
    bundle = judged(tmp_path / "a", verdict("a", Status.PASS))
    write_table(bundle, "ledger", [send(0, 1)])
    write_steps(bundle, step(name, name, 0.5, error=name))
    write_history(bundle, history(led(-1, 1, 0, (1, 2))))
    reports.write_page(bundle)
    content = gzip.decompress((bundle / "report" / "scenario-a" / TRACE).read_bytes())
    assert b"\\u001b" not in content
    assert len(content) < 20_000


def test_a_trace_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = trace_of("a", timeline(write_run(tmp_path)), ())
    write_trace(tmp_path / TRACE, trace)
    before = (tmp_path / TRACE).read_bytes()
    monkeypatch.setattr(Path, "replace", lambda self, target: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(OSError, match="No space left"):
        write_trace(tmp_path / TRACE, trace)
    assert (tmp_path / TRACE).read_bytes() == before
    assert list(tmp_path.glob("*.tmp")) == []

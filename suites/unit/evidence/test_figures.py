"""The figures of a run: read from its verdict and its documents, and absent where those are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.evidence.documents import write_json
from harness.evidence.figures import FIGURES, figures_of, recovered_after_s
from harness.model.documents.verdict_facts import AckTimes, Availability, LongestStall
from harness.model.history.changes import Change, PartitionChange, TopicChange, TopicEvent
from harness.model.history.history import History
from harness.model.verdict import Status, Verdict
from suites.unit.evidence_examples import verdict, write_example

S = 10**9


def partition(at_s: float, isr: tuple[int, ...], number: int = 0, topic_id: str = "A") -> PartitionChange:
    return PartitionChange(
        time_ns=round(at_s * S),
        offset=round(at_s * 10),
        controller_epoch=1,
        topic="plain",
        topic_id=topic_id,
        partition=number,
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        isr=isr,
        elr=(),
        last_known_elr=(),
        recovering=False,
        replicas=(1, 2, 3),
        adding=(),
        removing=(),
        directories=(),
    )


def deleted(at_s: float) -> TopicChange:
    return TopicChange(
        time_ns=round(at_s * S),
        offset=round(at_s * 10),
        controller_epoch=1,
        event=TopicEvent.DELETED,
        topic="plain",
        topic_id="A",
    )


FULL, SHORT = (1, 2, 3), (1, 3)


@pytest.mark.parametrize(
    ("changes", "after_s"),
    [
        ([partition(1, FULL)], 0.0),
        ([partition(1, FULL), partition(2, SHORT), partition(11.5, FULL)], 1.5),
        ([partition(2, SHORT), partition(9, FULL), partition(12, SHORT), partition(13, FULL)], 0.0),
        ([partition(2, SHORT), partition(2, SHORT, 1), partition(11, FULL), partition(14, FULL, 1)], 4.0),
        ([partition(2, SHORT), partition(11, SHORT)], None),
        ([partition(2, SHORT), deleted(11)], 1.0),
        ([partition(2, SHORT, topic_id="B"), deleted(11)], None),
        ([partition(2, (3, 2, 1, 4))], 0.0),
    ],
)
def test_recovery_ends_when_every_isr_is_full_at_once(changes: list[Change], after_s: float | None) -> None:
    history = History(nodes=(1, 2, 3), voters=(), start=0, end=1000, changes=changes)  # type: ignore[arg-type]
    assert recovered_after_s(history, 10 * S) == after_s


def measured() -> Verdict:
    given = verdict("x", Status.PASS)
    waited = Availability(
        ack_ms={"before": AckTimes(acks=5, p50=1, p99=12.5), "during": AckTimes(acks=0, p50=0, p99=0)},
        longest_stall=LongestStall(place="plain/0", s=4.0),
        without_acks_s={"kill": {"plain/0": 4.0, "plain/1": 0.0}, "cut": {"plain/0": 1.0, "plain/1": 0.6}},
    )
    return replace(given, facts=replace(given.facts, availability=waited))


def test_figures_are_those_of_the_verdict_and_of_the_run(tmp_path: Path) -> None:
    run = json.loads((write_example(tmp_path / "example") / "run.json").read_text(encoding="utf-8"))
    write_json(tmp_path / "run.json", run | {"started_ns": 5, "ended_ns": 28 * S + 5})
    found = figures_of(tmp_path, measured())
    assert found == {
        "without_acks_s": pytest.approx(2.8),
        "longest_stall_s": 4.0,
        "ack_p99_before_ms": 12.5,
        "available_percent": pytest.approx(90.0),
        "lasted_s": 28.0,
    }


def test_a_bundle_without_documents_has_the_figures_of_its_verdict_alone(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    (tmp_path / "steps.json").write_text("[1]")
    assert set(figures_of(tmp_path, measured())) == {"without_acks_s", "longest_stall_s", "ack_p99_before_ms"}
    assert figures_of(tmp_path, verdict("x", Status.PASS)) == {}


def test_the_example_of_the_format_has_figures(tmp_path: Path) -> None:
    names = {figure.name for figure in FIGURES}
    assert figures_of(write_example(tmp_path), measured()).keys() <= names
    assert len(names) == len(FIGURES)

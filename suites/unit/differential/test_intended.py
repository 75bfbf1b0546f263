"""The comparison with earlier verdicts: what differs is reported, unless exactly that is declared."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.evidence.documents import plain
from harness.model.contract.contract import APPEND_TIME
from harness.model.documents.contract import Contract, TimestampType, TopicContract
from harness.model.documents.run import Run, Windows
from harness.model.verdict import Status
from suites.differential.differences import Difference, differences
from suites.differential.intended import INTENDED, Figure, Intended, in_bundle, undeclared, unused
from suites.differential.latencies import CLASS_WIDTH, Evidence
from suites.differential.translation import Json
from suites.unit.evidence_examples import lost, verdict

BUNDLE = "gate/kept"
LOST = "lost topic=plain partition=0 offset_first=100 offset_last=149 stream=3 seq_first=100 seq_last=149"
VANISHED = LOST.replace("lost", "vanished", 1)
MS = 10**6
Document = dict[str, Json]
Step = str | int
NO_EFFECT: Json = {"name": "no_effect", "text": "the step cut had no effect"}


def before() -> Document:
    """A verdict with a finding, a doubt, a step and latencies."""
    of: Document = json.loads(json.dumps(plain(verdict("calm", Status.FAIL, lost()))))
    of["doubts"] = [NO_EFFECT]
    steps: Json = [{"name": "cut", "do": "isolate", "is_fault": True, "effect": {"held": True, "text": "it was cut"}}]
    waits: Json = {"ack_ms": {w: {"acks": 1000, "p50": 500.0, "p99": 990.0} for w in ("before", "after")}}
    return {**of, "facts": {"steps": steps, "availability": waits, "deleted": {"plain/0": 5}}}


def at(of: Json, *path: Step) -> Json:
    """The value that a document has at a place."""
    for step in path:
        if isinstance(step, int):
            assert isinstance(of, list)
            of = of[step]
        else:
            assert isinstance(of, dict)
            of = of[step]
    return of


def edited(of: Document, path: tuple[Step, ...], to: Json) -> Document:
    """A document with another value at a place; None leaves the key out."""
    of = copy.deepcopy(of)
    *above, last = path
    holder = at(of, *above)
    assert isinstance(holder, dict)
    holder[str(last)] = to
    if to is None:
        del holder[str(last)]
    return of


def changed(*path: Step, to: Json) -> Document:
    """The verdict of before with one other value."""
    return edited(before(), path, to)


def reported(
    now: Document, *intended: Intended, of: Evidence | None = None, bundle: str = BUNDLE, then: Document | None = None
) -> list[tuple[str, ...]]:
    """The places of undeclared differences."""
    found = differences(then or before(), now)
    return [d.path for d in undeclared(found, bundle, of or evidence(), (*INTENDED, *intended), [])]


def topic(name: str, timestamp_type: TimestampType) -> TopicContract:
    return TopicContract(
        topic=name,
        replicas=3,
        min_insync_replicas=2,
        unclean_election=False,
        retention_ms=-1,
        retention_bytes=-1,
        segment_bytes=1 << 20,
        compacted=False,
        timestamp_type=timestamp_type,
        delete_records=False,
    )


TOPICS = {"plain": topic("plain", "create"), "stamped": topic("stamped", APPEND_TIME)}


def evidence(
    *tables: Path,
    windows: Windows | None = None,
    topics: Mapping[str, TopicContract] = TOPICS,
    without_history: bool = False,
) -> Evidence:
    """The evidence of a run. tables: the files of its ledger and of its observations."""
    contract = Contract(topics=dict(topics), producers={}, exact_losses=())
    run = Run(finished=True, contract=contract, windows=windows or Windows(), timestamps="send")
    return Evidence(run, tables[:1], tables[1:], without_history)


UNDECLARED: dict[str, tuple[Document, set[tuple[str, ...]]]] = {
    "another verdict": (changed("verdict", to="PASS"), {("verdict",)}),
    "no finding": (changed("findings", to=[]), {("findings", LOST)}),
    "another kind": (changed("findings", 0, "kind", to="vanished"), {("findings", LOST), ("findings", VANISHED)}),
    "another count": (changed("findings", 0, "count", to=49), {("findings", LOST, "count")}),
    "an excuse": (changed("findings", 0, "excused_by", to="retention"), {("findings", LOST, "excused_by")}),
    "an explanation": (changed("findings", 0, "explained_by", to="a retry"), {("findings", LOST, "explained_by")}),
    "another step": (changed("findings", 0, "step", to=None), {("findings", LOST, "step")}),
    "no doubt": (changed("doubts", to=[]), {("doubts", "no_effect")}),
    "the doubt twice": (changed("doubts", to=[NO_EFFECT, NO_EFFECT]), {("doubts", "no_effect")}),
    "another doubt": (
        changed("doubts", 0, "name", to="floor_after"),
        {("doubts", "no_effect"), ("doubts", "floor_after")},
    ),
    "one note more": (changed("notes", to=["something"]), {("notes",)}),
    "less not covered": (changed("not_covered", to=[]), {("figures", "not_covered")}),
    "another score": (changed("score", "episodes", to=5), {("score", "episodes")}),
    "a loss without a fault": (changed("score", "lost_without_fault", to=7), {("score", "lost_without_fault")}),
    "fewer durable records": (changed("durable", to=0), {("durable",)}),
    "an effect that did not hold": (changed("facts", "steps", 0, "effect", "held", to=False), {("effects",)}),
    "another figure": (changed("facts", "deleted", "plain/0", to=6), {("figures", "deleted", "plain/0")}),
    "a lost figure": (changed("facts", "deleted", to={}), {("figures", "deleted", "plain/0")}),
    "another number of latencies": (
        changed("facts", "availability", "ack_ms", "before", "acks", to=999),
        {("figures", "availability", "ack_ms", "before", "acks")},
    ),
}


@pytest.mark.parametrize("change", UNDECLARED)
def test_an_undeclared_change_is_reported(change: str) -> None:
    now, places = UNDECLARED[change]
    assert set(reported(now)) == places


def test_sentences_may_differ() -> None:
    now = changed("findings", 0, "detail", to="in other words")
    assert reported({**now, "doubts": [{"name": "no_effect", "text": "in other words"}]}) == []


def test_a_key_that_says_nothing_is_no_difference() -> None:
    assert reported(changed("facts", "returned", to={})) == []
    assert reported(changed("facts", "returned", to={"plain/0": 1})) == [("figures", "returned")]


def test_several_findings_of_one_place_are_all_compared() -> None:
    finding = at(before(), "findings", 0)
    twice = changed("findings", to=[finding, finding])
    assert reported(twice) == [("findings", f"{LOST} #2")]


DECLARED: tuple[Intended, ...] = tuple(in_bundle(BUNDLE, "a reason", {("findings", LOST, "count"): (50, 49)}))


def test_a_declared_change_is_not_reported() -> None:
    assert reported(changed("findings", 0, "count", to=49), *DECLARED) == []


@pytest.mark.parametrize(
    ("count", "bundle", "then"),
    [(48, BUNDLE, before()), (49, "proof/kept", before()), (49, BUNDLE, changed("findings", 0, "count", to=51))],
    ids=["another value", "another bundle", "another earlier value"],
)
def test_a_declared_change_is_exactly_one_value_of_one_bundle(count: int, bundle: str, then: Document) -> None:
    now = changed("findings", 0, "count", to=count)
    assert reported(now, *DECLARED, bundle=bundle, then=then) == [("findings", LOST, "count")]


def test_a_figure_that_is_declared_says_nothing_about_the_verdict() -> None:
    anything = Figure(why="", figure=("verdict",), rule=lambda *_: True)
    assert reported(changed("verdict", to="PASS"), anything) == [("verdict",)]


def test_a_declared_change_that_no_bundle_shows_is_found() -> None:
    used: list[Intended] = []
    now = changed("findings", 0, "count", to=49)
    assert undeclared(differences(before(), now), BUNDLE, evidence(), DECLARED, used) == []
    assert unused(DECLARED, used) == []
    assert unused(DECLARED, []) == [*DECLARED]


@pytest.mark.parametrize("figure", ["read_back", "deleted_by", "deleted_records"])
def test_a_new_figure_may_only_be_new(figure: str) -> None:
    with_it = changed("facts", figure, to={"partitions": 1})
    assert reported(with_it) == []
    assert reported(before(), then=with_it) == [("figures", figure)]
    other = changed("facts", figure, to={"partitions": 2})
    assert reported(other, then=with_it) == [("figures", figure, "partitions")]


@pytest.mark.parametrize(("more", "permitted"), [(-1, False), (1, True), (2, False)])
def test_without_a_history_one_line_more_is_not_covered(more: int, permitted: bool) -> None:
    then = changed("not_covered", to=["something", "something else"])
    now = changed("not_covered", to=["something"] * (2 + more))
    assert (reported(now, then=then, of=evidence(without_history=True)) == []) == permitted
    assert reported(now, then=then) == [("figures", "not_covered")]


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    """A ledger with latencies of 1 to 1,000 ms, and reads that took twice as long, beside others."""
    ledger, observations = tmp_path / "ledger.parquet", tmp_path / "observations.parquet"
    acked = [{"outcome": "acked", "called_ns": 0, "returned_ns": n * MS} for n in range(1, 1001)]
    lost = [{"outcome": "unknown", "called_ns": 0, "returned_ns": MS}] * 1000
    pq.write_table(pa.Table.from_pylist(acked + lost), ledger)
    read = [{"topic": "plain", "intact": True, "timestamp_ms": 0, "given_ns": 2 * n * MS} for n in range(1, 1001)]
    other: list[dict[str, object]] = [{**read[0], "intact": False}, {**read[0], "topic": "stamped"}]
    drained: list[dict[str, object]] = [{**read[0], "given_ns": None}]
    pq.write_table(pa.Table.from_pylist([*read, *other * 500, *drained * 1000]), observations)
    return ledger, observations


WHOLE = (0, 10**12)
HIGHEST = 990 * math.exp(CLASS_WIDTH)


@pytest.mark.parametrize(
    ("then", "now", "right"),
    [
        (990.0, round(HIGHEST, 3), True),
        (989.0, 990.5, True),
        (991.0, 990.0, True),
        (987.9, 990.5, False),
        (992.1, 990.5, False),
        (990.0, 989.9, False),
        (990.0, round(HIGHEST, 3) + 0.01, False),
        (990.0, None, False),
    ],
)
def test_a_percentile_is_within_the_precision_of_both_judges(
    tables: tuple[Path, Path], then: float, now: float | None, right: bool
) -> None:
    of = evidence(*tables, windows=Windows(before=WHOLE, during=(), after=WHOLE))
    path = ("facts", "availability", "ack_ms", "before", "p99")
    found = reported(changed(*path, to=now), of=of, then=changed(*path, to=then))
    assert found == ([] if right else [("figures", *path[1:])])


@pytest.mark.parametrize(("now", "right"), [(1980.0, True), (1970.0, False)])
def test_reads_are_timed_from_the_timestamp(tables: tuple[Path, Path], now: float, right: bool) -> None:
    def reads(p99: float) -> Document:
        return changed("facts", "availability", "read_ms", to={"before": {"records": 1000, "p50": 1.0, "p99": p99}})

    of = evidence(*tables, windows=Windows(before=WHOLE, during=(), after=WHOLE))
    place = ("figures", "availability", "read_ms", "before", "p99")
    assert reported(reads(now), of=of, then=reads(1982.0)) == ([] if right else [place])


def test_reads_of_topics_with_times_of_the_broker_have_no_latency(tables: tuple[Path, Path]) -> None:
    of = evidence(*tables, windows=Windows(before=WHOLE, during=(), after=WHOLE), topics={})
    assert [len(of.latencies.of(what, "before")) for what in ("ack_ms", "read_ms")] == [1000, 0]


def test_what_waited_during_a_fault_is_neither_before_nor_after(tables: tuple[Path, Path]) -> None:
    windows = Windows(before=(0, 500 * MS), during=((500 * MS, 600 * MS),), after=(600 * MS, 10**12))
    latencies = evidence(*tables, windows=windows).latencies
    assert [len(latencies.of("ack_ms", window)) for window in ("before", "during", "after")] == [499, 501, 0]


AFTER = ("facts", "availability", "ack_ms", "after")


@pytest.mark.parametrize(
    ("then", "during", "right"),
    [
        (before(), (), True),
        (before(), ((10**13, 10**14),), False),
        (changed(*AFTER, "acks", to=999), (), False),
        (changed(*AFTER, "p50", to=600.0), (), False),
    ],
    ids=["without a fault", "with a fault", "other records", "another median"],
)
def test_only_a_run_without_faults_loses_its_figures_after_them(
    tables: tuple[Path, Path], then: Document, during: tuple[tuple[int, int], ...], right: bool
) -> None:
    of = evidence(*tables, windows=Windows(before=WHOLE, during=during, after=WHOLE))
    place = ("figures", "availability", "ack_ms", "after")
    assert reported(edited(then, AFTER, None), of=of, then=then) == ([] if right else [place])


def test_a_difference_says_where_and_what() -> None:
    assert str(Difference(("score", "episodes"), 1, 0)) == "score > episodes: 1 then, 0 now"

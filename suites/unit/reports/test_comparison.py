"""Two gates side by side: defects are matched, codes follow, and nothing within noise is called a change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

import reports
from harness.evidence.gate import GateSummary, ScenarioResult, Try, decided, write_gate
from harness.evidence.past_runs import PastGate, PastRun
from harness.model.documents.manifest import NamedRelease
from harness.model.documents.verdict_facts import AckTimes, Availability
from harness.model.exits import Exit
from harness.model.finding import Finding, Kind
from harness.model.verdict import Status, Verdict
from reports.review.comparison.against import document_of
from reports.review.comparison.lines import comparison_lines
from reports.review.comparison.spread import interval_of, largest_by_chance, log_ratio, pooled, t_quantile
from reports.review.comparison.times import Basis, Reading, Times, times_of
from suites.unit.evidence_examples import judged, lost, verdict
from suites.unit.reports.test_review import Text

Gate = dict[str, dict[str, float]]  # by scenario, its figures by name
P99 = "ack_p99_during_ms"


def gate(
    out: Path,
    *verdicts: Verdict,
    seed: int = 7,
    missing: Sequence[str] = (),
    backends: tuple[str, ...] = ("processes",),
    not_applicable: Sequence[str] = (),
) -> Path:
    """An --out folder of a whole gate with these verdicts. missing: scenarios of it without one."""
    for one in verdicts:
        judged(out / one.scenario, one)
    results = tuple(decided(v.scenario, [Try(bundle=v.scenario, status=v.status)]) for v in verdicts)
    results += tuple(
        ScenarioResult(name=name, error="no slot is free") for name in missing if name not in not_applicable
    )
    summary = GateSummary(
        required=(*(v.scenario for v in verdicts), *missing),
        results=results,
        release=NamedRelease(version="4.3.1", commit="abc", source="here"),
        seed=seed,
        backends=backends,
        not_applicable=dict.fromkeys(not_applicable, "needs Kafka 9"),
    )
    write_gate(out, summary)
    return out


def passed(*names: str) -> list[Verdict]:
    return [verdict(name, Status.PASS) for name in names]


def failed(name: str, *findings: Finding) -> Verdict:
    return verdict(name, Status.FAIL, *findings)


def exit_of(tmp_path: Path, before: Sequence[Verdict], after: Sequence[Verdict]) -> Exit:
    return reports.compared(gate(tmp_path / "a", *before), gate(tmp_path / "b", *after)).exit


OTHER_PLACE = replace(lost(900, first=7000), partition=1, topic_id="B", step="heal", seq_first=1, reader="x")


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        (passed("x"), passed("x"), Exit.PASS),
        (passed("x"), [failed("x", lost())], Exit.FAIL),
        ([failed("x", lost())], [failed("x", OTHER_PLACE)], Exit.PASS),
        ([failed("x", lost())], [failed("x", replace(lost(), kind=Kind.DUPLICATED))], Exit.FAIL),
        ([failed("x", lost())], [failed("x", replace(lost(), topic="other"))], Exit.FAIL),
        ([failed("x", lost())], [failed("x", replace(lost(), partition=None))], Exit.FAIL),
        ([failed("x", lost()), *passed("y")], [*passed("x"), failed("y", lost())], Exit.FAIL),
        ([failed("x", lost())], passed("x"), Exit.PASS),
        (passed("x"), [verdict("x", Status.PASS, lost(excused_by="acks=1"))], Exit.PASS),
        ([verdict("x", Status.PASS, lost(excused_by="acks=1"))], [failed("x", lost())], Exit.FAIL),
        (passed("x"), [verdict("x", Status.INCONCLUSIVE)], Exit.INCONCLUSIVE),
        (passed("x", "y"), passed("x"), Exit.INCONCLUSIVE),
        ([verdict("x", Status.INCONCLUSIVE)], [verdict("x", Status.INCONCLUSIVE)], Exit.PASS),
        (passed("x"), [*passed("x"), verdict("new", Status.INCONCLUSIVE)], Exit.PASS),
        (passed("x"), [*passed("x"), failed("new", lost())], Exit.FAIL),
        (passed("x", "y"), [failed("x", lost()), verdict("y", Status.INCONCLUSIVE)], Exit.FAIL),
    ],
)
def test_only_what_is_new_and_condemns_is_exit_1(
    tmp_path: Path, before: Sequence[Verdict], after: Sequence[Verdict], code: Exit
) -> None:
    assert exit_of(tmp_path, before, after) is code


def test_a_scenario_that_does_not_apply_to_the_release_proves_no_less(tmp_path: Path) -> None:
    a = gate(tmp_path / "a", *passed("x", "y"))
    assert reports.compared(a, gate(tmp_path / "b", *passed("x"), missing=["y"])).exit is Exit.INCONCLUSIVE
    newer = gate(tmp_path / "c", *passed("x"), missing=["y"], not_applicable=["y"])
    assert reports.compared(a, newer).exit is Exit.PASS


def test_a_finding_is_gone_only_where_the_scenario_was_decided_again(tmp_path: Path) -> None:
    a = gate(tmp_path / "a", failed("x", lost()), failed("y", lost()), failed("z", lost()))
    b = gate(tmp_path / "b", verdict("x", Status.PASS), verdict("y", Status.INCONCLUSIVE), missing=["z"])
    found = reports.compared(a, b)
    assert [one.defect.scenario for one in found.findings.gone] == ["x"]
    assert [one.defect.scenario for one in found.findings.undecided] == ["y", "z"]
    assert found.word.startswith("BETTER")
    assert found.exit is Exit.PASS


def test_a_fail_whose_verdict_is_missing_stands_and_a_pass_does_not(tmp_path: Path) -> None:
    a = gate(tmp_path / "a", *passed("x"))
    for status, code in ((Status.FAIL, Exit.FAIL), (Status.PASS, Exit.INCONCLUSIVE)):
        b = gate(tmp_path / status.value, verdict("x", status))
        (b / "x" / "verdict.json").unlink()
        assert reports.compared(a, b).exit is code


def test_coverage_names_entries_that_one_gate_alone_lacks(tmp_path: Path) -> None:
    less = [replace(one, not_covered=("power loss", "tiered storage")) for one in passed("x", "y")]
    half = [replace(passed("x")[0], not_covered=("power loss", "tiered storage")), *passed("y")]
    a, b, c = (gate(tmp_path / n, *of) for n, of in (("a", passed("x", "y")), ("b", less), ("c", half)))
    whole, part, back = reports.compared(a, b), reports.compared(a, c), reports.compared(b, a)
    assert (whole.uncovered, part.uncovered, back.covered) == (("tiered storage",), (), ("tiered storage",))
    assert part.findings.less_covered == {"tiered storage": ("x",)}
    assert [row.less for row in part.rows] == [("tiered storage",), ()]


def test_gates_on_other_backends_have_no_times_to_compare(tmp_path: Path) -> None:
    a = gate(tmp_path / "a", *(with_p99(f"s{n}", 100) for n in range(9)))
    b = gate(tmp_path / "b", *(with_p99(f"s{n}", 900) for n in range(9)), backends=("containers",), seed=8)
    found = reports.compared(a, b)
    assert found.times == Times(overall=(), singles={})
    assert found.notes == (
        "the seeds differ (7 and 8), so the plans differ",
        "the backends differ (processes before, containers now), so times are not compared",
    )


def with_p99(name: str, ms: float, status: Status = Status.PASS) -> Verdict:
    given = verdict(name, status)
    waited = Availability(ack_ms={"during": AckTimes(acks=9, p50=1, p99=ms)})
    return replace(given, facts=replace(given.facts, availability=waited))


# The quantiles are those of printed tables.
@pytest.mark.parametrize(
    ("tail", "freedom", "value"),
    [(0.025, 1, 12.706), (0.0005, 1, 636.619), (0.025, 2, 4.303), (0.0005, 4, 8.610), (0.005, 30, 2.750)],
)
def test_the_quantiles_of_student_are_those_of_the_tables(tail: float, freedom: int, value: float) -> None:
    assert t_quantile(tail, freedom) == pytest.approx(value, abs=0.001)


def test_an_interval_misses_the_truth_as_rarely_as_it_says() -> None:
    """Half of all log ratios vary much more than the others, as those of real scenarios do."""
    random, missed, rounds = Random("spread"), 0, 1500
    for _ in range(rounds):
        logs = [random.gauss(0, random.choice((0.1, 1.3))) for _ in range(12)]
        missed += interval_of(logs, questions=1).excludes_one
    assert missed / rounds < 0.06
    assert missed > 0


def test_a_value_below_the_resolution_counts_as_the_resolution() -> None:
    assert log_ratio(0.1, 0.4, resolution=0.5) is None
    assert log_ratio(0.0, 1.0, resolution=0.5) == math.log(2)
    assert log_ratio(2.0, 0.0, resolution=0.5) == -math.log(4)


def test_the_deviation_within_groups_leaves_out_that_between_them() -> None:
    assert pooled([[1.0], []]) is None
    deviation, freedom = pooled([[1.0, 3.0], [101.0, 103.0]]) or (0.0, 0)
    assert (round(deviation, 6), freedom) == (round(math.sqrt(2), 6), 2)
    assert largest_by_chance(1.0, 30, questions=1) == pytest.approx(2.042 * math.sqrt(2), abs=0.01)


def gates_of(ratio: float, *, spread: float = 0.1, count: int = 20) -> tuple[Gate, Gate]:
    """Figures of two gates: each scenario of the second has `ratio` times the first, with a spread of the logarithm."""
    random = Random("a")
    before = {f"s{n:02d}": {P99: 500.0 * (n + 1)} for n in range(count)}
    after = {name: {P99: of[P99] * ratio * math.exp(random.gauss(0, spread))} for name, of in before.items()}
    return before, after


def overall(times: Times) -> Reading:
    return next(one.reading for one in times.overall if one.figure.name == P99)


@pytest.mark.parametrize(
    ("ratio", "spread", "count", "reading"),
    [
        (1.0, 0.1, 20, Reading.NOISE),
        (2.0, 0.1, 20, Reading.HIGHER),
        (0.5, 0.1, 20, Reading.LOWER),
        (1.15, 0.05, 20, Reading.NOISE),  # its interval excludes 1, and a busier machine causes as much
        (1.6, 1.3, 20, Reading.NOISE),  # large, and its interval includes 1
        (2.0, 0.1, 7, Reading.UNKNOWN),
    ],
)
def test_all_scenarios_differ_where_their_interval_and_the_machine_do_not_explain_it(
    ratio: float, spread: float, count: int, reading: Reading
) -> None:
    assert overall(times_of(*gates_of(ratio, spread=spread, count=count))) is reading


def past(ratios: Sequence[float], *, spread: float = 0.0, commit: str = "c") -> list[PastGate]:
    """Earlier gates on one release. ratios: by how much each was slower than another, in all scenarios."""
    random, gates = Random("past"), []
    for number, ratio in enumerate(ratios):
        runs = tuple(
            PastRun(
                digest=f"{number}-{n}",
                gate=number,
                scenario=f"s{n:02d}",
                attempt=1,
                decides=True,
                status=Status.PASS,
                release="4.3.1",
                commit=commit if commit else f"{number}",
                source="",
                backend="processes",
                episodes=1,
                episodes_with_loss=0,
                findings=0,
                doubts=(),
                started_ns=number,
                figures={P99: 500.0 * (n + 1) * ratio * math.exp(random.gauss(0, spread))},
            )
            for n in range(20)
        )
        gates.append(
            PastGate(
                id=number,
                release="4.3.1",
                commit="c",
                source="",
                seed=1,
                backends=("processes",),
                verdict=Status.PASS,
                required=20,
                with_verdict=20,
                took_s=1.0,
                started_ns=number,
                evidence="",
                runs=runs,
            )
        )
    return gates


def test_earlier_gates_on_one_release_say_how_much_a_machine_changes() -> None:
    before, after = gates_of(1.4, spread=0.02)
    shaky, steady = [0.6, 1.0, 1.7, 0.8, 1.3, 1.1], [1.0, 1.01, 0.99, 1.0, 1.02, 0.98]
    assert overall(times_of(before, after)) is Reading.HIGHER
    assert overall(times_of(before, after, past(shaky))) is Reading.NOISE
    assert overall(times_of(before, after, past(steady))) is Reading.HIGHER
    # On different commits nothing is known of the machine, and four gates are too few.
    assert overall(times_of(before, after, past(shaky, commit=""))) is Reading.HIGHER
    assert overall(times_of(before, after, past(shaky[:4]))) is Reading.HIGHER
    little = gates_of(1.2, spread=0.02)
    assert overall(times_of(*little)) is Reading.NOISE
    assert overall(times_of(*little, past(steady))) is Reading.HIGHER


def single(times: Times, name: str) -> tuple[Reading, Basis]:
    return next((one.reading, one.basis) for one in times.singles[name] if one.figure.name == P99)


@pytest.mark.parametrize(
    ("factor", "reading"), [(8.0, Reading.HIGHER), (1 / 8, Reading.LOWER), (2.0, Reading.NOISE), (1.0, Reading.NOISE)]
)
def test_a_single_scenario_differs_where_it_is_far_from_the_others(factor: float, reading: Reading) -> None:
    before, after = gates_of(1.0)
    after["s05"][P99] *= factor
    times = times_of(before, after)
    assert single(times, "s05") == (reading, Basis.SCENARIOS)
    assert [name for name, _ in times.changed] == ([] if reading is Reading.NOISE else ["s05"])


def test_in_a_gate_that_is_slower_as_a_whole_no_single_scenario_is() -> None:
    before, after = gates_of(3.5)
    assert times_of(before, after).changed == ()
    after["s05"][P99] /= 3.5  # as before
    assert times_of(before, after).changed == ()


def test_a_single_scenario_that_varies_much_is_within_noise_also_when_it_differs_much() -> None:
    before, after = gates_of(1.0, spread=1.3)
    after["s05"][P99] = before["s05"][P99] * 20
    assert single(times_of(before, after), "s05") == (Reading.NOISE, Basis.SCENARIOS)


def test_earlier_runs_of_a_scenario_say_how_far_it_varies() -> None:
    before, after = gates_of(1.0)
    after["s05"][P99] = before["s05"][P99] * 2
    steady = past([1.0] * 12, spread=0.05)
    assert single(times_of(before, after, steady), "s05") == (Reading.HIGHER, Basis.RUNS)
    assert single(times_of(before, after, past([1.0] * 12, spread=0.5)), "s05") == (Reading.NOISE, Basis.RUNS)
    after["s05"][P99] = before["s05"][P99] * 1.4
    assert single(times_of(before, after, steady), "s05") == (Reading.NOISE, Basis.RUNS)


def test_of_two_runs_of_one_scenario_no_spread_is_known() -> None:
    times = times_of({"x": {P99: 10.0}}, {"x": {P99: 9000.0}})
    assert single(times, "x") == (Reading.UNKNOWN, Basis.NONE)
    assert times.changed == ()


def test_the_terminal_and_the_page_say_the_same_and_no_text_becomes_markup(tmp_path: Path) -> None:
    hostile = replace(lost(5), topic="<script>alert(1)</script>\x1b[31m")
    a = gate(tmp_path / "a", *(with_p99(f"s{n}", 100 + n) for n in range(9)), failed("gone", lost(3)))
    b = gate(
        tmp_path / "b",
        *(with_p99(f"s{n}", 900 + 9 * n) for n in range(9)),
        *passed("gone"),
        failed("new", hostile),
        seed=8,
    )
    found = reports.compared(a, b)
    said = [text.strip() for text, _ in comparison_lines(found)]
    assert "lost in gone, a partition of plain: 3 before, 0 now" in said
    assert any("p99 of acks during faults" in line and "higher" in line for line in said)
    html = reports.write_page(b, against=reports.compared(a, b)).read_text(encoding="utf-8")
    text = Text(html).text
    assert "<script>alert(1)" not in html
    assert "lost in new, a partition of <script>alert(1)</script>�[31m: 0 before, 5 now" in text
    for part in (found.word, "the seeds differ (7 and 8), so the plans differ", "Findings gone: 1", "104 ms", "936 ms"):
        assert part in text
    (row,) = [one for one in found.times.overall if one.figure.name == P99]
    assert row.interval is not None
    assert f"{row.interval.ratio:.2f} ({row.interval.low:.2f} to {row.interval.high:.2f})" in text
    assert "Comparison" not in Text(reports.write_page(b).read_text(encoding="utf-8")).text
    document = document_of(found)
    assert (document["exit"], document["result"]) == (1, found.word)

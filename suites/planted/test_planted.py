"""Each planted defect is found with its kind and records and nothing else; each near miss is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.evidence.verdicts import FINDINGS
from harness.model.finding import Kind
from harness.model.verdict import Verdict
from harness.verify.registry import declared
from suites.planted.copies import Copy, Original
from suites.planted.expected import Broken, Expected, records_of, sort_key
from suites.planted.judging import Judged
from suites.planted.table import PLANTS

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("plant", PLANTS)
def test_the_verdict_on_each_plant_is_exactly_as_expected(plant: str, judged: dict[str, Judged]) -> None:
    found = judged[plant]
    differences = list(_differences(found.expected, found.verdict))
    assert not differences, "\n".join([PLANTS[plant].__doc__ or plant, *differences])
    assert _in_parquet(found) == _expected_in_parquet(found)


def _differences(expected: Expected, verdict: Verdict) -> Iterator[str]:
    if verdict.status is not expected.status:
        yield f"{verdict.status.name} instead of {expected.status.name}"
    doubts = {doubt.name for doubt in verdict.doubts}
    if doubts != expected.doubts:
        yield f"doubts {[d.text for d in verdict.doubts]} instead of {sorted(expected.doubts)}"
    if not expected.counted:
        return
    excused = [f for f in verdict.findings if f.excused_by is not None]
    explained = [f for f in verdict.findings if f.explained_by is not None]
    condemning = [f for f in verdict.findings if f.condemns]
    for what, wanted, findings in (
        ("broken", expected.broken, condemning),
        ("excused", expected.excused, excused),
        ("explained", expected.explained, explained),
    ):
        if records_of(findings) != sorted(wanted, key=sort_key):
            details = [f"{f.detail} ({f.reader or 'no reader'})" for f in findings]
            yield f"{what}: {records_of(findings)} instead of {sorted(wanted, key=sort_key)}: {details}"
    wrong_ack_offset = [note for note in verdict.notes if note.startswith("wrong_ack_offset:")]
    wanted_note = [f"wrong_ack_offset: {expected.wrong_ack_offset} records"] if expected.wrong_ack_offset else []
    if [" ".join(note.split()[:3]) for note in wrong_ack_offset] != wanted_note:
        yield f"notes {wrong_ack_offset} instead of {wanted_note}"


def _in_parquet(found: Judged) -> set[Broken]:
    rows = pq.read_table(found.bundle.path / FINDINGS).to_pylist()
    return (
        {(row["kind"], row["topic"], row["partition"], row["offset"]) for row in rows}
        if found.expected.counted
        else set()
    )


def _expected_in_parquet(found: Judged) -> set[Broken]:
    wanted = found.expected.broken | found.expected.excused | found.expected.explained
    return set(wanted - found.expected.documented)


def test_every_kind_has_a_plant_and_a_near_miss(original: Original, tmp_path: Path) -> None:
    kinds = {kind.value for kind in Kind}
    planted = {broken[0] for plant in PLANTS.values() for broken in plant(Copy(original, tmp_path / "copy")).broken}
    assert planted == kinds
    assert {kind for kind in kinds if not _near_misses(kind)} == set()


def _near_misses(kind: str) -> list[str]:
    """Those that name the kind, and those of checks that report nothing else."""
    checks = [check for check in declared().values() if Kind(kind) in check.reports]
    return [
        name
        for check in checks
        for name in check.planted
        if name.startswith(f"near_{kind}") or (name.startswith("near_") and check.reports == (Kind(kind),))
    ]


def test_the_original_run_has_what_plants_need(original: Original) -> None:
    """Without aborts, deleted segments or commits, plants in them would prove nothing."""
    assert original.rows("transactions", outcome="committed")
    assert original.rows("transactions", outcome="aborted")
    assert {row["group"] for row in original.rows("offset_commits")} == {"readers", "payments", "workers"}
    assert original.rows("deliveries", answer="accept", outcome="acked")
    done = {(row["kind"], row["outcome"]) for row in original.rows("admin_ops")}
    assert {kind for kind, outcome in done if outcome == "acked"} >= {"create_topic", "delete_topic", "delete_acl"}
    assert 4_000 < len(original.rows("ledger")) < 25_000

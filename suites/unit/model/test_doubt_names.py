"""Names of doubts: each declares its meaning, and no other name is given to a doubt."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness
from harness.commands import listing
from harness.evidence.documents import plain
from harness.evidence.parsing import converted
from harness.faults.steps import step_runner
from harness.faults.steps.step_log import StepLog
from harness.model.doubt_names import DoubtName, DoubtOrigin, floor_of, origin_of
from harness.model.errors import HarnessTimeout, MachineFailure
from harness.model.pending import Pending
from harness.model.verdict import Doubt

SOURCES = sorted(Path(harness.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("word", [*DoubtName, *DoubtOrigin, *Pending])
def test_every_word_has_a_meaning_of_one_full_sentence(word: DoubtName | DoubtOrigin | Pending) -> None:
    assert word.meaning[0].isupper()
    assert word.meaning.endswith(".")
    assert ". " not in word.meaning


def test_no_two_doubts_have_the_same_meaning() -> None:
    assert len({doubt.meaning for doubt in DoubtName}) == len(DoubtName)


def texts(source: str) -> Iterator[str]:
    """Literal names in calls that make a doubt."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and node.args:
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            name = node.args[0]
            if called in ("Doubt", "doubt", "_doubt") and isinstance(name, ast.Constant):
                yield str(name.value)


def test_every_doubt_has_a_declared_name() -> None:
    named = {path.name: [*texts(path.read_text(encoding="utf-8"))] for path in SOURCES}
    assert {path: names for path, names in named.items() if names} == {}
    assert [*texts('yield Doubt("lost_faith", "")')] == ["lost_faith"]


def test_the_doubts_of_steps_have_declared_names() -> None:
    row = StepLog(name="kill", do="kill", args={}, is_fault=True, started_ns=1, error="no such node").row
    assert [doubt.name for doubt in step_runner.doubts((row,))] == [DoubtName.STEP_FAILED, DoubtName.NO_EFFECT]


def test_a_failed_step_has_the_origin_of_its_error_and_the_steps_behind_it_too() -> None:
    log = StepLog(name="heal", do="heal", args={}, is_fault=False)
    log.failed("toxiproxy did not answer", MachineFailure("toxiproxy did not answer"))
    assert [doubt.origin for doubt in step_runner.doubts((log.row,))] == [DoubtOrigin.MACHINE]
    log.failed("the ISR is not full", HarnessTimeout("the ISR is not full"))
    assert [doubt.origin for doubt in step_runner.doubts((log.row,))] == [DoubtOrigin.RELEASE]
    log.failed("a bug of ours", ValueError("a bug of ours"))
    assert [doubt.origin for doubt in step_runner.doubts((log.row,))] == [DoubtOrigin.RELEASE]


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        ("no_effect", DoubtOrigin.SCENARIO),
        ("ledger_gap", DoubtOrigin.MACHINE),
        ("isr_not_full", DoubtOrigin.RELEASE),
        ("disk_damage", DoubtOrigin.RELEASE),
        ("check_failed:lost", DoubtOrigin.RELEASE),
        ("of_another_harness", DoubtOrigin.RELEASE),
    ],
)
def test_a_doubt_without_an_origin_has_that_of_its_name(name: str, origin: DoubtOrigin) -> None:
    assert origin_of(name) == Doubt(name, "").origin == origin
    stored = converted({"name": name, "text": ""}, Doubt)  # as older bundles have it
    assert (stored, stored.of_release) == (Doubt(name, "", origin), origin is DoubtOrigin.RELEASE)


def test_a_doubt_keeps_the_origin_that_it_states() -> None:
    stated = Doubt(DoubtName.FLOOR_AFTER, "0 records", DoubtOrigin.RELEASE)
    assert converted(plain(stated), Doubt) == stated != Doubt(DoubtName.FLOOR_AFTER, "0 records")


def test_each_window_has_a_floor() -> None:
    assert [floor_of(window) for window in ("before", "during", "after")] == [
        DoubtName.FLOOR_BEFORE,
        DoubtName.FLOOR_DURING,
        DoubtName.FLOOR_AFTER,
    ]


def test_every_doubt_is_listed_with_its_meaning() -> None:
    _, rows = listing.doubts(None)
    assert rows == [(doubt.value, doubt.origin.value, doubt.meaning) for doubt in DoubtName]

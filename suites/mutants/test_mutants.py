"""The unchanged gate must FAIL each planted bug, with a finding of an expected kind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.model.exits import Exit
from suites.mutants.gate import Judged
from suites.mutants.table import Variant, mutants, unplayed


def _row(mutant: Variant) -> object:
    marks = [pytest.mark.xfail(reason=mutant.escapes, strict=False)] if mutant.escapes else []
    return pytest.param(mutant, id=mutant.name, marks=[pytest.mark.kafka, *marks])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    more = unplayed() if metafunc.config.getoption("--unplayed", default=False) else ()
    metafunc.parametrize("mutant", [_row(mutant) for mutant in (*mutants(), *more)])


def test_a_planted_bug_fails_with_an_expected_kind(mutant: Variant, run_gate_on: Callable[[Variant], Judged]) -> None:
    judged = run_gate_on(mutant)
    assert judged.exit is Exit.FAIL, judged.line(mutant.name)
    assert judged.kinds & {kind.value for kind in mutant.expect}, judged.line(mutant.name)

"""A generated night must find these planted bugs within so many episodes, name them, and shrink what found them."""

from __future__ import annotations

from pathlib import Path

import pytest

from suites.mutants.build import Patcher
from suites.mutants.conftest import SUMMARY
from suites.mutants.gate import SEED
from suites.mutants.nights import find
from suites.mutants.table import Variant, mutants

STEPS_MAX = 5

pytestmark = [pytest.mark.kafka]


@pytest.mark.parametrize("mutant", [pytest.param(one, id=one.name) for one in mutants() if one.night_episodes])
def test_a_night_finds_a_planted_bug_and_shrinks_it(
    mutant: Variant, patcher: Patcher, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    seed = pytestconfig.getoption("--seed")
    found = find(patcher.build(mutant), tmp_path, mutant.night_episodes, SEED if seed is None else seed)
    assert found is not None, f"{mutant.name}: no episode of {mutant.night_episodes} is FAIL"
    pytestconfig.stash[SUMMARY].append(found.line(mutant.name))
    assert found.kinds & {kind.value for kind in mutant.expect}, found.line(mutant.name)
    assert found.steps is not None, found.line(mutant.name)
    assert found.steps <= STEPS_MAX, found.line(mutant.name)
    assert found.rate[0] > 0, f"the smallest scenario did not fail again: {found.line(mutant.name)}"

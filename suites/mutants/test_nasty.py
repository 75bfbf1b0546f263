"""Unusual but legal builds must PASS: the gate fails only builds that break a promise."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.model.exits import Exit
from suites.mutants.gate import Judged
from suites.mutants.table import Variant, nasty


@pytest.mark.kafka
@pytest.mark.parametrize("build", nasty(), ids=lambda build: build.name)
def test_a_legal_build_passes(build: Variant, run_gate_on: Callable[[Variant], Judged]) -> None:
    judged = run_gate_on(build)
    assert judged.exit is Exit.PASS, judged.line(build.name)

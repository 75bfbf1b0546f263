"""Builds that are unusual but legal must PASS: the gate condemns broken promises, not manners."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.model.exits import Exit
from suites.mutants.gate import Judged
from suites.mutants.table import Variant, nasty


@pytest.mark.kafka
@pytest.mark.parametrize("build", nasty(), ids=lambda build: build.name)
def test_a_legal_build_passes(build: Variant, convict: Callable[[Variant], Judged]) -> None:
    judged = convict(build)
    assert judged.exit is Exit.PASS, judged.line(build.name)

"""The patch tool applies every row to the release, and fails on an edit that does not apply."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.model.errors import HarnessFailure
from suites.mutants.build import Patcher
from suites.mutants.table import Variant, mutants, nasty, unplayed

BUILDS = (*mutants(), *unplayed(), *nasty())


@pytest.mark.parametrize("variant", BUILDS, ids=lambda variant: variant.name)
def test_every_row_applies_and_its_classes_load(patcher: Patcher, variant: Variant) -> None:
    applied = replace(variant, name=f"applied-{variant.name}")
    marked = (patcher.build(applied) / "MUTANT").read_text(encoding="utf-8")
    touched = {edit["class"] for edit in variant.edits}
    assert all(name in marked for name in touched)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"class": "kafka.cluster.Partitionn"}, "Partitionn"),
        ({"method": "noSuchMethod"}, "used 0 times"),
        ({"target": "UnifiedLog.lowWatermark"}, "used 0 times"),
        ({"sites": 2}, "used 1 times, not 2"),
        ({"source": "$_ = $0.noSuchMethod();"}, "noSuchMethod"),
    ],
)
def test_an_edit_that_does_not_apply_is_an_error(patcher: Patcher, change: dict[str, object], says: str) -> None:
    sound = next(mutant for mutant in mutants() if mutant.name == "ack_at_leader_append")
    wrong = replace(
        sound, name=f"loud-{says.replace(' ', '-')}-{'-'.join(change)}", edits=({**sound.edits[0], **change},)
    )
    with pytest.raises(HarnessFailure, match=says):
        patcher.build(wrong)

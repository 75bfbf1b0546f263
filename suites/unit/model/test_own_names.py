"""The prefix of a run's names, and a topic's name without it."""

from __future__ import annotations

import pytest

from harness.model.own_names import prefix_of, without_prefix


@pytest.mark.parametrize("run", [0, 1, 2**63 - 1, 0x0123456789ABCDEF])
def test_a_name_without_the_prefix_of_its_run_is_that_of_the_scenario(run: int) -> None:
    prefix = prefix_of(run)
    assert len(prefix) == len("durability-") + 11
    assert without_prefix(f"{prefix}plain") == "plain"
    assert without_prefix(f"{prefix}{prefix}plain") == f"{prefix}plain"


@pytest.mark.parametrize(
    "name", ["", "plain", "durability-plain", "durability-0123456789", "x-durability-0123456789-y"]
)
def test_a_name_without_a_prefix_stays(name: str) -> None:
    assert without_prefix(name) == name

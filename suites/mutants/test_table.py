"""The rows of planted bugs and of nasty builds: every area of the broker has a bug, and bad rows are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import scenarios
from harness.model.finding import Kind
from suites.mutants.table import mutants, nasty, unplayed

AREAS = {
    "ack path",
    "replication",
    "truncation",
    "crash recovery",
    "durable writes",
    "producer state",
    "transaction visibility",
    "group coordinator",
    "retention",
    "read path",
    "tier copy",
    "tier metadata",
    "tier local deletion",
    "tier read",
}


def test_every_area_has_a_planted_bug() -> None:
    assert AREAS - {mutant.area for mutant in mutants()} == set()


def test_a_mutant_expects_findings_of_its_scenarios_and_a_nasty_build_none() -> None:
    assert all(mutant.expect and mutant.judge for mutant in (*mutants(), *unplayed()))
    assert not any(build.expect for build in nasty())


def test_names_of_builds_are_unique() -> None:
    names = [variant.name for variant in (*mutants(), *unplayed(), *nasty())]
    assert len(set(names)) == len(names)


def test_nothing_is_said_to_escape_that_was_not_played() -> None:
    assert not any(mutant.escapes for mutant in unplayed())


def test_rows_are_parsed_into_variants(tmp_path: Path) -> None:
    file = tmp_path / "rows.toml"
    edit = 'edit = [{ class = "a.B", method = "c", how = "before", source = ";" }]'
    file.write_text(f'[[mutant]]\nname = "x"\narea = "acks"\nmistake = "a\\n b"\nexpect = ["lost"]\n{edit}\n')
    (row,) = mutants(file)
    assert (row.name, row.story, row.expect) == ("x", "a b", (Kind.LOST,))


@pytest.mark.parametrize("wrong", ['expect = ["lots"]', 'expekt = ["lost"]'])
def test_a_row_with_an_unknown_key_or_kind_is_refused(tmp_path: Path, wrong: str) -> None:
    file = tmp_path / "rows.toml"
    edit = 'edit = [{ class = "a.B", method = "c", how = "before", source = ";" }]'
    file.write_text(f'[[mutant]]\nname = "x"\narea = "acks"\nmistake = "a"\n{wrong}\n{edit}\n')
    with pytest.raises(ValueError, match=r"lots|expekt"):
        mutants(file)


def test_a_row_names_scenarios_of_the_gate_or_only_scenarios_outside_of_it() -> None:
    gate = {scenario.name for scenario in scenarios.gate()}
    judges = [set(mutant.judge) for mutant in (*mutants(), *unplayed())]
    assert set().union(*judges) <= scenarios.builtin().keys()
    assert all(judge <= gate or not judge & gate for judge in judges)

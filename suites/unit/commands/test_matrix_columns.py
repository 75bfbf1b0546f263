"""The columns of the matrix: each is whole, README shows them all, and they are chosen by name, event and tag."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import scenarios
from harness.commands import matrix, matrix_settings
from harness.model.contract.effects import Effect
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Scenario
from harness.model.scenario.toml import patched
from reports.grouping import settings_of
from reports.matrix import BEGIN, END

COLUMNS = matrix.matrix_scenarios()
DIES = COLUMNS["contract_leader_dies"]
RELEASE = "4.3.1"


@pytest.mark.parametrize("scenario", COLUMNS.values(), ids=lambda scenario: scenario.name)
def test_each_column_is_whole(scenario: Scenario) -> None:
    """Its event concerns each of its topics, and what is to be lost of them is known to the record, where it is not
    known to the byte: how much a disk has of a log."""
    assert scenario.matrix is not None
    bytewise = scenario.allowed_anomalies.last_replica or scenario.shape.disk
    exact = {loss.topic: loss.count for loss in scenario.allowed_anomalies.exact_losses}
    for cell in matrix._cells(scenario, None, RELEASE):
        is_lost = Effect.LOST in cell.promised.effects
        assert is_lost == (exact.get(cell.topic, 0) > 0) or (is_lost and bytewise), cell.topic
        assert scenario.matrix.fault or Effect.UNAVAILABLE not in cell.promised.effects
    twin = scenarios.negative_control(scenario)
    assert twin.matrix == scenario.matrix


def readme_rows() -> Iterator[tuple[str, frozenset[str], str, str]]:
    """Of each row of an event in README's matrix: what happens, the settings, what is promised, what it came to."""
    text = (Path(matrix.__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    sections = text.split(BEGIN)[1].split(END)[0].split("\n### When ")[1:]
    for happens, _, rest in (section.partition("\n") for section in sections):
        lines = rest.strip().splitlines()
        common = [line.removeprefix("All with ").rstrip(".") for line in lines if line.startswith("All with ")]
        for line in [line for line in lines if line.startswith("| ")][1:]:
            own, promised, came_to, *_ = (part.strip() for part in line.strip("|").split(" | "))
            own = own.replace("**", "").removeprefix("nothing more")
            settings = [part for whole in (*common, own) if whole for part in settings_of(whole)]
            yield happens, frozenset(settings), promised, came_to


def test_the_readme_shows_the_matrix_as_it_is() -> None:
    """Written by `durability matrix` from runs; whoever adds a cell or changes a setting plays it anew."""
    rows = list(readme_rows())
    every = [cell for scenario in COLUMNS.values() for cell in matrix._cells(scenario, None, RELEASE)]
    promised = {(cell.event.happens, frozenset(settings_of(cell.row))): cell.promised.effects for cell in every}
    assert {(happens, settings) for happens, settings, *_ in rows} == set(promised)
    assert len(rows) >= len(promised)
    for happens, settings, said, came_to in rows:
        effects = promised[happens, settings]
        assert said.endswith(", ".join(effects))
        assert effects[0] in came_to
        assert "NOT AS PROMISED" not in came_to


@pytest.mark.parametrize(("version", "elr"), [("4.1.0", True), ("4.0.1", False), ("3.9.1", False), ("8.1.0-ccs", True)])
def test_a_release_that_formats_without_elr_has_none(version: str, elr: bool) -> None:
    settings, _ = matrix_settings.settings_of(DIES, "one", version)
    assert settings.elr is elr
    off, _ = matrix_settings.settings_of(COLUMNS["last_replica_elr_off"], "last", version)
    assert not off.elr


def test_who_reads_within_the_lag_is_told_by_the_steps() -> None:
    """Where no step waits for compaction at a topic it is read before its min.compaction.lag.ms is over."""
    for name, lagging, soon in (
        ("contract_written_again", "lagging", "compacted"),
        ("contract_falls_behind_cleaner", "spared", "behind"),
    ):
        column = COLUMNS[name]
        within = {topic: matrix_settings.settings_of(column, topic, RELEASE)[1].within_lag for topic in (lagging, soon)}
        assert within == {lagging: True, soon: False}
        late = patched(column, {f"topics.{soon}.config.min.compaction.lag.ms": "86400000"})
        settings, client = matrix_settings.settings_of(late, soon, RELEASE)
        assert (settings.compaction_lag_ms, client.within_lag) == (86_400_000, False)


def test_whoever_has_a_matrix_has_the_tag() -> None:
    assert set(COLUMNS) == {name for name, scenario in scenarios.builtin().items() if scenario.matrix is not None}


def test_columns_are_chosen_by_their_names_and_by_their_events() -> None:
    assert matrix.chosen(()) == tuple(COLUMNS)
    assert matrix.chosen(["leader_dies", "contract_leader_dies"]) == ("contract_leader_dies",)
    assert matrix.chosen(["deleted_and_restarted"]) == ("contract_records_deleted",)
    with pytest.raises(BadInput, match="no column of the matrix is called 'leader_dyes'; did you mean 'leader_dies'"):
        matrix.chosen(["leader_dyes"])


def test_columns_are_chosen_by_tags_too() -> None:
    groups = matrix.chosen((), ["groups"])
    assert groups == tuple(name for name, column in COLUMNS.items() if "groups" in column.tags)
    assert set(matrix.chosen(["leader_dies"], ["groups"])) == {"contract_leader_dies", *groups}
    assert matrix.chosen((), [matrix.TAG]) == tuple(COLUMNS)
    with pytest.raises(BadInput, match="no column of the matrix has the tag 'gruops'; did you mean 'groups'"):
        matrix.chosen((), ["gruops"])


def test_an_event_that_does_not_concern_a_topic_is_refused() -> None:
    other = patched(DIES, {"topics.all_one.replicas": 1, "topics.all_one.assignment": [[1]]})
    assert other.matrix is not None
    odd = replace(other, matrix=replace(other.matrix, event="replica_down", topics=("all_one",)))
    with pytest.raises(BadInput, match="replica_down does not concern topic all_one"):
        list(matrix._cells(odd, None, RELEASE))


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ({"matrix.event": "leader_dyes"}, "event = 'leader_dyes'"),
        ({"matrix.topics": []}, "topics is empty"),
        ({"matrix.topics": ["zeero"]}, "no topic 'zeero'"),
        ({"matrix.fault": "kil_leader"}, "fault: no step 'kil_leader'"),
        ({"matrix.events": {"zero": "leader_dyes"}}, "event = 'leader_dyes'"),
        ({"matrix.events": {"zeero": "leader_dies"}}, "events: no topic 'zeero'; did you mean 'zero'"),
        ({"matrix.exactly": {"zeero": 50}}, "exactly: no topic 'zeero'; did you mean 'zero'"),
    ],
)
def test_a_column_that_means_nothing_is_refused(patch: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        patched(DIES, patch)

"""Tests of the scenarios of the matrix: each is complete, and they are chosen by name, event and tag."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness import scenarios
from harness.commands import matrix, matrix_settings
from harness.model.contract.effects import Effect
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Scenario
from harness.model.scenario.toml import patched

SCENARIOS = matrix.matrix_scenarios()
DIES = SCENARIOS["contract_leader_dies"]
RELEASE = "4.3.1"


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda scenario: scenario.name)
def test_each_scenario_of_the_matrix_is_complete(scenario: Scenario) -> None:
    """Its event concerns each of its topics, and the number of lost records is declared.

    The exception are losses of bytes that a disk had not flushed: their number of records is not known in advance.
    """
    assert scenario.matrix is not None
    bytewise = scenario.allowed_anomalies.last_replica or scenario.shape.disk
    exact = {loss.topic: loss.count for loss in scenario.allowed_anomalies.exact_losses}
    for cell in matrix.declared_cells(scenario, RELEASE):
        is_lost = Effect.LOST in cell.promised.effects
        assert is_lost == (exact.get(cell.topic, 0) > 0) or (is_lost and bytewise), cell.topic
        assert scenario.matrix.fault or Effect.UNAVAILABLE not in cell.promised.effects
    assert scenarios.negative_control(scenario).matrix == scenario.matrix


@pytest.mark.parametrize(("version", "elr"), [("4.1.0", True), ("4.0.1", False), ("3.9.1", False), ("8.1.0-ccs", True)])
def test_a_release_that_formats_without_elr_has_none(version: str, elr: bool) -> None:
    settings, _ = matrix_settings.settings_of(DIES, "one", version)
    assert settings.elr is elr
    off, _ = matrix_settings.settings_of(SCENARIOS["last_replica_elr_off"], "last", version)
    assert not off.elr


def test_who_reads_within_the_lag_is_told_by_the_steps() -> None:
    """Where no step waits for compaction at a topic it is read before its min.compaction.lag.ms is over."""
    for name, lagging, soon in (
        ("contract_written_again", "lagging", "compacted"),
        ("contract_falls_behind_cleaner", "spared", "behind"),
    ):
        column = SCENARIOS[name]
        within = {
            topic: matrix_settings.settings_of(column, topic, RELEASE)[1].reads_within_compaction_lag
            for topic in (lagging, soon)
        }
        assert within == {lagging: True, soon: False}
        late = patched(column, {f"topics.{soon}.config.min.compaction.lag.ms": "86400000"})
        settings, client = matrix_settings.settings_of(late, soon, RELEASE)
        assert (settings.compaction_lag_ms, client.reads_within_compaction_lag) == (86_400_000, False)


def test_whoever_has_a_matrix_has_the_tag() -> None:
    assert set(SCENARIOS) == {name for name, scenario in scenarios.builtin().items() if scenario.matrix is not None}


def test_columns_are_chosen_by_their_names_and_by_their_events() -> None:
    assert matrix.chosen(()) == tuple(SCENARIOS)
    assert matrix.chosen(["leader_dies", "contract_leader_dies"]) == ("contract_leader_dies",)
    assert matrix.chosen(["deleted_and_restarted"]) == ("contract_records_deleted",)
    with pytest.raises(BadInput, match="the matrix has no event or scenario 'leader_dyes'; did you mean 'leader_dies'"):
        matrix.chosen(["leader_dyes"])


def test_columns_are_chosen_by_tags_too() -> None:
    groups = matrix.chosen((), ["groups"])
    assert groups == tuple(name for name, column in SCENARIOS.items() if "groups" in column.tags)
    assert set(matrix.chosen(["leader_dies"], ["groups"])) == {"contract_leader_dies", *groups}
    assert matrix.chosen((), [matrix.TAG]) == tuple(SCENARIOS)
    with pytest.raises(BadInput, match="no scenario of the matrix has the tag 'gruops'; did you mean 'groups'"):
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

"""Tests of the built-in scenarios as a set: each can be proven, and none meets a known bug by accident."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from harness import scenarios
from harness.faults.operations.plant_loss import PlantLoss
from harness.faults.steps.registry import BY_NAME, Heal, build_step, is_disturbance, needs
from harness.model.errors import BadInput
from harness.model.scenario import toml
from harness.model.scenario.scenario import Scenario

GATE = scenarios.gate()
ids = [s.name for s in GATE]
# Bugs that are open in every release so far.
BUGS = {
    "abort_search_ends_early",
    "kafka_17375",
    "kafka_20734",
    "partitions_added_before_return",
    "tiered_left_under_load",
    "tiered_unclean_far",
    "tiered_unclean_rolled",
    "time_index_emptied",
}
TRIALS = {s.name for s in scenarios.builtin().values() if "trial" in s.tags}


def test_the_gate_has_at_least_14_scenarios_and_3_quick_ones() -> None:
    assert len(GATE) >= 14
    assert len(scenarios.smoke()) == 3
    assert all(s.gate for s in scenarios.smoke())


@pytest.mark.parametrize("scenario", GATE, ids=ids)
def test_each_scenario_of_the_gate_has_a_property_and_a_negative_control(scenario: Scenario) -> None:
    assert scenario.property
    assert scenario.negative_control is not None
    assert scenarios.negative_control(scenario) != scenario


@pytest.mark.parametrize("scenario", GATE, ids=ids)
def test_each_scenario_of_the_gate_fits_on_one_page(scenario: Scenario) -> None:
    text = scenarios.path_of(scenario.name).read_text()
    assert len(text.splitlines()) < 60


@pytest.mark.parametrize("scenario", GATE, ids=ids)
def test_every_scenario_except_calm_has_a_fault(scenario: Scenario) -> None:
    disturbs = any(is_disturbance(build_step(step)) for step in scenario.steps)
    assert disturbs == (scenario.name != "calm")


def test_every_kind_of_step_is_used_by_a_scenario_or_a_negative_control() -> None:
    used = {
        step.do
        for s in scenarios.builtin().values()
        for step in (*s.steps, *(scenarios.negative_control(s).steps if s.negative_control else ()))
    }
    of_nights = PlantLoss.do  # harness.chaos adds it to planted episodes
    assert set(BY_NAME) - used <= {"cut", Heal.do, of_nights}


@pytest.mark.parametrize("scenario", scenarios.builtin().values(), ids=lambda s: s.name)
def test_each_scenario_has_a_tag_and_its_sets(scenario: Scenario) -> None:
    assert scenario.tags
    sets = set(scenarios.tags_of(scenario)) - set(scenario.tags)
    wanted = {"known-bug", "trial"} & set(scenario.tags) or ({"gate"} if scenario.gate else {"nightly"})
    assert sets == (wanted - {"known-bug", "trial"}) | ({"smoke"} if scenario.smoke else set())


def test_the_gate_on_containers_contains_the_gate_on_processes() -> None:
    wider = {s.name for s in scenarios.gate("containers")}
    assert wider == {s.name for s in GATE} | {s.name for s in scenarios.builtin().values() if s.gate_on_containers}
    assert "power_loss_one" in wider - set(ids)
    assert not wider & TRIALS


def test_tags_select_scenarios() -> None:
    assert scenarios.tagged(["gate"]) == GATE
    nightly = {s.name for s in scenarios.tagged(["nightly"])}
    assert nightly == {s.name for s in scenarios.builtin().values() if not s.gate} - BUGS - TRIALS
    assert not TRIALS & {s.name for s in scenarios.gate()}
    both = {s.name for s in scenarios.tagged(["disk", "controllers"])}
    assert both == {s.name for s in scenarios.builtin().values() if {"disk", "controllers"} & set(s.tags)}
    with pytest.raises(BadInput, match="no scenario has the tag 'nightlies'; did you mean 'nightly'"):
        scenarios.tagged(["nightlies"])


@pytest.mark.parametrize(("tag", "reported"), [("nightly", "remove it"), ("of all", "letters, 0-9 and -")])
def test_a_file_must_not_name_a_set_or_a_malformed_tag(tag: str, reported: str) -> None:
    text = scenarios.path_of("calm").read_text().replace('"groups"', f'"{tag}"')
    with pytest.raises(BadInput, match=reported):
        toml.parse(text, "calm")


def test_the_gate_needs_at_most_seven_shapes_of_cluster() -> None:
    shapes = [str(s.shape) for s in GATE]
    assert len(set(shapes)) <= 7
    assert sum(a != b for a, b in pairwise(shapes)) < len(set(shapes))  # scenarios of one shape are adjacent


def test_the_gate_uses_every_codec_acks_keys_transactions_and_rolled_segments() -> None:
    producers = [p for s in GATE for p in s.producers]
    assert {p.compression for p in producers} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {p.acks for p in producers} == {"all", "1"}
    assert any(p.keyed for p in producers)
    assert any(p.transactions and p.transactions.spans_rolls for p in producers)
    assert any(p.transactions and p.transactions.offsets_of for p in producers)
    assert any(t.config.get("segment.bytes") == str(1 << 20) for s in GATE for t in s.topics)


# KAFKA-20734 tears a transaction that ends while a partition has no leader, in every release so far.
LEADERLESS = {"all_killed", "followers_frozen_long", "exact_loss", "exact_loss_safe", "last_in_sync_die"}


def test_no_transactional_producer_runs_where_a_partition_may_lose_its_leader() -> None:
    transactional = {s.name for s in GATE if any(p.transactions and p.when == "always" for p in s.producers)}
    assert transactional.isdisjoint(LEADERLESS)
    assert {s.name for s in GATE} >= LEADERLESS


def test_a_scenario_needs_the_capabilities_of_its_steps() -> None:
    assert needs(scenarios.load("controller_killed")) == {"kill", "links", "restart", "terminate"}
    assert needs(scenarios.load("exact_loss")) == {"kill", "links", "restart"}


def test_an_unknown_scenario_gets_the_nearest_name_as_a_hint() -> None:
    with pytest.raises(BadInput, match="did you mean 'leader_killed'"):
        scenarios.load("leader_kiled")
    with pytest.raises(BadInput, match="the file does not exist"):
        scenarios.load("no/such/file.toml")


def test_a_scenario_from_a_file_has_the_name_of_the_file(tmp_path: Path) -> None:
    text = scenarios.path_of("leader_killed").read_text()
    (tmp_path / "mine.toml").write_text(text)
    assert scenarios.load(str(tmp_path / "mine.toml")).name == "mine"


@pytest.mark.parametrize(
    ("name", "content", "reported"),
    [
        ("calm.toml", None, "the file does not exist; did you mean the built-in 'calm'?"),
        ("zzz.toml", None, "the file does not exist; check the path"),
        ("mine.toml", b"", "mine.toml is empty"),
        ("mine.toml", b" \n", "mine.toml is empty"),
        ("mine.toml", b'title = "\xff"', "is not UTF-8 text (byte 10)"),
        ("mine.toml", b'title = "t"', "mine.toml: scenario mine: 'property' is missing"),
        ("mine.TOML", b"", "must end in .toml, in lower case"),
    ],
)
def test_the_message_about_a_bad_file_names_its_path(
    tmp_path: Path, name: str, content: bytes | None, reported: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput) as error:
        scenarios.load(str(tmp_path / name))
    assert reported in str(error.value)
    assert str(tmp_path / name) in str(error.value)


def test_a_pipe_or_folder_is_not_opened(tmp_path: Path) -> None:
    """Opening a pipe would block for ever."""
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "folder.toml").mkdir()
    for name in ("pipe.toml", "folder.toml"):
        with pytest.raises(BadInput, match=r"(it is a folder|not a regular file)\); give a \.toml file"):
            scenarios.load(str(tmp_path / name))
    with pytest.raises(BadInput, match=r"is a folder; give one of its \.toml files"):
        scenarios.load(f"{tmp_path}/")


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    text = scenarios.path_of("leader_killed").read_bytes()
    (tmp_path / "mine.toml").write_bytes(b"\xef\xbb\xbf" + text)
    assert scenarios.load(str(tmp_path / "mine.toml")).steps == scenarios.load("leader_killed").steps

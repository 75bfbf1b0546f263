"""Which scenarios a run plays, on which backend; what cannot be played is refused before anything starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness import scenarios
from harness.clusters import choosing
from harness.commands import cli
from harness.commands.options import GateOptions
from harness.commands.scenario_selection import assign_backends
from harness.kafka.release.release import Release
from harness.model.errors import BadInput
from harness.model.exits import Exit
from harness.model.scenario import toml
from harness.model.scenario.scenario import ClusterShape

NEWEST = Release("4.3.1", "a", "here", ())
ALONE = GateOptions(seed=1)
IN_CI = GateOptions(seed=1, tags=("nightly",))
A_SET = replace(IN_CI, leave_out=True)


def test_what_the_chosen_backend_cannot_play_is_refused_before_it_starts() -> None:
    full = scenarios.load("disk_full")
    wide = replace(scenarios.load("calm"), shape=ClusterShape(brokers=13))
    for negative_control in (False, True):
        assert assign_backends(ALONE, [full], ["processes"], NEWEST, negative_control=negative_control) == (
            {"disk_full": "processes"},
            {},
        )
        with pytest.raises(BadInput, match=r"scenario disk_full: step full: disk_full needs disk.full"):
            assign_backends(ALONE, [full], ["containers"], NEWEST, negative_control=negative_control)
    assert assign_backends(ALONE, [wide], ["processes"], NEWEST) == ({"calm": "processes"}, {})
    with pytest.raises(BadInput, match=r"scenario calm: shape: .*at most 150 links .*use --backend processes"):
        assign_backends(ALONE, [wide], ["containers"], NEWEST)


def test_where_the_choice_is_ours_processes_play_what_containers_cannot() -> None:
    wanted = [scenarios.load("disk_full"), scenarios.load("disk_damaged")]
    cast, nobody = assign_backends(ALONE, wanted, ["containers", "processes"], NEWEST)
    assert cast == {"disk_full": "processes", "disk_damaged": "containers"}
    assert nobody == {}


def test_of_a_set_what_nobody_can_play_is_named_and_a_set_of_nothing_else_refused() -> None:
    full, damaged = scenarios.load("disk_full"), scenarios.load("disk_damaged")
    cast, nobody = assign_backends(A_SET, [full, damaged], ["containers"], NEWEST)
    assert cast == {"disk_damaged": "containers"}
    assert "disk_full needs disk.full" in nobody["disk_full"]
    for options, others in ((A_SET, []), (IN_CI, [damaged])):
        with pytest.raises(BadInput, match=r"disk_full needs disk\.full"):
            assign_backends(options, [full, *others], ["containers"], NEWEST)


@pytest.mark.parametrize(
    ("name", "version", "reported"),
    [
        ("last_replica_elr_on", "4.0.1", r"Kafka 4\.0\.1 has not what it is about, which came with 4\.1"),
        ("last_replica_elr_off", "3.9.1", r"which came with 4\.0; give --kafka a newer release"),
        ("voters_changed", "3.8.1", r"which came with 3\.9"),
        ("upgraded", "3.9.1", r"Kafka 3\.9\.1 is no upgrade of 3\.9\.1"),
        ("log_dir_lost", "3.7.2", r"log_dirs = 2: Kafka 3\.7\.2 supports only one log directory"),
    ],
)
def test_what_a_release_cannot_play_is_left_out_of_a_set_and_refused_alone(
    name: str, version: str, reported: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "missing", dict)  # whatever this machine lacks
    calm, other = scenarios.load("calm"), replace(scenarios.load(name), steps=())
    older = Release(version, "a", "here", ())
    for options in (A_SET, IN_CI):
        cast, nobody = assign_backends(options, [calm, other], ["processes"], older)
        assert cast == {"calm": "processes"}
        assert list(nobody) == [name]
    with pytest.raises(BadInput, match=rf"scenario {name}: .*{reported}"):
        assign_backends(ALONE, [other], ["processes"], older)
    assert assign_backends(ALONE, [other], ["processes"], NEWEST) == ({name: "processes"}, {})


def test_a_whole_gate_leaves_out_what_is_not_of_the_release_and_a_name_is_refused() -> None:
    wanted = [scenarios.load("calm"), scenarios.load("tiered_outage")]
    older = Release("3.7.2", "a", "here", ())
    assert assign_backends(replace(ALONE, leave_out=True), wanted, ["processes"], older)[0] == {"calm": "processes"}
    with pytest.raises(BadInput, match=r"tiered_outage: Kafka 3\.7\.2 has not what it is about, which came with 3\.8"):
        assign_backends(replace(ALONE, only=("calm", "tiered_outage")), wanted, ["processes"], older)


def test_without_the_jars_of_a_tier_only_scenarios_with_one_are_left_out() -> None:
    wanted = [scenarios.load("calm"), scenarios.load("tiered_outage")]
    why = "there are no jars"
    cast, nobody = assign_backends(ALONE, wanted, ["processes"], NEWEST, lacking={"local": why})
    assert cast == {"calm": "processes"}
    assert nobody == {"tiered_outage": "scenario tiered_outage: there are no jars"}
    with pytest.raises(BadInput, match=why):
        assign_backends(replace(ALONE, only=("tiered_outage",)), wanted, ["processes"], NEWEST, lacking={"local": why})


def test_without_a_storage_that_takes_orders_only_scenarios_with_orders_are() -> None:
    wanted = [scenarios.load("tiered_outage"), scenarios.load("tiered_errors")]
    cast, nobody = assign_backends(ALONE, wanted, ["processes"], NEWEST, lacking={"faults": "it cannot be compiled"})
    assert cast == {"tiered_outage": "processes"}
    assert nobody == {"tiered_errors": "scenario tiered_errors: it cannot be compiled"}


def test_the_first_release_of_a_scenario_is_a_version() -> None:
    text = "since = 'later'\n" + scenarios.path_of("calm").read_text()
    with pytest.raises(BadInput, match=r"since = 'later' is no version of Kafka"):
        toml.parse(text, "calm")


def test_a_gate_names_what_a_machine_cannot_play_and_a_scenario_by_name_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[GateOptions] = []
    monkeypatch.setattr(cli, "_gate", lambda options: asked.append(options) or Exit.PASS)
    assert cli.invoke(["gate"]) is cli.invoke(["gate", "--only", "calm"]) is Exit.PASS
    assert [options.leave_out for options in asked] == [True, False]

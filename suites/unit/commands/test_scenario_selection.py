"""Which scenarios a run plays, and on which backend; what cannot be played is refused or named before a start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from harness import scenarios
from harness.clusters import choosing
from harness.commands import cli
from harness.commands.options import GateOptions
from harness.commands.output import Output
from harness.commands.scenario_selection import Selection, Wanted, assign_backends, check_choice, choose_scenarios
from harness.faults.steps.registry import lacking
from harness.kafka.release.image_layout import LAYOUTS, BrokerImage
from harness.kafka.release.release import Release
from harness.model.errors import BadInput
from harness.model.exits import Exit
from harness.model.scenario import toml
from harness.model.scenario.scenario import ClusterShape, Scenario

NEWEST = Release("4.3.1", "a", "here", ())
ALONE = GateOptions(seed=1)
IN_CI = GateOptions(seed=1, tags=("nightly",))
A_SET = replace(IN_CI, leave_out=True)
NAMED = replace(ALONE, only=("calm", "tiered_outage"))


def wanted(*declared: Scenario, negative_control: bool = False) -> list[Wanted]:
    return [Wanted(s, scenarios.negative_control(s) if negative_control else s) for s in declared]


def assigned(
    options: GateOptions,
    declared: Sequence[Scenario],
    backends: Sequence[str] = ("processes",),
    tested: Release = NEWEST,
) -> Selection:
    return assign_backends(options, wanted(*declared), backends, tested)


def backends(selection: Selection) -> dict[str, str]:
    return {one.name: one.backend for one in selection.selected}


@pytest.mark.parametrize("negative_control", [False, True])
def test_what_the_chosen_backend_cannot_play_is_refused(negative_control: bool) -> None:
    full = wanted(scenarios.load("disk_full"), negative_control=negative_control)
    assert backends(assign_backends(ALONE, full, ["processes"], NEWEST)) == {"disk_full": "processes"}
    with pytest.raises(BadInput, match=r"scenario disk_full: step full: disk_full needs disk.full"):
        assign_backends(ALONE, full, ["containers"], NEWEST)


def test_a_cluster_with_too_many_links_for_containers_is_refused_there() -> None:
    wide = replace(scenarios.load("calm"), shape=ClusterShape(brokers=13))
    assert backends(assigned(ALONE, [wide])) == {"calm": "processes"}
    with pytest.raises(BadInput, match=r"scenario calm: shape: .*at most 150 links .*use --backend processes"):
        assigned(ALONE, [wide], ["containers"])


def test_where_the_choice_is_ours_processes_play_what_containers_cannot() -> None:
    declared = [scenarios.load("disk_full"), scenarios.load("disk_damaged")]
    selection = assigned(ALONE, declared, ["containers", "processes"])
    assert backends(selection) == {"disk_full": "processes", "disk_damaged": "containers"}
    assert selection.not_run == {}
    assert selection.lines("containers") == ["backend: processes for disk_full, which containers cannot play"]


def test_what_this_machine_cannot_play_of_a_set_is_named_and_a_set_of_nothing_else_is_refused() -> None:
    full, damaged = scenarios.load("disk_full"), scenarios.load("disk_damaged")
    selection = assigned(A_SET, [full, damaged], ["containers"])
    assert backends(selection) == {"disk_damaged": "containers"}
    assert "disk_full needs disk.full" in selection.not_run["disk_full"]
    assert selection.not_applicable == {}
    for options, others in ((A_SET, []), (IN_CI, [damaged])):
        with pytest.raises(BadInput, match=r"disk_full needs disk\.full"):
            assigned(options, [full, *others], ["containers"])


@pytest.mark.parametrize(
    ("name", "version", "reason"),
    [
        (
            "last_replica_elr_on",
            "4.0.1",
            r"Kafka 4\.0\.1 does not have what the scenario is about, which came with 4\.1",
        ),
        ("last_replica_elr_off", "3.9.1", r"which came with 4\.0; give --kafka a newer release"),
        ("voters_changed", "3.8.1", r"which came with 3\.9"),
        ("upgraded", "3.9.1", r"Kafka 3\.9\.1 is no upgrade of 3\.9\.1"),
        ("log_dir_lost", "3.7.2", r"log_dirs = 2: Kafka 3\.7\.2 supports only one log directory"),
    ],
)
def test_a_scenario_that_needs_a_newer_kafka_is_not_applicable_in_a_set_and_refused_by_name(
    name: str, version: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "missing", dict)  # whatever this machine lacks
    calm, other = scenarios.load("calm"), replace(scenarios.load(name), steps=())
    older = Release(version, "a", "here", ())
    for options in (A_SET, IN_CI, replace(ALONE, leave_out=True)):
        selection = assigned(options, [calm, other], tested=older)
        assert backends(selection) == {"calm": "processes"}
        assert (list(selection.not_applicable), selection.not_run) == ([name], {})
    with pytest.raises(BadInput, match=rf"scenario {name}: .*{reason}"):
        assigned(replace(ALONE, only=(name,)), [other], tested=older)
    with pytest.raises(BadInput, match=reason):  # nothing else is left
        assigned(A_SET, [other], tested=older)
    assert backends(assigned(ALONE, [other])) == {name: "processes"}


def test_an_upgrade_is_not_applicable_to_an_image_and_refused_by_name() -> None:
    image = BrokerImage("apache/kafka:4.3.1", "id", LAYOUTS[0])
    tested = replace(NEWEST, image=image)
    upgrade = scenarios.load("upgraded_one_minor")
    selection = assigned(ALONE, [scenarios.load("calm"), upgrade], tested=tested)
    assert (list(selection.not_applicable), selection.not_run) == (["upgraded_one_minor"], {})
    with pytest.raises(BadInput, match="a container of the previous minor release keeps its image"):
        assigned(replace(ALONE, only=("upgraded_one_minor",)), [upgrade], tested=tested)


def test_what_could_not_be_prepared_leaves_out_the_scenarios_that_need_it() -> None:
    declared = [scenarios.load("calm"), scenarios.load("tiered_outage"), scenarios.load("upgraded")]
    no_jars = {"local": "there are no jars"}
    selection = assigned(A_SET, declared).without(no_jars, A_SET)
    assert list(backends(selection)) == ["calm", "upgraded"]
    assert selection.not_run == {"tiered_outage": "scenario tiered_outage: there are no jars"}
    begins_on = scenarios.load("upgraded").shape.starts_on or ""
    assert list(backends(assigned(A_SET, declared).without({begins_on: "offline"}, A_SET))) == ["calm", "tiered_outage"]
    with pytest.raises(BadInput, match="there are no jars"):
        assigned(NAMED, declared[:2]).without(no_jars, NAMED)
    with pytest.raises(BadInput, match="there are no jars"):  # nothing else is left
        assigned(A_SET, declared[1:2]).without(no_jars, A_SET)


def test_without_a_storage_that_can_fail_only_scenarios_that_make_it_fail_are_left_out() -> None:
    declared = [scenarios.load("tiered_outage"), scenarios.load("tiered_errors")]
    selection = assigned(A_SET, declared).without({"faults": "it cannot be compiled"}, A_SET)
    assert list(backends(selection)) == ["tiered_outage"]
    assert selection.not_run == {"tiered_errors": "scenario tiered_errors: it cannot be compiled"}


def test_the_first_release_of_a_scenario_is_a_version() -> None:
    text = "since = 'later'\n" + scenarios.path_of("calm").read_text()
    with pytest.raises(BadInput, match=r"since = 'later' is no version of Kafka"):
        toml.parse(text, "calm")


def test_a_gate_names_what_a_machine_cannot_play_and_a_scenario_by_name_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[GateOptions] = []

    def passed(options: GateOptions, output: Output) -> Exit:
        asked.append(options)
        return Exit.PASS

    monkeypatch.setattr(cli, "_gate", passed)
    assert cli.invoke(["gate"]) is cli.invoke(["gate", "--only", "calm"]) is Exit.PASS
    assert [options.leave_out for options in asked] == [True, False]


def test_a_whole_gate_requires_all_and_a_part_of_it_is_known_as_one() -> None:
    names = [s.name for s in scenarios.gate()]
    whole = choose_scenarios(ALONE, "processes")
    assert (list(whole.required), whole.part, whole.left_out) == (names, False, ())
    part = choose_scenarios(replace(ALONE, only=("calm",)), "processes")
    assert (list(part.required), part.part, [one.name for one in part.wanted]) == (names, True, ["calm"])
    outside = choose_scenarios(replace(ALONE, only=("upgraded",)), "processes")
    assert (outside.required, outside.part) == (("upgraded",), True)
    tagged = choose_scenarios(replace(ALONE, tags=("smoke",)), "processes")
    assert (list(tagged.required), tagged.part) == ([s.name for s in scenarios.tagged(["smoke"])], False)


def test_containers_have_scenarios_in_their_gate_that_processes_do_not() -> None:
    more = set(choose_scenarios(ALONE, "containers").required) - set(choose_scenarios(ALONE, "processes").required)
    assert more == {s.name for s in scenarios.builtin().values() if s.gate_on_containers and not s.gate}


def test_a_negative_control_is_made_once_and_keeps_what_was_declared() -> None:
    choice = choose_scenarios(replace(ALONE, only=("leader_killed",)), "processes", negative_control=True)
    (one,) = choice.wanted
    assert one.declared == scenarios.load("leader_killed")
    assert one.played == scenarios.negative_control(one.declared) != one.declared


def test_a_scenario_that_is_left_out_stays_required_and_is_not_played() -> None:
    choice = choose_scenarios(replace(ALONE, without=("calm",)), "processes")
    assert choice.left_out == ("calm",)
    assert "calm" in choice.required
    assert "calm" not in [one.name for one in choice.wanted]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            replace(ALONE, without=("clam",)),
            "--without clam: that is none of the scenarios of this run; did you mean calm",
        ),
        (replace(ALONE, without=("upgraded",)), "--without upgraded: that is none of the scenarios of this run"),
        (
            replace(ALONE, tags=("disk",), without=("calm",)),
            "--without calm: that is none of the scenarios of this run",
        ),
        (replace(ALONE, without=tuple(s.name for s in scenarios.gate("containers"))), "leaves no scenario to run"),
    ],
)
def test_without_names_scenarios_of_the_run(options: GateOptions, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        check_choice(options)


def test_a_scenario_of_the_gate_on_containers_may_be_left_out_whatever_the_backend() -> None:
    (name,) = {s.name for s in scenarios.gate("containers")} - {s.name for s in scenarios.gate()}
    check_choice(replace(ALONE, without=(name,)))
    assert choose_scenarios(replace(ALONE, without=(name,)), "processes").left_out == ()
    assert choose_scenarios(replace(ALONE, without=(name,)), "containers").left_out == (name,)


def test_what_this_machine_cannot_play_is_no_obstacle_once_it_is_left_out() -> None:
    in_ci = replace(ALONE, tags=("disk",), backend="containers")
    with pytest.raises(BadInput, match=r"disk_full needs disk\.full"):
        check_choice(in_ci)
    capabilities = choosing.able("containers")
    unfit = [s.name for s in scenarios.tagged(["disk"]) if not _fits(s, capabilities)]
    check_choice(replace(in_ci, without=tuple(unfit)))


def _fits(scenario: Scenario, capabilities: frozenset[str]) -> bool:
    return lacking(scenario, capabilities) is None

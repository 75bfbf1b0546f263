"""Runs on an existing cluster: what is decided before anything is created there. No broker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from harness import scenarios
from harness.commands import attached
from harness.commands.attach_option import with_attach
from harness.commands.attached import Attached, look, run_of, select
from harness.commands.options import Attach, GateOptions
from harness.commands.scenario_selection import Wanted
from harness.model.backend import ATTACHED
from harness.model.errors import BadInput
from harness.model.exits import Exit
from harness.model.hooks import Hooks, read_hooks
from harness.model.live_cluster import LiveCluster
from harness.model.own_names import prefix_of
from harness.model.scenario.scenario import Scenario
from suites.unit.live_clusters import live

SEED = 7
ALL_HOOKS = "".join(
    f'[{operation}]\ncommand = "true"\ninverse = "true"\nin_effect = "true"\nundone = "true"\n'
    for operation in ("kill", "terminate", "pause", "cut", "slow")
)
CALM, KILLED, FRESH = (scenarios.load(name) for name in ("calm", "leader_killed", "disk_full"))


class Quiet:
    def __call__(self, text: str) -> None: ...

    def line(self, text: str) -> None: ...


def hooks(folder: Path, text: str = ALL_HOOKS) -> Hooks:
    file = folder / "hooks.toml"
    file.write_text(text)
    return read_hooks(file)


def options(kafka: str | None = "4.4.0", only: tuple[str, ...] = (), **attach: object) -> GateOptions:
    return GateOptions(
        seed=SEED,
        kafka=kafka,
        only=only,
        attach=Attach(bootstrap="h:9091", **attach),  # type: ignore[arg-type]
    )


def looked(given: GateOptions, monkeypatch: pytest.MonkeyPatch, cluster: LiveCluster | None = None) -> Attached:
    monkeypatch.setattr(attached, "discover", lambda door, version: replace(cluster or live(), version=version))
    return look(given, Quiet())


def wanted(*chosen: Scenario, control: bool = False) -> Iterable[Wanted]:
    return [Wanted(one, scenarios.negative_control(one) if control else one) for one in chosen]


def test_the_wrong_id_is_refused_with_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        BadInput, match=r"--allow-faults OTHER: the cluster at h:9091 has the id ID; nothing was created"
    ):
        looked(options(allow_faults="OTHER"), monkeypatch)
    assert looked(options(allow_faults="ID"), monkeypatch).live.cluster_id == "ID"


def test_faults_that_nobody_allowed_are_refused_with_the_id_of_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = options(hooks=hooks(tmp_path))
    found = looked(given, monkeypatch)
    said = "scenario leader_killed disturbs the cluster ID; nothing was created; allow that by --allow-faults ID"
    with pytest.raises(BadInput, match=said):
        select(given, found, wanted(CALM, KILLED))
    assert [one.name for one in select(given, found, wanted(CALM)).selected] == ["calm"]


def test_a_negative_control_counts_by_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of calm deletes records, which disturbs nobody but its own topics; a control with faults is one."""
    given = options()
    found = looked(given, monkeypatch)
    (one,) = select(given, found, wanted(CALM, control=True)).selected
    assert one.played != one.declared
    assert {topic.name for topic in one.played.topics} == {topic.name for topic in one.declared.topics}


def test_a_scenario_that_the_cluster_cannot_play_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = options(hooks=hooks(tmp_path), allow_faults="ID")
    found = looked(given, monkeypatch)
    selection = select(given, found, wanted(CALM, KILLED, FRESH))
    assert [one.name for one in selection.selected] == ["calm", "leader_killed"]
    assert list(selection.not_run) == ["disk_full"]
    with pytest.raises(BadInput, match="scenario disk_full: it needs"):
        select(replace(given, only=("disk_full",)), found, wanted(FRESH))
    with pytest.raises(BadInput, match="scenario disk_full: it needs"):
        select(given, found, wanted(FRESH))  # nothing is left


def test_a_scenario_about_a_newer_kafka_is_not_applicable(monkeypatch: pytest.MonkeyPatch) -> None:
    given = options(kafka="4.0.0")
    selection = select(given, looked(given, monkeypatch), wanted(CALM, replace(CALM, name="new", since="4.2.0")))
    assert [one.name for one in selection.selected] == ["calm"]
    assert list(selection.not_applicable) == ["new"]
    assert selection.not_run == {}


def test_names_have_the_prefix_of_their_run_and_no_two_runs_share_one(monkeypatch: pytest.MonkeyPatch) -> None:
    given = options()
    (one,) = select(given, looked(given, monkeypatch), wanted(CALM)).selected
    assert one.backend == ATTACHED
    prefix = prefix_of(run_of(SEED, "calm"))
    assert all(topic.name.startswith(prefix) for topic in one.played.topics)
    assert prefix != prefix_of(run_of(SEED + 1, "calm"))
    assert prefix != prefix_of(run_of(SEED, "leader_killed"))


def test_hooks_are_checked_against_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match=r"bad hooks .*: \[kill\]: nodes: the cluster has no node 7"):
        looked(options(hooks=hooks(tmp_path, ALL_HOOKS.replace("[kill]\n", "[kill]\nnodes = [7]\n"))), monkeypatch)


@pytest.mark.parametrize(
    ("kafka", "what"), [("image:x", "an image"), ("./folder", "no version"), ("x.tgz", "no version")]
)
def test_kafka_only_says_which_version_runs(monkeypatch: pytest.MonkeyPatch, kafka: str, what: str) -> None:
    with pytest.raises(BadInput, match=f"is {what}: with --bootstrap it only says what the cluster runs"):
        looked(options(kafka=kafka), monkeypatch)
    assert looked(options(kafka=None), monkeypatch).named.version is None
    assert looked(options(kafka="4.4.0"), monkeypatch).named.version == "4.4.0"


def test_an_address_without_a_port_is_refused() -> None:
    given = replace(options(), attach=Attach(bootstrap="h"))
    with pytest.raises(BadInput, match="the address 'h' has no port"):
        look(given, Quiet())


def test_of_client_settings_only_those_of_connections_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An `acks` of the user's other clients must not weaken what is tested."""
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nacks=0\ngroup.id=theirs\n"
        'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";\n'
    )
    got: list[Attach | None] = []

    def command(*, attach: Attach | None, **_: object) -> Exit:
        got.append(attach)
        return Exit.PASS

    run = with_attach(command)
    run(bootstrap="h:1", command_config=file, hooks=None, allow_faults=None, rate=5)
    (attach,) = got
    assert attach is not None
    assert attach.rate_per_s == 5
    assert {"acks", "group.id"} & attach.config.keys() == set()
    assert attach.config["sasl.username"] == "u"
    assert "sasl.password" not in repr(attach)

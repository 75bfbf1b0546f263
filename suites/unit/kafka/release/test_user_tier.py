"""A remote storage manager of the user: the file that describes it, and its use in a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import scenarios
from harness.clusters.choosing import check_plan
from harness.commands import scenario_selection
from harness.commands.cli import invoke
from harness.commands.options import GateOptions
from harness.kafka.release.release import Release
from harness.kafka.release.user_tier import READER, _escaped, fetch_all, with_user_storage
from harness.kafka.settings.tier_settings import Tier, tier_properties
from harness.model.errors import BadInput, HarnessFailure
from harness.model.exits import Exit
from harness.model.scenario.scenario import ClusterShape
from harness.model.user_storage import UserStorage, read_user_storage

STORAGE = UserStorage(class_name="org.example.Far", class_path="/opt/far/*", config={"endpoint": "http://h", "k": "v"})
RELEASE = Release(version="4.3.1", commit="c", source="s", classpath=(Path("/libs/kafka-storage-4.3.1.jar"),))
GIVEN: dict[str, Any] = {"maven_repo": None, "progress": lambda line: None}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "far.jar").touch()
    return tmp_path / "far.toml"


def test_relative_paths_start_in_the_folder_of_the_file(file: Path) -> None:
    file.write_text('class_name = "org.example.Far"\nclass_path = "jars/*:jars/far.jar"\n[config]\n"a.b" = "c"\n')
    found = read_user_storage(file)
    jars = file.parent / "jars"
    assert found == UserStorage(
        class_name="org.example.Far", class_path=f"{jars}/*:{jars}/far.jar", config={"a.b": "c"}
    )
    hash(found)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", "'class_name' is missing"),
        ("class_name = ", "not valid TOML"),
        ('class_name = "F"\nclass_path = ""', "is empty; give the manager's class and its jars"),
        ('class_name = "F"\nclass_path = "no.jar"', "class_path: .*no.jar does not exist"),
        ('class_name = "F"\nclass_path = "empty/*"', "class_path: there is no jar in .*empty"),
        ('class_name = "F"\nclas_path = "x"', "unknown key 'clas_path'; did you mean 'class_path'"),
        ('class_name = "F"\nclass_path = "jars/*"\n[config]\na = [1]', r"config\.a: \[1\] is not a text"),
        (None, "cannot be read"),
    ],
)
def test_an_invalid_file_is_reported_in_one_line(
    file: Path, text: str | None, reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (file.parent / "empty").mkdir()
    if text is not None:
        file.write_text(text)
    with pytest.raises(BadInput, match=reported):
        read_user_storage(file)
    assert invoke(["run", "tiered_outage", "--tier-storage", str(file)]) is Exit.USAGE
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert str(file) in line


def test_brokers_are_configured_with_the_storage_and_the_faulty_one_wraps_it() -> None:
    said = tier_properties(Tier((), Path("/run/tier"), user=STORAGE), 3, "REPL")
    assert said["remote.log.storage.manager.class.name"] == "org.example.Far"
    assert said["remote.log.storage.manager.class.path"] == "/opt/far/*"
    assert said["rsm.config.endpoint"] == "http://h"
    assert "rsm.config.dir" not in said
    said = tier_properties(Tier((Path("/faulty.jar"),), Path("/run/tier"), faulty=True, user=STORAGE), 3, "REPL")
    assert said["remote.log.storage.manager.class.name"] == "durability.FaultyStorage"
    assert said["remote.log.storage.manager.class.path"] == "/opt/far/*:/faulty.jar"
    assert said["rsm.config.durability.storage"] == "org.example.Far"


def test_scenarios_with_a_tier_use_it_and_steps_that_it_does_not_support_are_reported() -> None:
    options = GateOptions(seed=1, tier_storage=STORAGE)
    named = replace(options, only=("calm", "tiered_copy_killed", "tiered_outage"))
    wanted = scenario_selection.choose_scenarios(named, "processes").wanted
    tiers = {one.name: one.played.shape.tier for one in wanted}
    assert tiers == {"calm": "", "tiered_copy_killed": "user", "tiered_outage": "user"}
    options = replace(options, leave_out=True)
    selection = scenario_selection.assign_backends(options, wanted, ["processes"], RELEASE)
    assert [one.name for one in selection.selected] == ["calm", "tiered_copy_killed"]
    assert "tier_outage changes objects in the remote tier" in selection.not_run["tiered_outage"]
    assert scenarios.load("tiered_outage").shape.tier == "local"


def test_containers_cannot_use_a_storage_of_the_user() -> None:
    with pytest.raises(BadInput, match="have no way to your storage; use --backend processes"):
        check_plan("containers", ClusterShape(tier="user"))


def test_a_tier_of_the_user_without_a_named_storage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match='tier = "user" is a remote storage manager of your own: name it with --tier-st'):
        with_user_storage(RELEASE, cache=tmp_path, **GIVEN)


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a Java that records its arguments and input, and exits with the code in a file."""
    java = tmp_path / "java"
    java.write_text(
        f'#!/bin/sh\nfor last; do :; done\nshift 5\ncp "$1" {tmp_path}/settings; cat > {tmp_path}/input\n'
        f"cat {tmp_path}/says >&2; exit $(cat {tmp_path}/code)\n"
    )
    java.chmod(0o755)
    (tmp_path / "says").write_text("")
    (tmp_path / "code").write_text("0")
    monkeypatch.setattr("harness.kafka.release.user_tier.find_java", lambda _: type("J", (), {"executable": java}))
    monkeypatch.setattr("harness.kafka.release.user_tier.compiled", lambda source, *_, **__: tmp_path / source.name)
    return tmp_path


def test_the_storage_is_read_once_before_anything_starts(java: Path) -> None:
    release = replace(RELEASE, user_storage=STORAGE)
    found = with_user_storage(release, cache=java / "cache", **GIVEN)
    assert found.storage_reader == java / READER.name
    assert "config.endpoint=http\\://h" in (java / "settings").read_text()
    assert with_user_storage(found, cache=java / "none", **GIVEN) is found
    (java / "says").write_text("WARN noise\nstorage-reader: java.lang.ClassNotFoundException: org.example.Far\n")
    (java / "code").write_text("1")
    reported = (
        r"^objects of org.example.Far cannot be read: java.lang.ClassNotFoundException: org.example.Far: fix the st"
    )
    with pytest.raises(BadInput, match=reported):
        with_user_storage(release, cache=java / "cache", **GIVEN)


def test_the_reader_gets_the_metadata_and_its_settings_file_is_deleted(java: Path, tmp_path: Path) -> None:
    release = replace(RELEASE, user_storage=STORAGE, storage_reader=Path("/reader.jar"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    fetch_all(release, [b"\x00\x01", b"x"], scratch, tmp_path / "objects")
    assert (java / "input").read_text().split() == ["AAE=", "eA=="]
    assert list(scratch.iterdir()) == []
    (java / "code").write_text("3")
    with pytest.raises(HarnessFailure, match="it printed no reason"):
        fetch_all(release, [], scratch, tmp_path / "objects")
    assert list(scratch.iterdir()) == []


def test_settings_are_escaped_for_java_properties() -> None:
    assert _escaped("a b=c:d\\e\nf#g!") == "a\\ b\\=c\\:d\\\\e\\nf\\#g\\!"

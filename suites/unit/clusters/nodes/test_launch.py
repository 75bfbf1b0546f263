"""What starts a node: a command that stays the same, and the arguments that its flags come in."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.clusters.nodes.launch import EntryLaunch, ImageLaunch, JavaLaunch, Settings, argument_file
from harness.kafka.release.image_layout import LAYOUTS, BrokerImage, Layout
from harness.model.errors import BadInput

SETTINGS = Settings(Path("/run/b1/server.properties"), {"node.id": "1"}, "the-id")


def test_jars_start_on_the_java_that_is_named(tmp_path: Path) -> None:
    launch = JavaLaunch("/opt/java/bin/java", "one", (Path("/libs/a.jar"), Path("/libs/b.jar")), {"TZ": "UTC"})
    command = launch.prepare(tmp_path, SETTINGS, ["-Xmx1m", "-Da=b c"])
    assert command.argv == ("/opt/java/bin/java", f"@{tmp_path}/java.args")
    assert command.env == {"TZ": "UTC"}
    assert (tmp_path / "java.args").read_text() == (
        f'"-Xmx1m"\n"-Da=b c"\n"-cp"\n"/libs/a.jar:/libs/b.jar"\n"kafka.Kafka"\n"{SETTINGS.file}"\n'
    )
    assert launch.prepare(tmp_path, SETTINGS, ["-Xshare:dump"]) == command
    assert "-Xshare:dump" in (tmp_path / "java.args").read_text()


# What Kafka's own scripts put into place of a variable that is not set, or is empty: gigabytes, G1, agents, logs.
SCRIPTS_DEFAULTS = {"KAFKA_HEAP_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_LOG4J_OPTS", "KAFKA_JMX_OPTS", "LOG_DIR"}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.makers)
def test_an_image_without_an_entry_point_starts_by_its_own_script(layout: Layout, tmp_path: Path) -> None:
    launch = ImageLaunch(BrokerImage("some/image:1", "sha256:1", layout))
    command = launch.prepare(tmp_path, SETTINGS, ["-Xmx1m", "-Da=b c"])
    assert command.argv == (layout.start, str(SETTINGS.file))
    assert (tmp_path / "java.args").read_text() == '"-Xmx1m"\n"-Da=b c"\n'
    assert command.env["KAFKA_JVM_PERFORMANCE_OPTS"] == "@java.args"  # in the directory that it is started in
    assert launch.prepare(tmp_path, SETTINGS, ["-Xshare:dump"]) == command
    assert launch.machine == "sha256:1"


def test_nothing_is_left_to_the_defaults_of_scripts_nor_broken_at_blanks(tmp_path: Path) -> None:
    blank = tmp_path / "a blank"
    blank.mkdir()
    env = ImageLaunch(BrokerImage("i", "sha256:1", LAYOUTS[0])).prepare(blank, SETTINGS, []).env
    assert {name for name, value in env.items() if value.strip()} >= SCRIPTS_DEFAULTS
    assert "blank" not in str(env)


APACHE, CONFLUENT = LAYOUTS
BROKER = Settings(
    Path("/run/b1/server.properties"),
    {"process.roles": "broker", "log.dirs": "/run/b1/data", "x.text": "a\\b", "listeners": "CLIENT://10.0.0.1:1"},
    "the-id",
)
CONTROLLER = Settings(
    Path("/run/c101/server.properties"),
    {
        "process.roles": "controller",
        "listeners": "CONTROLLER://10.0.0.1:21093",
        "advertised.listeners": "CONTROLLER://kafka-101:21093",
    },
    "the-id",
)


def entry_of(layout: Layout, *variables: str) -> EntryLaunch:
    return EntryLaunch(BrokerImage("some/image:1", "sha256:1", layout, ("/entry", layout.run), variables))


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.makers)
def test_an_image_starts_by_its_own_entry_point_with_jvm_and_logs_as_ever(layout: Layout, tmp_path: Path) -> None:
    launch = entry_of(layout)
    command = launch.prepare(tmp_path, BROKER, ["-Xmx1m", "-Da=b c"])
    assert command.argv == ("/entry", layout.run)
    assert command.env["CLUSTER_ID"] == "the-id"
    assert command.env.items() >= ImageLaunch(launch.image).prepare(tmp_path, BROKER, []).env.items()
    assert all((tmp_path / folder).is_dir() for folder in layout.folders.values())
    assert launch.prepare(tmp_path, BROKER, ["-Xshare:dump"]) == command
    assert '"-Xshare:dump"' in (tmp_path / "java.args").read_text()
    assert launch.machine == "sha256:1"


@pytest.mark.parametrize("settings", [BROKER, CONTROLLER], ids=["broker", "controller"])
def test_apaches_entry_point_takes_a_file(settings: Settings, tmp_path: Path) -> None:
    command = entry_of(APACHE).prepare(tmp_path, settings, [])
    written = dict(
        line.split("=", 1)
        for line in (tmp_path / "given" / "server.properties").read_text().replace("\\\\", "\\").split()
    )
    assert written == settings.properties
    assert not {"KAFKA_PROCESS_ROLES", "KAFKA_ADVERTISED_LISTENERS"} & command.env.keys()


def test_what_an_image_sets_itself_does_not_stand_above_ours(tmp_path: Path) -> None:
    launch = entry_of(APACHE, "PATH", "KAFKA_LOG_DIRS", "KAFKA_X_TEXT", "KAFKA_NUM_IO_THREADS", "KAFKA_HEAP_OPTS")
    env = launch.prepare(tmp_path, BROKER, []).env
    assert (env["KAFKA_LOG_DIRS"], env["KAFKA_X_TEXT"]) == ("/run/b1/data", "a\\\\b")
    assert not {"PATH", "KAFKA_NUM_IO_THREADS"} & env.keys()  # about which we have no wish


def test_confluents_entry_point_takes_variables(tmp_path: Path) -> None:
    env = entry_of(CONFLUENT).prepare(tmp_path, BROKER, []).env
    assert (env["KAFKA_PROCESS_ROLES"], env["KAFKA_LOG_DIRS"]) == ("broker", "/run/b1/data")
    assert env["KAFKA_X_TEXT"] == "a\\\\b"  # what it writes is a properties file
    assert env["KAFKA_DATA_DIRS"] == str(tmp_path)


def test_a_controller_of_confluents_listens_by_the_name_that_others_know(tmp_path: Path) -> None:
    """Told what it advertises, the entry point refuses; untold, the others would go past the proxy before it."""
    env = entry_of(CONFLUENT).prepare(tmp_path, CONTROLLER, []).env
    assert env["KAFKA_LISTENERS"] == "CONTROLLER://kafka-101:21093"
    assert "KAFKA_ADVERTISED_LISTENERS" not in env


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.makers)
def test_what_an_image_advertises_is_forgotten_by_controllers(layout: Layout, tmp_path: Path) -> None:
    launch = entry_of(layout, "KAFKA_ADVERTISED_LISTENERS")
    command = launch.prepare(tmp_path, CONTROLLER, [])
    assert command.argv[2:] == ('unset KAFKA_ADVERTISED_LISTENERS; exec "$@"', "sh", "/entry", layout.run)
    assert "KAFKA_ADVERTISED_LISTENERS" not in command.env
    assert launch.prepare(tmp_path, BROKER, []).argv == ("/entry", layout.run)


def test_a_setting_that_has_no_variable_is_refused_where_there_is_no_file(tmp_path: Path) -> None:
    settings = Settings(BROKER.file, {**BROKER.properties, "rsm.Config": "x"}, "the-id")
    entry_of(APACHE).prepare(tmp_path, settings, [])
    assert "rsm.Config=x" in (tmp_path / "given" / "server.properties").read_text()
    with pytest.raises(BadInput, match=r"takes settings as variables, and rsm\.Config cannot be written as one"):
        entry_of(CONFLUENT).prepare(tmp_path, settings, [])


def test_arguments_survive_blanks_quotes_and_backslashes() -> None:
    assert argument_file(["-Da=b c", 'say "x"', "a\\b"]) == '"-Da=b c"\n"say \\"x\\""\n"a\\\\b"\n'

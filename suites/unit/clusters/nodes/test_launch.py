"""The command that starts a node stays the same; its JVM flags are in a file of arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.clusters.nodes.launch import EntryLaunch, ImageLaunch, JavaLaunch, Settings, argument_file
from harness.kafka.release.image_layout import LAYOUTS, BrokerImage, Layout
from harness.model.errors import BadInput

SETTINGS = Settings(Path("/run/b1/server.properties"), {"node.id": "1"}, "the-id")


def test_jars_start_on_the_given_java(tmp_path: Path) -> None:
    launch = JavaLaunch("/opt/java/bin/java", "one", (Path("/libs/a.jar"), Path("/libs/b.jar")), {"TZ": "UTC"})
    command = launch.prepare(tmp_path, SETTINGS, ["-Xmx1m", "-Da=b c"])
    assert command.argv == ("/opt/java/bin/java", f"@{tmp_path}/java.args")
    assert command.env == {"TZ": "UTC"}
    assert (tmp_path / "java.args").read_text() == (
        f'"-Xmx1m"\n"-Da=b c"\n"-cp"\n"/libs/a.jar:/libs/b.jar"\n"kafka.Kafka"\n"{SETTINGS.file}"\n'
    )
    assert launch.prepare(tmp_path, SETTINGS, ["-Xshare:dump"]) == command
    assert "-Xshare:dump" in (tmp_path / "java.args").read_text()


# Kafka's scripts replace these variables by defaults if they are unset or empty: gigabytes of heap, G1, agents, logs.
SCRIPTS_DEFAULTS = {"KAFKA_HEAP_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_LOG4J_OPTS", "KAFKA_JMX_OPTS", "LOG_DIR"}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.makers)
def test_an_image_without_an_entry_point_starts_by_its_own_script(layout: Layout, tmp_path: Path) -> None:
    launch = ImageLaunch(BrokerImage("some/image:1", "sha256:1", layout))
    command = launch.prepare(tmp_path, SETTINGS, ["-Xmx1m", "-Da=b c"])
    assert command.argv == (layout.start, str(SETTINGS.file))
    assert (tmp_path / "java.args").read_text() == '"-Xmx1m"\n"-Da=b c"\n'
    assert command.env["KAFKA_JVM_PERFORMANCE_OPTS"] == "@java.args"  # relative to the directory in which it is started
    assert launch.prepare(tmp_path, SETTINGS, ["-Xshare:dump"]) == command
    assert launch.machine == "sha256:1"


def test_no_default_of_the_scripts_applies_and_no_path_contains_blanks(tmp_path: Path) -> None:
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
def test_an_entry_point_starts_with_the_same_jvm_flags_and_logs(layout: Layout, tmp_path: Path) -> None:
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
def test_apaches_entry_point_gets_a_settings_file(settings: Settings, tmp_path: Path) -> None:
    command = entry_of(APACHE).prepare(tmp_path, settings, [])
    written = dict(
        line.split("=", 1)
        for line in (tmp_path / "given" / "server.properties").read_text().replace("\\\\", "\\").split()
    )
    assert written == settings.properties
    assert not {"KAFKA_PROCESS_ROLES", "KAFKA_ADVERTISED_LISTENERS"} & command.env.keys()


def test_variables_of_the_image_do_not_override_our_settings(tmp_path: Path) -> None:
    launch = entry_of(APACHE, "PATH", "KAFKA_LOG_DIRS", "KAFKA_X_TEXT", "KAFKA_NUM_IO_THREADS", "KAFKA_HEAP_OPTS")
    env = launch.prepare(tmp_path, BROKER, []).env
    assert (env["KAFKA_LOG_DIRS"], env["KAFKA_X_TEXT"]) == ("/run/b1/data", "a\\\\b")
    assert not {"PATH", "KAFKA_NUM_IO_THREADS"} & env.keys()  # variables for which we have no setting


def test_confluents_entry_point_gets_variables(tmp_path: Path) -> None:
    env = entry_of(CONFLUENT).prepare(tmp_path, BROKER, []).env
    assert (env["KAFKA_PROCESS_ROLES"], env["KAFKA_LOG_DIRS"]) == ("broker", "/run/b1/data")
    assert env["KAFKA_X_TEXT"] == "a\\\\b"  # it writes the values into a properties file
    assert env["KAFKA_DATA_DIRS"] == str(tmp_path)


def test_a_controller_of_confluent_listens_on_the_name_that_it_would_advertise(tmp_path: Path) -> None:
    """The entry point refuses advertised.listeners; without them, other nodes would bypass the controller's proxy."""
    env = entry_of(CONFLUENT).prepare(tmp_path, CONTROLLER, []).env
    assert env["KAFKA_LISTENERS"] == "CONTROLLER://kafka-101:21093"
    assert "KAFKA_ADVERTISED_LISTENERS" not in env


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.makers)
def test_advertised_listeners_of_the_image_are_unset_for_controllers(layout: Layout, tmp_path: Path) -> None:
    launch = entry_of(layout, "KAFKA_ADVERTISED_LISTENERS")
    command = launch.prepare(tmp_path, CONTROLLER, [])
    assert command.argv[2:] == ('unset KAFKA_ADVERTISED_LISTENERS; exec "$@"', "sh", "/entry", layout.run)
    assert "KAFKA_ADVERTISED_LISTENERS" not in command.env
    assert launch.prepare(tmp_path, BROKER, []).argv == ("/entry", layout.run)


def test_a_setting_without_a_variable_name_is_refused_by_an_image_without_a_settings_file(tmp_path: Path) -> None:
    settings = Settings(BROKER.file, {**BROKER.properties, "rsm.Config": "x"}, "the-id")
    entry_of(APACHE).prepare(tmp_path, settings, [])
    assert "rsm.Config=x" in (tmp_path / "given" / "server.properties").read_text()
    with pytest.raises(BadInput, match=r"takes settings as variables, and rsm\.Config cannot be written as one"):
        entry_of(CONFLUENT).prepare(tmp_path, settings, [])


def test_blanks_quotes_and_backslashes_in_arguments_are_escaped() -> None:
    assert argument_file(["-Da=b c", 'say "x"', "a\\b"]) == '"-Da=b c"\n"say \\"x\\""\n"a\\\\b"\n'

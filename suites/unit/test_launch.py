"""What starts a node: a command that stays the same, and the arguments that its flags come in."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.clusters.launch import ImageLaunch, JavaLaunch, argument_file
from harness.kafka.layout import LAYOUTS, BrokerImage, Layout

SETTINGS = Path("/run/b1/server.properties")


def test_jars_start_on_the_java_that_is_named(tmp_path: Path) -> None:
    launch = JavaLaunch("/opt/java/bin/java", "one", (Path("/libs/a.jar"), Path("/libs/b.jar")), {"TZ": "UTC"})
    command = launch.prepare(tmp_path, SETTINGS, ["-Xmx1m", "-Da=b c"])
    assert command.argv == ("/opt/java/bin/java", f"@{tmp_path}/java.args")
    assert command.env == {"TZ": "UTC"}
    assert (tmp_path / "java.args").read_text() == (
        f'"-Xmx1m"\n"-Da=b c"\n"-cp"\n"/libs/a.jar:/libs/b.jar"\n"kafka.Kafka"\n"{SETTINGS}"\n'
    )
    assert launch.prepare(tmp_path, SETTINGS, ["-Xshare:dump"]) == command  # a container keeps the one it was made with
    assert "-Xshare:dump" in (tmp_path / "java.args").read_text()


# What Kafka's own scripts put into place of a variable that is not set, or is empty: gigabytes, G1, agents, logs.
SCRIPTS_DEFAULTS = {"KAFKA_HEAP_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_LOG4J_OPTS", "KAFKA_JMX_OPTS", "LOG_DIR"}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.makers)
def test_an_image_starts_by_its_own_script(layout: Layout, tmp_path: Path) -> None:
    launch = ImageLaunch(BrokerImage("some/image:1", "sha256:1", layout))
    command = launch.prepare(tmp_path, SETTINGS, ["-Xmx1m", "-Da=b c"])
    assert command.argv == (layout.start, str(SETTINGS))
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


def test_arguments_survive_blanks_quotes_and_backslashes() -> None:
    assert argument_file(["-Da=b c", 'say "x"', "a\\b"]) == '"-Da=b c"\n"say \\"x\\""\n"a\\\\b"\n'

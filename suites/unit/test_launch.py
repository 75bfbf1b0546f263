"""What starts a node: a command that stays the same, and the arguments that its flags come in."""

from __future__ import annotations

from pathlib import Path

from harness.clusters.launch import JavaLaunch, argument_file

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


def test_arguments_survive_blanks_quotes_and_backslashes() -> None:
    assert argument_file(["-Da=b c", 'say "x"', "a\\b"]) == '"-Da=b c"\n"say \\"x\\""\n"a\\\\b"\n'

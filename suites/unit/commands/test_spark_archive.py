"""When a class-data archive for Spark is made, used and refused. Java is a script here, but not in suites/verify."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from harness.commands import spark_archive as module
from harness.commands.afterwards import afterwards, with_work_afterwards
from harness.commands.spark_archive import SESSIONS_BEFORE, SparkArchive, spark_archive
from harness.kafka.release.cache import Cache
from harness.kafka.release.java import Java
from harness.model.exits import Exit
from harness.model.waiting import wait_for

ROOT = Path(__file__).parents[3]
LISTED = "-XX:DumpLoadedClassList="
# Like Java: one start writes the archive, and another one maps it.
DUMPS = """
for argument do
  case $argument in
    -XX:SharedArchiveFile=*) archive=${argument#*=};;
    -XX:SharedClassListFile=*) list=${argument#*=};;
  esac
done
case "$*" in
  *-Xshare:dump*) cat "$list" > "$archive"; echo "$@" > "$0.dumped";;
  *-Xshare:on*-version) test -s "$archive";;
esac
"""


def java_script(folder: Path, script: str) -> Path:
    folder.mkdir(exist_ok=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\n{script}")
    java.chmod(0o755)
    return java


@pytest.fixture
def java(tmp_path: Path) -> Path:
    return java_script(tmp_path / "java's home", DUMPS)


def archive_of(root: Path, java: Path, key: str = "one") -> SparkArchive:
    return SparkArchive(
        Cache(root / "cache"), key, lambda: [str(java), "-cp", "/s/conf:/s/jars/a.jar:/s/jars/*", "-Xmx3g"]
    )


def primed(archive: SparkArchive) -> SparkArchive:
    archive.path.with_suffix(".sessions").write_bytes(b"." * SESSIONS_BEFORE)
    return archive


def session(archive: SparkArchive, code: Exit = Exit.PASS) -> tuple[str, ...]:
    """The flags of a command's session, in which Java lists classes if it is asked to."""
    asked: list[tuple[str, ...]] = []

    def command() -> int:
        asked.append(archive.java_flags())
        for flag in asked[0]:
            if flag.startswith(LISTED):
                Path(flag.removeprefix(LISTED)).write_text("java/lang/Object\norg/apache/Spark\nhalf a li")
        return code

    assert with_work_afterwards(command) == code
    assert list((archive.cache.root / "tmp").iterdir()) == []
    return asked[0]


def test_it_is_made_after_several_sessions_and_used_then(tmp_path: Path, java: Path) -> None:
    archive = archive_of(tmp_path, java)
    assert [session(archive) for _ in range(SESSIONS_BEFORE)] == [()] * SESSIONS_BEFORE
    assert not archive.path.exists()
    assert session(archive)[0].startswith(LISTED)
    # A line that Java had not finished would make the dump fail.
    assert archive.path.read_text() == "java/lang/Object\norg/apache/Spark\n"
    # Java 21 would leave out a jar that is repeated, and then refuse the archive for another class path.
    dumped = java.with_name("java.dumped").read_text()
    assert dumped.endswith(" -cp /s/conf:/s/jars/./a.jar:/s/jars/* -Xmx3g\n")
    assert f"-XX:SharedArchiveFile={archive.path}" in session(archive)
    assert [path.name for path in archive.path.parent.iterdir()] == [archive.path.name]


@pytest.mark.parametrize("code", [Exit.INTERRUPTED, Exit.TERMINATED, Exit.HARNESS, Exit.USAGE])
def test_after_a_command_without_a_verdict_it_is_left_to_the_next_one(tmp_path: Path, java: Path, code: Exit) -> None:
    archive = primed(archive_of(tmp_path, java))
    session(archive, code)
    assert not archive.path.exists()
    session(archive, Exit.FAIL)
    assert archive.path.exists()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 7", "Java did not write a class-data archive (exit code 7)"),
        ("kill -9 $$", "Java did not write a class-data archive (exit code 137)"),
        (DUMPS.replace("test -s", "! test -s"), "Java did not map its class-data archive (exit code 1)"),
    ],
)
def test_a_failed_dump_is_reported_once_and_not_repeated(
    tmp_path: Path, script: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = primed(archive_of(tmp_path, java_script(tmp_path / "java", script)))
    session(archive)
    assert capsys.readouterr().err.splitlines()[1:] == [f"durability: Spark will start more slowly: {why}"]
    assert archive.path.stat().st_size == 0
    assert session(archive) == ()
    assert capsys.readouterr().err == ""


def test_a_session_whose_java_cannot_be_looked_at_gets_none(tmp_path: Path, java: Path) -> None:
    archive = primed(SparkArchive(archive_of(tmp_path, java).cache, "one", lambda: None))
    session(archive)
    assert session(archive) == ()


def test_a_dump_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "_DUMP_S", 0.5)
    pid = tmp_path / "pid"
    archive = primed(archive_of(tmp_path, java_script(tmp_path / "java", f"echo $$ > {pid}; exec sleep 100")))
    session(archive)
    assert "Java did not write a class-data archive in 0.5 s" in capsys.readouterr().err
    assert not psutil.pid_exists(int(pid.read_text()))
    assert list(archive.path.parent.iterdir()) == [], (
        "the machine was busy, so it is tried again after as many sessions"
    )


def test_a_disk_that_is_full_meanwhile_is_no_lasting_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = iter([10**10, 10**6])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=next(free)))
    archive = primed(archive_of(tmp_path, java_script(tmp_path / "java", "exit 1")))
    session(archive)
    assert list(archive.path.parent.iterdir()) == []


def test_a_full_disk_and_a_cache_that_cannot_be_written_end_in_ordinary_sessions(
    tmp_path: Path, java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = primed(archive_of(tmp_path, java))
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**6))
        assert session(archive) == ()
    (count := archive.path.with_suffix(".sessions")).unlink()
    count.mkdir()  # root may write into any folder, but not into this
    assert session(archive) == ()
    count.rmdir()
    primed(archive)
    shutil.rmtree(archive.cache.root / "tmp")
    archive.cache.root.joinpath("tmp").touch()
    assert archive.java_flags() == ()


def test_two_harnesses_do_not_make_the_same_archive(
    tmp_path: Path, java: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = primed(archive_of(tmp_path, java))
    with archive.cache.locked_if_free(archive.path.stem) as mine:
        assert mine
        session(archive)
    assert (archive.path.exists(), capsys.readouterr().err) == (False, "")
    session(archive)
    assert archive.path.exists()


def test_one_that_another_harness_has_made_meanwhile_stands(tmp_path: Path, java: Path) -> None:
    archive = primed(archive_of(tmp_path, java))

    def command() -> int:
        archive.java_flags()
        archive.path.write_text("of another")
        return Exit.PASS

    with_work_afterwards(command)
    assert archive.path.read_text() == "of another"


def test_archives_of_former_installations_are_removed(tmp_path: Path, java: Path) -> None:
    for age, key in enumerate(["one", "two", "three"]):
        session(primed(archive_of(tmp_path, java, key)))
        os.utime(archive_of(tmp_path, java, key).path, (1000 + age, 1000 + age))
    session(primed(archive_of(tmp_path, java, "four")))
    left = sorted(path.name for path in (tmp_path / "cache" / "tools").iterdir())
    assert left == ["spark-classes-four.jsa", "spark-classes-three.jsa"]


def test_a_process_that_runs_no_command_makes_none(tmp_path: Path, java: Path) -> None:
    archive = primed(archive_of(tmp_path, java))
    assert archive.java_flags() == ()
    assert list((archive.cache.root / "tmp").iterdir()) == []


INTERRUPTED = """
import sys
from pathlib import Path
from harness.commands.afterwards import with_work_afterwards
from suites.unit.commands.test_spark_archive import archive_of
archive = archive_of(Path(sys.argv[1]), Path(sys.argv[2]))
def command():
    (Path(archive.java_flags()[0].partition("=")[2])).write_text("java/lang/Object\\n")
    return 10
raise SystemExit(with_work_afterwards(command))
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, Exit.INCONCLUSIVE), (signal.SIGTERM, -15), (signal.SIGKILL, -9)]
)
def test_a_harness_that_is_ended_meanwhile_leaves_no_process_and_no_half_archive(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    started = tmp_path / "pid"
    java = java_script(tmp_path / "java", f"echo $$ > {started}.new; mv {started}.new {started}; exec sleep 100")
    archive = primed(archive_of(tmp_path, java))
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path), str(java)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, preexec_fn=_default_signals) as harness:
        wait_for(started.exists, until=bool, deadline_s=60, what="the dump to start")
        harness.send_signal(number)
        _, said = harness.communicate(timeout=30)
    assert harness.returncode == code
    assert "Traceback" not in said
    pid = int(started.read_text())
    wait_for(lambda: psutil.pid_exists(pid), until=lambda runs: not runs, deadline_s=30, what="the dump to end")
    tmp = archive.cache.root / "tmp"
    wait_for(lambda: list(tmp.iterdir()), until=lambda left: not left, deadline_s=30, what="its folder to be removed")
    assert list(archive.path.parent.iterdir()) == [], "as many sessions are left alone before the next try"


def _default_signals() -> None:
    """A test runner that was started with nohup, or in the background of a shell, passes on ignored signals."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


Change = Callable[[Path, pytest.MonkeyPatch], object]


def _nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "jars").touch()


def _other_jar(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(home / "jars" / "spark.jar", ns=(1, 1))


def _more_jars(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "jars" / "b.jar").touch()


def _other_java(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "lib" / "server" / "libjvm.so").write_text("updated")


def _other_settings(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:-UseCompressedOops")


@pytest.mark.parametrize(
    ("change", "same"),
    [(_nothing, True), (_other_jar, False), (_more_jars, False), (_other_java, False), (_other_settings, False)],
)
def test_an_archive_belongs_to_one_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change, same: bool
) -> None:
    home = tmp_path / "home"
    for file in (home / "jars" / "spark.jar", home / "lib" / "server" / "libjvm.so"):
        file.parent.mkdir(parents=True)
        file.write_text("x")

    def key(flags: str = "-Xmx3g") -> str:
        java, cache = Java(home, home / "java", 17), Cache(tmp_path / "cache")
        return spark_archive(java, home, cache, flags, lambda: None).key

    before = key()
    assert key("-Xmx40g") != before
    change(home, monkeypatch)
    assert (key() == before) is same


def test_work_that_fails_changes_no_exit_code() -> None:
    done: list[str] = []

    def fails() -> None:
        raise ValueError

    def command() -> int:
        assert afterwards(fails, release=lambda: done.append("released"))
        return Exit.FAIL

    assert with_work_afterwards(command) == Exit.FAIL
    assert done == ["released"]
    assert not afterwards(fails, release=fails)

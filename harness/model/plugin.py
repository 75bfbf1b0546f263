"""Plugins: folders outside the tree with faults, scenarios and checks, as evidence and verdicts name them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.model.documents.manifest import Digest, UsedPlugin


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A loaded plugin. name: of its folder. files: size and SHA-256 of each file, by its path in the folder.

    faults: words of its kinds of steps. checks: the promise of each. kinds: meanings of the kinds of findings that its
    checks introduce. queries: names under which its checks may fail.
    """

    name: str
    folder: Path
    files: Mapping[str, Digest]
    faults: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    checks: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    queries: tuple[str, ...] = ()

    @property
    def used(self) -> UsedPlugin:
        """The plugin as evidence names it. The folder is left out: it is a place on one machine."""
        return UsedPlugin(
            name=self.name,
            files=self.files,
            faults=self.faults,
            scenarios=self.scenarios,
            checks=self.checks,
            kinds=self.kinds,
        )


_ACTIVE: Final[list[Plugin]] = []


def active() -> tuple[Plugin, ...]:
    """The plugins of the running command."""
    return tuple(_ACTIVE)


@contextmanager
def activated(plugins: Iterable[Plugin]) -> Iterator[None]:
    """The plugins are active inside."""
    _ACTIVE.extend(plugins)
    try:
        yield
    finally:
        _ACTIVE.clear()

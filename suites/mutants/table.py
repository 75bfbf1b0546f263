"""Reads the rows of `mutants.toml`, `unplayed.toml` and `nasty.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.model.finding import Kind

HERE: Final = Path(__file__).parent
_HOWS: Final = frozenset({"before", "after", "body", "call", "field", "member", "open"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A build that differs from the release. A mutant expects findings, a nasty build none."""

    name: str
    area: str
    story: str  # the mistake of a committer, or why the behaviour is legal
    expect: tuple[Kind, ...]  # the gate must find at least one of these kinds; empty = it must PASS
    judge: tuple[str, ...]  # scenarios that are enough when time is short; empty = all
    escapes: str  # the known reason why the gate does not find it; empty = it must find it
    night_episodes: int  # a generated night finds it in so many episodes; 0 = no night was played on it
    edits: tuple[dict[str, Any], ...]  # as `Patch.java` reads them


def mutants(file: Path = HERE / "mutants.toml") -> tuple[Variant, ...]:
    """Every planted bug. ValueError if a row does not have the form of `Variant`."""
    return tuple(_variant(row, "mistake") for row in _rows(file, "mutant"))


def unplayed(file: Path = HERE / "unplayed.toml") -> tuple[Variant, ...]:
    """Every planted bug that was not played yet. ValueError if a row does not have the form of `Variant`."""
    return mutants(file)


def nasty(file: Path = HERE / "nasty.toml") -> tuple[Variant, ...]:
    """Every legal but unusual build. ValueError if a row does not have the form of `Variant`."""
    return tuple(_variant(row, "legal") for row in _rows(file, "nasty"))


def _rows(file: Path, key: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tomllib.loads(file.read_text(encoding="utf-8"))[key]
    names = [row["name"] for row in rows]
    if len(set(names)) != len(names):
        raise ValueError(f"{file.name}: two rows have the same name")
    return rows


def _variant(row: dict[str, Any], story: str) -> Variant:
    unknown = row.keys() - {"name", "area", story, "expect", "judge", "escapes", "night_episodes", "edit"}
    if unknown:
        raise ValueError(f"{row['name']}: unknown keys {sorted(unknown)}")
    for edit in row["edit"]:
        if edit["how"] not in _HOWS:
            raise ValueError(f"{row['name']}: an edit cannot be {edit['how']!r}")
    return Variant(
        name=row["name"],
        area=row["area"],
        story=" ".join(row[story].split()),
        expect=tuple(Kind(kind) for kind in row.get("expect", ())),
        judge=tuple(row.get("judge", ())),
        escapes=row.get("escapes", ""),
        night_episodes=row.get("night_episodes", 0),
        edits=tuple(row["edit"]),
    )

"""The matrix of contracts as a page: configurations down, what happens across, and behind each cell its reason.

Made from contracts.json alone. One file without scripts, which opens from a disk and can be attached to a report.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from harness.evidence.gate import MATRIX
from harness.model.effects import Effect
from harness.model.promises import EVENTS

PAGE: Final = "contracts.html"
_TEMPLATE: Final = "matrix.html"
# How a cell looks, by the worst of what was seen there.
_LOOKS: Final[Mapping[Effect, str]] = {
    Effect.LOST: "lost",
    Effect.SKIPPED: "lost",
    Effect.UNAVAILABLE: "away",
    Effect.DUPLICATED: "twice",
    Effect.REORDERED: "twice",
    Effect.SHOWN: "twice",
    Effect.RETURNED: "twice",
    Effect.UNTOLD: "twice",
    Effect.DELETED: "away",
}

# Which look a place has that several cells share.
_LOUDEST: Final = ("odd", "lost", "away", "twice", "kept", "off")

Cell = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Event:
    name: str
    happens: str
    cells: tuple[Cell, ...]


def write_matrix(out: Path) -> Path:
    """Writes the page beside contracts.json, whole or not at all, and returns where it is."""
    path = out / PAGE
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_text(page(json.loads((out / MATRIX).read_text(encoding="utf-8"))), encoding="utf-8")
    unfinished.replace(path)
    return path


def page(matrix: Mapping[str, Any]) -> str:
    """The page of what contracts.json holds."""
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    cells: Sequence[Cell] = matrix["cells"]
    events = [event for event in (_of(e.name, e.happens, cells) for e in EVENTS) if event.cells]
    rows = list(dict.fromkeys(cell["configuration"] for cell in cells))
    return environment.get_template(_TEMPLATE).render(
        matrix=matrix,
        events=events,
        rows=[(row, [[c for c in event.cells if c["configuration"] == row] for event in events]) for row in rows],
        held=sum(cell["holds"] for cell in cells),
        look=look,
        worst=lambda cells: min(map(look, cells), key=_LOUDEST.index),
    )


def look(cell: Cell) -> str:
    """The class of a cell: `off` where nothing was played, `odd` where it is not what was promised."""
    if cell["status"] is None:
        return "off"
    if not cell["holds"]:
        return "odd"
    worst = next((effect for effect in Effect if effect.value in cell["seen"]), Effect.KEPT)
    return _LOOKS.get(worst, "kept")


def _of(name: str, happens: str, cells: Sequence[Cell]) -> _Event:
    return _Event(name, happens, tuple(cell for cell in cells if cell["event"] == name))

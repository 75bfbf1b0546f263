"""Groups the matrix for its readers: by event, each configuration next to the nearest one with another result.

`shown` turns a played matrix into what terminal, Markdown and page show.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.evidence.gate import backends_and_duration
from harness.evidence.matrix import MatrixCell, MatrixRun, PlayedMatrix
from harness.model.contract.effects import Effect, reported
from harness.model.contract.promises import EVENTS

# The meaning of each effect for the user of such settings, the worst first. Effect.KEPT costs nothing.
COSTS: Final[Mapping[Effect, str]] = {
    Effect.LOST: "acknowledged records are lost",
    Effect.SKIPPED: "records are skipped: they are in the log, and the application never reads them",
    Effect.ARCHIVED: "a share group gives up on records",
    Effect.UNAVAILABLE: "no record is accepted during this time",
    Effect.STOPPED: "the application stops until an operator sets its offset",
    Effect.ABORTED: "acknowledged records of a transaction are aborted, and its commit is refused",
    Effect.DUPLICATED: "records are stored or read twice",
    Effect.REORDERED: "records are out of order",
    Effect.SHOWN: "records of aborted transactions are returned to readers",
    Effect.RETURNED: "deleted records are back",
    Effect.UNKNOWN: "the producer does not learn whether its records were written",
    Effect.DELETED: "records are deleted, as configured",
}
_SPLIT: Final = re.compile(r"[;,] ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One configuration at one event.

    own: its settings that not all configurations of the event share. decisive: those of `own` that the nearest
    configuration with another result does not have. look: see `look`.
    """

    cell: MatrixCell
    own: tuple[str, ...]
    decisive: frozenset[str]
    promised: str
    seen: str
    look: str

    @property
    def verdict(self) -> str:
        """The verdict of its scenario. It may be FAIL although this configuration showed what was promised."""
        cell = self.cell
        promised = {effect for effect in cell.promised if effect is not Effect.KEPT}
        exact = cell.exactly is None or worst_of(cell) is Effect.KEPT or cell.seen[worst_of(cell)] == cell.exactly
        return f"{cell.status}{' for another reason' if {*cell.seen} == promised and exact else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """An event and its configurations. common: the settings that all of them share."""

    name: str
    happens: str
    common: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A configuration that costs something at an event, and the nearest configuration with a better result, if any.

    instead: the settings of the better one in place of `own`. better: its result; None = no better one was played.
    """

    row: Row
    group: Group
    own: tuple[str, ...]
    instead: tuple[str, ...] = ()
    better: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The matrix as its readers see it.

    heads: for each run its release and date, and its command. odd: cells that break their promise. costs: cells that
    hold and still cost something, by their worst effect.
    """

    release: str
    heads: tuple[tuple[str, str], ...]
    count: int
    held: int
    odd: tuple[tuple[Group, Row], ...]
    not_played: int
    costs: tuple[tuple[str, tuple[Cost, ...]], ...]
    groups: tuple[Group, ...]

    @property
    def summary(self) -> str:
        """How many cells have the promised result."""
        parts = [f"{self.held} of {self.count} configurations had exactly the promised result"]
        parts += [f"{len(self.odd)} DID NOT"] if self.odd else []
        parts += [f"{self.not_played} were not played"] if self.not_played else []
        return "; ".join(parts)


def shown(matrix: PlayedMatrix) -> Shown:
    """Groups the cells of a matrix."""
    cells = matrix.cells
    happens = {cell.event: cell.happens or cell.event for cell in cells}
    happens |= {event.name: event.happens for event in EVENTS if event.name in happens}
    order = [event.name for event in EVENTS if event.name in happens]
    order += [name for name in happens if name not in order]
    groups = tuple(_group(name, happens[name], [c for c in cells if c.event == name]) for name in order)
    every = [(group, row) for group in groups for row in group.rows]
    return Shown(
        release=matrix.release,
        heads=tuple(_head(run) for run in (matrix, *matrix.also)),
        count=len(cells),
        held=sum(cell.holds for cell in cells),
        odd=tuple((group, row) for group, row in every if row.look == "odd"),
        not_played=sum(cell.status is None for cell in cells),
        costs=_costs(every),
        groups=groups,
    )


def look(cell: MatrixCell) -> str:
    """The style class of a cell: `off` = not played, `odd` = not as promised, else by its worst effect."""
    if cell.status is None:
        return "off"
    if not cell.holds:
        return "odd"
    worst = worst_of(cell)
    if worst in (Effect.LOST, Effect.SKIPPED):
        return "lost"
    if worst in (Effect.UNAVAILABLE, Effect.DELETED):
        return "away"
    return "kept" if worst is Effect.KEPT else "twice"


def worst_of(cell: MatrixCell) -> Effect:
    """The worst effect that was observed."""
    return next((effect for effect in Effect if effect in cell.seen), Effect.KEPT)


def settings_of(configuration: str) -> tuple[str, ...]:
    """Splits the text of a configuration into its settings."""
    return tuple(_SPLIT.split(configuration))


def _head(run: MatrixRun) -> tuple[str, str]:
    only = f" --only {','.join(run.only)}" if run.only else ""
    records = "" if run.records is None else f" --records {run.records}"
    command = f"durability contracts --kafka {run.release}{only} --seed {run.seed}{records}"
    ran = backends_and_duration(run.backends, run.took_s)
    return f"Kafka {run.release}, played on {run.day}{f'{ran},' if ran else ''} by", command


def _group(name: str, happens: str, cells: Sequence[MatrixCell]) -> Group:
    each = [settings_of(cell.configuration) for cell in cells]
    # With a single configuration, or with identical ones, no setting is left out as common.
    every = set.intersection(*map(set, each)) if len(set(each)) > 1 else set()
    common = tuple(one for one in each[0] if one in every)
    rows = [
        _row(cell, tuple(one for one in mine if one not in every), cells)
        for cell, mine in zip(cells, each, strict=True)
    ]
    return Group(name=name, happens=happens, common=common, rows=tuple(sorted(rows, key=_by_cost)))


def _by_cost(row: Row) -> tuple[bool, int]:
    return row.look != "odd", list(Effect).index(worst_of(row.cell))


def _row(cell: MatrixCell, own: tuple[str, ...], cells: Sequence[MatrixCell]) -> Row:
    promised = ", ".join(cell.promised)
    return Row(
        cell=cell,
        own=own,
        decisive=_decisive(cell, own, [c for c in cells if c.status]),
        promised=promised if cell.exactly is None else f"{cell.exactly:,} {promised}",
        seen="not played" if cell.status is None else reported(cell.seen, cell.without_acks_s),
        look=look(cell),
    )


def _decisive(cell: MatrixCell, own: Sequence[str], played: Sequence[MatrixCell]) -> frozenset[str]:
    """The own settings that explain the result: without those that had the same result with the other value."""
    nearest = _nearest(cell, [c for c in played if worst_of(c) is not worst_of(cell)])
    if nearest is None:
        return frozenset()
    theirs = set(settings_of(nearest.configuration))
    same_result = [set(settings_of(c.configuration)) for c in played if worst_of(c) is worst_of(cell)]
    idle = {
        one
        for one in own
        for other in theirs
        if "=" in one and one.split("=")[0] == other.split("=")[0] and any(other in found for found in same_result)
    }
    return frozenset(own) - theirs - idle


def _nearest(cell: MatrixCell, others: Iterable[MatrixCell]) -> MatrixCell | None:
    """The cell with the fewest differing settings."""
    mine = set(settings_of(cell.configuration))
    return min(others, key=lambda c: len(mine ^ set(settings_of(c.configuration))), default=None)


def _costs(every: Sequence[tuple[Group, Row]]) -> tuple[tuple[str, tuple[Cost, ...]], ...]:
    found: dict[Effect, list[Cost]] = {effect: [] for effect in COSTS}
    for group, row in every:
        worst = worst_of(row.cell)
        as_asked = worst is Effect.DELETED and not row.cell.fix  # the user asked for exactly this
        if row.cell.holds and worst in found and not as_asked:
            found[worst].append(_cost(group, row))
    return tuple((COSTS[effect], _once(costs)) for effect, costs in found.items() if costs)


def _once(costs: Sequence[Cost]) -> tuple[Cost, ...]:
    """Drops repeated rows: several clients may have the same result with the same settings."""
    return tuple({(c.row.seen, c.own, c.group.name, c.instead, c.better): c for c in reversed(costs)}.values())[::-1]


def _lacking(settings: Sequence[str]) -> tuple[str, ...]:
    """Names the settings that are missing; () if one of them is an action and not a setting."""
    return tuple(f"without {one}" for one in settings) if all("=" in one for one in settings) else ()


def _cost(group: Group, row: Row) -> Cost:
    """Compares with the nearest configuration that kept everything, else with the nearest one with a milder effect."""
    order = list(Effect)
    held = [other for other in group.rows if other.cell.holds]
    improved = [o for o in held if worst_of(o.cell) is Effect.KEPT] or [
        o for o in held if order.index(worst_of(o.cell)) > order.index(worst_of(row.cell))
    ]
    nearest = _nearest(row.cell, [o.cell for o in improved])
    mine = settings_of(row.cell.configuration)
    if nearest is None:
        return Cost(row=row, group=group, own=row.own or mine)
    theirs = settings_of(nearest.configuration)
    instead = tuple(one for one in theirs if one not in mine)
    return Cost(
        row=row,
        group=group,
        own=tuple(one for one in mine if one not in theirs) or _lacking(instead) or row.own,
        instead=instead,
        better=next(o.seen for o in improved if o.cell is nearest),
    )

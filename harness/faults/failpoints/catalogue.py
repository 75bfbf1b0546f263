"""Renders POINTS.md: the points of failpoints, from what points.py declares."""

from __future__ import annotations

from typing import Final

from harness.faults.failpoints.code_point import CodePoint
from harness.faults.failpoints.points import POINTS

_HEAD: Final = """\
# Points of failpoints
`durability docs` writes this file from points.py; edit that, not this file. Each row is a value for `point` of the
fault `failpoint`: `{ do = "failpoint", node = "leader(plain/0)", point = "roll", of = "plain/0", action = "kill" }`.
The nodes need `agent = true` in `[shape]`, and the backend `processes`.

A point with several methods is in the first one that the release has. If it has none of them, the failpoint has no
effect, and reports so. `of` limits a failpoint to one partition at a point that belongs to a log; without it, any log
counts but that of the metadata. `io_error` is possible where an error of a disk can show as an IOException. Generated
scenarios (`durability chaos`) use a point that is passed seldom only for the nodes that the last column but one names.

| point | what a node does there | passed by | actions | `of` | seldom: what must happen first | drawn for | method |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""


def render() -> str:
    """The text of POINTS.md."""
    return _HEAD + "".join(_row(name, point) for name, point in POINTS.items())


def _row(name: str, point: CodePoint) -> str:
    actions = ["kill", "delay", *(["io_error"] if point.io_error else [])]
    methods = "<br>".join(f"`{site.text}`" for site in point.sites)
    roles = " and ".join(point.roles) + (" with a tier" if point.tier else "")
    cells = (
        f"`{name}`",
        point.text,
        roles,
        ", ".join(actions),
        "yes" if point.log else "",
        point.seldom,
        _nodes(point),
        methods,
    )
    return f"| {' | '.join(cells)} |\n"


def _nodes(point: CodePoint) -> str:
    """The nodes that generated scenarios use the point for."""
    return point.load if point.generated else ""

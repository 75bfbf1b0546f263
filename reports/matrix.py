"""The matrix of contracts as a page and as Markdown: with these settings, what can be lost? From contracts.json alone.

The page is one file without scripts, which opens from a disk and can be attached to a report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from harness.evidence.documents import read_json
from harness.evidence.gate import MATRIX, MATRIX_VERSION
from harness.model.errors import BadInput
from reports.grouping import Cost, Group, Row, Shown, shown
from reports.sources import links

PAGE: Final = "contracts.html"
MARKDOWN: Final = "contracts.md"
# Between these lines of a Markdown file stands the matrix.
BEGIN: Final = "<!-- the matrix: written by `durability matrix` -->"
END: Final = "<!-- end of the matrix -->"
_TEMPLATE: Final = "matrix.html"
_OF_CELLS: Final = (
    "scenario",
    "event",
    "topic",
    "configuration",
    "promised",
    "seen",
    "without_acks_s",
    "status",
    "holds",
)
_OF_RUNS: Final = ("release", "day", "seed", "backends", "took_s")
_OF_PROMISES: Final = ("which", "why", "source", "fix")


def write_matrix(out: Path) -> Path:
    """Writes page and Markdown beside contracts.json, each whole or not at all, and returns where the page is."""
    matrix = read_matrix([out / MATRIX])
    _write(out / MARKDOWN, "\n".join([f"# {_title(shown(matrix))}", "", *markdown(matrix)]) + "\n")
    return _write(out / PAGE, page(matrix))


def write_into(matrix: Mapping[str, Any], path: Path) -> None:
    """Puts the matrix in place of the one that a Markdown file has. BadInput where the file has no place for it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        raise BadInput(f"{path} cannot be read: {failure}") from None
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise BadInput(f"{path} has no place for the matrix: write a line {BEGIN} and a line {END} into it")
    _write(path, "\n".join([before + begin, "", *markdown(matrix), "", end + after]))


def read_matrix(paths: Sequence[Path]) -> dict[str, Any]:
    """What runs wrote, each a contracts.json or the folder that holds it. Cells of a later one stand in the place of
    an earlier one's, and what it played is named (`also`). BadInput on what is no matrix, or of another release."""
    first, *later = (_read(path / MATRIX if path.is_dir() else path) for path in paths)
    matrix = dict(first)
    for one in later:
        if one["release"] != matrix["release"]:
            raise BadInput(f"one matrix is of one release: here are {matrix['release']} and {one['release']}")
        played = {cell["scenario"] for cell in one["cells"]}
        matrix["cells"] = [cell for cell in matrix["cells"] if cell["scenario"] not in played] + one["cells"]
        run = {name: one.get(name) for name in _OF_RUNS} | {"only": sorted(played)}
        matrix["also"] = [*matrix.get("also", ()), run]
    return matrix


def page(matrix: Mapping[str, Any]) -> str:
    """The page of what contracts.json holds."""
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    reported = shown(matrix)
    return environment.get_template(_TEMPLATE).render(
        shown=reported, title=_title(reported), links=links, instead=instead
    )


def markdown(matrix: Mapping[str, Any]) -> list[str]:
    """The same as Markdown, with the reasons; between headings of the third level, so that it can stand in a README."""
    reported = shown(matrix)
    lines = [*(f"- {head} `{command}`." for head, command in reported.heads), "", f"**{reported.summary}.**"]
    if reported.odd:
        lines += ["", "### NOT AS PROMISED", "", "| when | with | promised | came to |", "|---|---|---|---|"]
        lines += [
            f"| {g.happens} | {r.cell['configuration']} | {r.promised} | **{_odd(r)}** |" for g, r in reported.odd
        ]
    lines += ["", "### What costs what, and what to set instead", ""]
    lines += ["| came to | with | when | instead, as played beside it |", "|---|---|---|---|"]
    for words, costs in reported.costs:
        lines += [f"| **{words}** | | | |", *(_cost(cost) for cost in costs)]
    for group in reported.groups:
        lines += ["", f"### When {group.happens}", "", *_section(group)]
    return lines


def _title(reported: Shown) -> str:
    return f"With these settings, what can I lose? Kafka {reported.release}, as played"


def _section(group: Group) -> Iterator[str]:
    if group.common:
        yield from (f"All with {', '.join(group.common)}.", "")
    yield from ("| with | promised | came to | which, and why | mended by |", "|---|---|---|---|---|")
    for row in group.rows:
        came = f"**NOT AS PROMISED: {_odd(row)}**" if row.look == "odd" else row.seen
        cell = row.cell
        why = f"{cell['which']}: {cell['why']} ({_linked(cell['source'])})"
        yield f"| {_with(row)} | {row.promised} | {came} | {why} | {', '.join(cell['fix'])} |"


def _cost(cost: Cost) -> str:
    with_ = ", ".join(cost.own)
    return f"| {cost.row.seen} | {with_} | {cost.group.happens} | {instead(cost)} |"


def instead(cost: Cost) -> str:
    """What to set in its place, and what that came to; where nothing better was played, what would mend it."""
    if cost.twin is not None:
        return f"{', '.join(cost.instead) or 'the same without these'}: {cost.twin}"
    fix = cost.row.cell["fix"]
    return f"not played beside it: {', '.join(fix)}" if fix else "nothing: it is what the settings ask for"


def _with(row: Row) -> str:
    return ", ".join(f"**{one}**" if one in row.telling else one for one in row.own) or "nothing more"


def _odd(row: Row) -> str:
    return f"{row.seen} ({row.cell['status']})"


def _linked(source: str) -> str:
    return ", ".join(f"[{words}]({url})" if url else words for words, url in links(source))


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise BadInput(f"{path} is no file; `durability contracts` writes one")
    matrix: dict[str, Any] = read_json(path)
    cells = matrix.get("cells") if isinstance(matrix, dict) else None
    if not isinstance(cells, list) or not {"release", "day", "seed"} <= matrix.keys():
        raise BadInput(f"{path} is no matrix of contracts")
    if (version := matrix.get("format_version")) != MATRIX_VERSION:
        raise BadInput(
            f"{path} has format version {version or 1}, and this harness reads version {MATRIX_VERSION}; write it "
            "again with `durability contracts`, or show it with the harness that wrote it"
        )
    for cell in cells:
        if lacking := [name for name in (*_OF_CELLS, *_OF_PROMISES) if name not in cell]:
            raise BadInput(f"{path}: a cell lacks {', '.join(lacking)}")
    return matrix


def _write(path: Path, text: str) -> Path:
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
    return path

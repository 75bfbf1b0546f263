"""The matrix of contracts as a page and as Markdown, made from contracts.json.

The matrix answers: with these settings, what can be lost? The page is one file beside the review page, in which one can
search. It opens from disk and requests nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec.structs import replace

from harness.evidence import matrix as contracts
from harness.evidence.layout import PAGE as REVIEW_PAGE
from harness.evidence.layout import REPORT
from harness.evidence.matrix import MATRIX, MatrixRun, PlayedMatrix
from harness.model.errors import BadEvidence, BadInput
from reports.grouping import Cost, Group, Row, Shown, shown
from reports.policy import policy, script
from reports.sources import links
from reports.whole_files import write_text

PAGE: Final = "contracts.html"
MARKDOWN: Final = "contracts.md"
_TEMPLATE: Final = "matrix.html"


def write_matrix(out: Path) -> Path:
    """Writes the Markdown beside contracts.json and the page into `report`, each atomically. Returns its path."""
    matrix = read_matrix([out / MATRIX])
    write_text(out / MARKDOWN, matrix_document(matrix))
    (out / REPORT).mkdir(exist_ok=True)
    review = REVIEW_PAGE if (out / REPORT / REVIEW_PAGE).is_file() else ""
    return write_page(out / REPORT, page(matrix, review))


def write_page(folder: Path, html: str) -> Path:
    """Writes the page of a matrix into a report folder, atomically, and returns its path."""
    return write_text(folder / PAGE, html)


def page_beside_review(out: Path) -> str:
    """The page with links to the review page; "" if OUT has no matrix, or none that this harness reads."""
    try:
        matrix = read_matrix([out / MATRIX]) if (out / MATRIX).is_file() else None
    except (BadInput, BadEvidence):  # the review page is about the verdicts, and needs no matrix
        return ""
    return "" if matrix is None else page(matrix, REVIEW_PAGE)


def matrix_document(matrix: PlayedMatrix) -> str:
    """Returns the matrix as a Markdown document of its own."""
    return "\n".join([f"# {_title(shown(matrix))}", "", *markdown(matrix)]) + "\n"


def read_matrix(paths: Sequence[Path]) -> PlayedMatrix:
    """Reads one or more matrices, each a contracts.json or the folder that holds it, as one.

    Cells of a later file replace those of an earlier one; `also` names the runs that they come from. Raises
    BadInput for a file that is not a matrix, and for matrices of different releases.
    """
    matrix, *later = (contracts.read_matrix(path / MATRIX if path.is_dir() else path) for path in paths)
    for one in later:
        if one.release != matrix.release:
            raise BadInput(f"the matrices are of {matrix.release} and {one.release}; give matrices of one release")
        played = {cell.scenario for cell in one.cells}
        kept = tuple(cell for cell in matrix.cells if cell.scenario not in played)
        run = MatrixRun(
            release=one.release,
            day=one.day,
            seed=one.seed,
            backends=one.backends,
            took_s=one.took_s,
            only=tuple(sorted(played)),
            records=one.records,
        )
        matrix = replace(matrix, cells=kept + one.cells, also=(*matrix.also, run))
    return matrix


def page(matrix: PlayedMatrix, review: str = "") -> str:
    """Returns the page of a matrix. review: the name of the review page beside it; "" = there is none."""
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    reported, search = shown(matrix), script("templates/search.js")
    return environment.get_template(_TEMPLATE).render(
        shown=reported,
        title=_title(reported),
        links=links,
        instead=instead,
        review=review,
        scripts=[search],
        policy=policy([search]),
    )


def markdown(matrix: PlayedMatrix) -> list[str]:
    """Returns the matrix as Markdown, with reasons and sources, below headings of the third level."""
    reported = shown(matrix)
    lines = [*(f"- {head} `{command}`." for head, command in reported.heads), "", f"**{reported.summary}.**"]
    if reported.odd:
        lines += ["", "### NOT AS PROMISED", "", "| event | settings | promised | result |", "|---|---|---|---|"]
        lines += [f"| {g.happens} | {r.cell.configuration} | {r.promised} | **{_odd(r)}** |" for g, r in reported.odd]
    lines += ["", "### Costs of settings, and better settings", ""]
    lines += [
        "| result | settings | event | nearest settings with a better result (not each of them is needed) |",
        "|---|---|---|---|",
    ]
    for words, costs in reported.costs:
        lines += [f"| **{words}** | | | |", *(_cost(cost) for cost in costs)]
    for group in reported.groups:
        lines += ["", f"### When {group.happens}", "", *_section(group)]
    return lines


def _title(reported: Shown) -> str:
    return f"With these settings, what can I lose? Results for Kafka {reported.release}"


def _section(group: Group) -> Iterator[str]:
    if group.common:
        yield from (f"Settings of all rows: {', '.join(group.common)}.", "")
    yield from ("| settings | promised | result | which records, and why | how to fix |", "|---|---|---|---|---|")
    for row in group.rows:
        came = f"**NOT AS PROMISED: {_odd(row)}**" if row.look == "odd" else row.seen
        cell = row.cell
        why = f"{cell.which}, because {cell.why} ({_linked(cell.source)})"
        yield f"| {_with(row)} | {row.promised} | {came} | {why} | {', '.join(cell.fix)} |"


def _cost(cost: Cost) -> str:
    with_ = ", ".join(cost.own)
    return f"| {cost.row.seen} | {with_} | {cost.group.happens} | {instead(cost)} |"


def instead(cost: Cost) -> str:
    """The better settings and their result; where none were played, the settings that would fix it."""
    if cost.better is not None:
        return f"{', '.join(cost.instead) or 'the same without these settings'}: {cost.better}"
    fix = cost.row.cell.fix
    return f"not played: {', '.join(fix)}" if fix else "nothing: the settings ask for it"


def _with(row: Row) -> str:
    return ", ".join(f"**{one}**" if one in row.decisive else one for one in row.own) or "no other settings"


def _odd(row: Row) -> str:
    return f"{row.seen} ({row.verdict})"


def _linked(source: str) -> str:
    return ", ".join(f"[{words}]({url})" if url else words for words, url in links(source))

"""The tables of FORMAT.md that the code declares: columns, facts, doubts, kinds of findings, and keys of documents.

FORMAT.md has a marker where each belongs. `durability docs` writes them, and a test fails when they are out of date.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from msgspec import inspect

from harness.evidence.record_tables import APART, RECORDS, keys_of_records, kinds_of_records
from harness.model.described import Described
from harness.model.documents.steps import Event
from harness.model.doubt_names import DoubtName, DoubtOrigin
from harness.model.excuse import EvidenceKind
from harness.model.facts import MEANINGS
from harness.model.finding import Kind
from harness.model.schemas import FINDINGS, TABLE_COLUMNS, TableColumns

_BLOCK: Final = re.compile(r"^<!-- generated: (.+?) -->\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)


def render(text: str, declared: Mapping[str, str]) -> str:
    """FORMAT.md with current tables. declared: the tables of `DECLARED` by their names; those that are left out stay as
    they are. KeyError for a marker of an unknown table."""

    def block(found: re.Match[str]) -> str:
        name = found[1]
        if name in DECLARED:
            return _block(name, declared[name]) if name in declared else found[0]
        return _block(name, BLOCKS[name]())

    return _BLOCK.sub(block, text)


def markers(text: str) -> list[str]:
    """The names of the generated tables in a text."""
    return [block[1] for block in _BLOCK.finditer(text)]


def _block(name: str, table: str) -> str:
    return f"<!-- generated: {name} -->\n{table}\n<!-- end -->"


def _table(heads: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _columns(columns: TableColumns) -> str:
    """Neighbours with the same meaning share a row."""

    def rows() -> Iterator[Sequence[str]]:
        for (meaning, optional), group in groupby(columns.items(), key=lambda item: item[1][1:]):
            same = list(group)
            types = [column.type for _, column in same]
            shown = types[0] if len(set(types)) == 1 else ", ".join(types)
            may_lack = f"; the column{'s' if len(same) > 1 else ''} may be left out" if optional else ""
            yield ", ".join(name for name, _ in same), shown, meaning + may_lack

    return _table(("column", "type", "meaning"), rows())


def _facts() -> str:
    rows = (
        (
            kind.value,
            ", ".join(f"`{key}`" for key in meaning.keys),
            f"{meaning.text[0].upper()}{meaning.text[1:]}. {meaning.judged}".rstrip(),
        )
        for kind, meaning in MEANINGS.items()
    )
    return _table(("kind of fact", "keys", "meaning, and what an excuse takes from it"), rows)


def _events() -> str:
    return _table(("kind", "keys besides `kind`", "meaning"), kinds_of_records(inspect.type_info(Event)))


def _words(head: str, words: type[Described]) -> str:
    return _table((head, "meaning"), ((word.value, word.meaning) for word in words))


def _doubts() -> str:
    return _table(("doubt", "origin", "meaning"), ((word.value, word.origin.value, word.meaning) for word in DoubtName))


def _kinds() -> str:
    """Parts of the evidence that only together show a finding are joined by "and"; any one such set suffices."""

    def seen_in(kind: Kind) -> str:
        return ", or ".join(" and ".join(f"`{part}`" for part in sorted(parts)) for parts in kind.seen_in)

    return _table(("kind", "meaning", "seen in"), ((kind.value, kind.meaning, seen_in(kind)) for kind in Kind))


def _records(kind: object) -> str:
    heads = ("key", "type", "required", "meaning")
    return _table(heads, keys_of_records(inspect.type_info(kind)))


BLOCKS: Final[Mapping[str, Callable[[], str]]] = {
    **{f"columns of {table}": partial(_columns, columns) for table, columns in TABLE_COLUMNS.items()},
    "columns of findings.parquet": partial(_columns, FINDINGS),
    **{f"keys of {name}": partial(_records, kind) for name, kind in {**RECORDS, **APART}.items()},
    "events": _events,
    "facts": _facts,
    "doubts": _doubts,
    "origins of doubts": partial(_words, "origin", DoubtOrigin),
    "kinds of findings": _kinds,
    "kinds of evidence": partial(_words, "kind", EvidenceKind),
}
# Tables of what the judge declares, which this room may not import.
DECLARED: Final = ("excuses",)

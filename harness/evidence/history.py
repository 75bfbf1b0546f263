"""The history of the cluster as a document of a bundle: `history.json`.

It is a document and not a table: its rows have lists (ISR, replicas), they are of several types, and their order
counts. A run has some rows for each partition and each fault, so it stays small beside the tables of records.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.evidence.documents import WRITE_AGAIN, is_there, read_json, write_json
from harness.model.errors import BadEvidence
from harness.model.history.history import History
from harness.model.history.rows import WrongRowError, document_of, history_of

HISTORY: Final = "history.json"


def write_history(directory: Path, history: History) -> None:
    """Writes the document into a bundle that is not sealed yet."""
    write_json(directory / HISTORY, document_of(history))


def history_in(directory: Path) -> History | None:
    """The history in a bundle, None if it has none. BadEvidence if the document is damaged."""
    path = directory / HISTORY
    if not is_there(path):
        return None
    try:
        return history_of(read_json(path))
    except WrongRowError as wrong:
        raise BadEvidence(f"{path}: {wrong}; {WRITE_AGAIN}") from None

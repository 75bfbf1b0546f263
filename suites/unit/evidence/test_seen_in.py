"""Which kinds of findings a bundle can show follows from the parts that it has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec import inspect

from harness.evidence.documents import write_json
from harness.evidence.record_tables import RECORDS, keys_of_records
from harness.evidence.seen_in import kinds_shown_by, kinds_shown_with
from harness.model.finding import Kind
from harness.model.schemas import TABLES
from suites.unit.reports.timeline_examples import write_table


def shown(bundle: Path) -> set[str]:
    return {str(kind) for kind in kinds_shown_by(bundle)}


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_names_parts_that_a_bundle_may_have(kind: Kind) -> None:
    """A key of a document is one that the document declares."""
    assert kind.seen_in
    for part in {part for parts in kind.seen_in for part in parts}:
        name, _, key = part.partition(": ")
        assert name in TABLES or name in {"history.json", "steps.json", *RECORDS}, part
        assert not key or f"`{key}`" in [row[0] for row in keys_of_records(inspect.type_info(RECORDS[name]))], part


def test_one_of_the_sets_of_parts_suffices_and_it_must_be_whole() -> None:
    assert Kind.ABOVE_HIGH_WATERMARK not in kinds_shown_with({"history.json", "positions"}.__contains__)
    assert Kind.ABOVE_HIGH_WATERMARK in kinds_shown_with({"history.json", "positions", "observations"}.__contains__)
    assert Kind.COMMIT_REGRESSED in kinds_shown_with({"deliveries"}.__contains__)
    assert Kind.COMMIT_REGRESSED in kinds_shown_with({"offset_commits"}.__contains__)
    assert kinds_shown_with(set[str]().__contains__) == frozenset()
    assert kinds_shown_with(lambda part: True) == frozenset(Kind)


def test_tables_count_by_their_parts_and_documents_by_their_keys(tmp_path: Path) -> None:
    assert shown(tmp_path) == set()
    write_table(tmp_path, "lookups", [{}])
    assert shown(tmp_path) == {"offset_lookup"}
    write_json(tmp_path / "run.json", {"exits": [], "recovered": None})
    assert shown(tmp_path) == {"offset_lookup", "crashed"}  # an empty list says that no node ended
    write_json(tmp_path / "run.json", {"recovered": {"ok": True}})
    assert shown(tmp_path) == {"offset_lookup", "not_recovered"}
    (tmp_path / "run.json").write_text('{"recovered": {"ok"', encoding="utf-8")
    assert shown(tmp_path) == {"offset_lookup"}
    (part,) = (tmp_path / "lookups").iterdir()
    part.rename(part.with_name("." + part.name))
    assert shown(tmp_path) == set()


def test_the_names_of_parts_have_one_form() -> None:
    parts = {part for kind in Kind for parts in kind.seen_in for part in parts}
    assert [part for part in parts if not re.fullmatch(r"[a-z_]+(\.json(: [a-z_]+)?)?", part)] == []

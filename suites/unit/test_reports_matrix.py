"""The page of the matrix, from a contracts.json made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.evidence.gate import MATRIX
from reports.matrix import PAGE, look, page, write_matrix


def cell(event: str = "leader_dies", configuration: str = "acks=1", **other: Any) -> dict[str, Any]:
    return {
        "scenario": "contract_leader_dies",
        "event": event,
        "topic": "one",
        "configuration": configuration,
        "promised": ["kept"],
        "seen": {},
        "without_acks_s": 0.0,
        "status": "PASS",
        "holds": True,
        "text": "kept",
        "which": "every record",
        "why": "the followers have it",
        "source": "KIP-1",
        "mend": [],
        "evidence": "contract_leader_dies",
        **other,
    }


def matrix(*cells: dict[str, Any]) -> dict[str, Any]:
    return {"release": "4.3.1", "day": "2026-01-31", "seed": 5, "cells": list(cells)}


@pytest.mark.parametrize(
    ("of", "looks"),
    [
        ({}, "kept"),
        ({"seen": {"lost": 50}}, "lost"),
        ({"seen": {"skipped": 50}}, "lost"),
        ({"seen": {"unavailable": 5.0}}, "away"),
        ({"seen": {"duplicated": 4, "reordered": 2}}, "twice"),
        ({"seen": {"outcome not told": 300}}, "twice"),
        ({"seen": {"lost": 50}, "holds": False}, "odd"),
        ({"holds": False, "status": "INCONCLUSIVE"}, "odd"),
        ({"holds": False, "status": None}, "off"),
    ],
)
def test_a_cell_looks_like_what_it_came_to(of: dict[str, Any], looks: str) -> None:
    assert look(cell(**of)) == looks


def test_configurations_stand_once_and_events_in_their_order() -> None:
    told = page(matrix(cell("replica_down"), cell("leader_dies"), cell("leader_dies", "acks=0", text="50 lost")))
    assert told.count('<th scope="row">') == 2
    assert told.index('href="#leader_dies"') < told.index('href="#replica_down"')
    assert told.count("<h2") == 2
    assert "3 of 3 cells came to what is promised there." in told


def test_of_cells_that_share_a_place_the_one_that_is_odd_is_seen() -> None:
    told = page(matrix(cell(), cell(holds=False, text="1 lost (FAIL; promised: kept)")))
    grid = told.split('<div class="grid">')[1].split("</div>")[0]
    assert grid.count("<td class=") == 1
    assert '<td class="odd">' in grid
    assert "1 of 2 cells" in told


def test_nothing_of_a_configuration_becomes_markup() -> None:
    told = page(matrix(cell(configuration="<script>alert(1)</script>")))
    assert "<script" not in told
    assert "&lt;script&gt;" in told


def test_the_page_stands_beside_its_table_and_needs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / MATRIX).write_text(json.dumps(matrix(cell(mend=["acks=all", "idempotence"]))))
    written = write_matrix(tmp_path)
    assert written == tmp_path / PAGE
    text = written.read_text()
    assert "acks=all, idempotence" in text
    assert "http" not in text
    assert sorted(p.name for p in tmp_path.iterdir()) == [PAGE, MATRIX]


def test_a_table_that_lacks_something_is_no_page(tmp_path: Path) -> None:
    lacking = cell()
    del lacking["why"]
    (tmp_path / MATRIX).write_text(json.dumps(matrix(lacking)))
    with pytest.raises(Exception, match="why"):
        write_matrix(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [MATRIX]

"""gate.json is read as in every format version; contracts.json of another version of its own is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.evidence.documents import plain
from harness.evidence.gate import GateSummary, ScenarioResult, Try, read_gate
from harness.evidence.matrix import MATRIX, MATRIX_VERSION
from harness.model.documents.manifest import NamedRelease
from harness.model.doubt_names import DoubtOrigin
from harness.model.errors import BadInput
from harness.model.verdict import Status
from reports.matrix import read_matrix

# As a gate wrote it before format version 2, when evidence was sealed as version 1.
OF_VERSION_1 = {
    "verdict": "FAIL",
    "subset": "FAIL of 2 of 4 scenarios",
    "required": ["a", "b", "c", "d"],
    "ran": ["a", "b"],
    "missing": ["c", "d"],
    "not_run": {"d": "it needs containers"},
    "scenarios": [
        {"name": "a", "status": "PASS", "bundle": "a-again", "error": None, "earlier": ["a"]},
        {"name": "b", "status": "FAIL", "bundle": "b", "error": None, "earlier": ["b-again"]},
        {"name": "c", "status": None, "bundle": None, "error": "no space left", "earlier": []},
    ],
    "release": {"version": "4.3.1", "commit": "c", "source": "Maven"},
    "seed": 7,
    "backends": ["processes"],
    "took_s": 90.5,
}


def test_a_gate_of_format_version_1_means_what_it_meant(tmp_path: Path) -> None:
    (tmp_path / "gate.json").write_text(json.dumps(OF_VERSION_1))
    summary = read_gate(tmp_path)
    assert summary == GateSummary(
        required=("a", "b", "c", "d"),
        results=(
            ScenarioResult(
                name="a",
                status=Status.PASS,
                bundle="a-again",
                tries=(
                    Try(bundle="a", status=Status.INCONCLUSIVE, origins=(DoubtOrigin.RELEASE,)),
                    Try(bundle="a-again", status=Status.PASS),
                ),
            ),
            ScenarioResult(
                name="b",
                status=Status.FAIL,
                bundle="b",
                tries=(
                    Try(bundle="b", status=Status.FAIL),
                    Try(bundle="b-again", status=Status.INCONCLUSIVE, origins=(DoubtOrigin.RELEASE,)),
                ),
            ),
            ScenarioResult(name="c", status=None, error="no space left"),
        ),
        release=NamedRelease(version="4.3.1", commit="c", source="Maven"),
        seed=7,
        not_run={"d": "it needs containers"},
        backends=("processes",),
        took_s=90.5,
    )
    now = json.loads(json.dumps(plain(summary.document)))
    assert [sorted(one["bundle"] for one in row["tries"]) for row in now["scenarios"]] == [
        ["a", "a-again"],
        ["b", "b-again"],
        [],
    ]
    kept = {**OF_VERSION_1, "scenarios": now["scenarios"]}
    assert now | kept == now
    assert (now["part"], now["left_out"], now["not_applicable"]) == (False, [], {})


@pytest.mark.parametrize("version", [None, 1, MATRIX_VERSION + 1])
def test_a_matrix_of_another_version_is_refused(tmp_path: Path, version: int | None) -> None:
    matrix = {"release": "4.3.1", "day": "2026-01-31", "seed": 5, "cells": []}
    (tmp_path / MATRIX).write_text(json.dumps(matrix | {"format_version": MATRIX_VERSION}))
    assert read_matrix([tmp_path]).cells == ()
    (tmp_path / MATRIX).write_text(json.dumps(matrix | ({} if version is None else {"format_version": version})))
    with pytest.raises(
        BadInput, match=r"contracts\.json has format version .*, and this harness reads version 2; .* it"
    ):
        read_matrix([tmp_path])

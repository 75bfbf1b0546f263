"""Bundles that an earlier version judged get the same verdict, findings and counts today.

Only sentences may differ. Kinds, places, offsets, sequences, counts, excuses, doubts, score and figures are compared as
they stand in verdict.json.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from harness.commands.verify import use_fitting_java
from harness.evidence import Bundle
from harness.evidence.documents import plain
from harness.verify.judge import judge
from suites.differential.translation import Json, translate, translated

BUNDLES_MIN: Final = 60
BATCH: Final = 20
# Texts and references, and what excuses or explains a finding: of these only whether they are there.
_TEXTS: Final = ("detail", "contract", "excuse")
_PRESENT: Final = ("excused_by", "explained_by")
# Spark's percentile_approx gives a value within one rank in a thousand, another one in another grouping of the rows.
_APPROXIMATE: Final = ("p50", "p99")
_APPROXIMATE_SHARE: Final = 0.05
_FACTS: Final[Mapping[str, str]] = {"given_again": "redelivered", "untold": "unknown_outcomes"}


def bundles_before(folder: Path) -> list[Path]:
    """Every judged bundle below a folder."""
    return sorted(path.parent for path in folder.rglob("verdict.json") if (path.parent / "manifest.json").is_file())


def comparable(verdict: Mapping[str, Json]) -> dict[str, Json]:
    """A verdict without its sentences, findings and doubts in an order of their own."""
    findings = verdict["findings"]
    doubts = verdict["doubts"]
    facts = verdict["facts"]
    assert isinstance(findings, list)
    assert isinstance(doubts, list)
    assert isinstance(facts, dict)
    rows = [_row(row) for row in findings if isinstance(row, dict)]
    names = [row["name"] for row in doubts if isinstance(row, dict)]
    steps = facts["steps"]
    assert isinstance(steps, list)
    # The proof of an effect has a sentence, too.
    effects: list[Json] = [[row["name"], row["do"], _held(row)] for row in steps if isinstance(row, dict)]
    once_absent = [name for name in ("plugins", "counts") if not facts.get(name)]
    left_out = ("negative_control", "steps", *once_absent)
    figures = {_FACTS.get(key, key): value for key, value in facts.items() if key not in left_out}
    kept = {key: verdict[key] for key in ("verdict", "scenario", "score", "promised", "durable")}
    return {
        **kept,
        "findings": sorted(rows, key=str),
        "doubts": sorted(names, key=str),
        "not_covered": len(verdict["not_covered"]) if isinstance(verdict["not_covered"], list) else None,
        "notes": len(verdict["notes"]) if isinstance(verdict["notes"], list) else None,
        "figures": figures,
        "effects": effects,
    }


def _row(finding: Mapping[str, Json]) -> dict[str, Json]:
    row = {key: value for key, value in finding.items() if key not in (*_TEXTS, *_PRESENT)}
    return {**row, **{key: finding[key] is not None for key in _PRESENT}}


def _held(step: Mapping[str, Json]) -> Json:
    effect = step["effect"]
    return effect["held"] if isinstance(effect, dict) else None


def _same(then: Json, now: Json) -> bool:
    if not (isinstance(then, dict) and isinstance(now, dict)):
        return then == now
    # Keys that once were absent where they said nothing are written always.
    said = {key for key, value in now.items() if value or key in then}
    return then.keys() == said and all(
        _near(value, now[key]) if key in _APPROXIMATE else _same(value, now[key]) for key, value in then.items()
    )


def _near(then: Json, now: Json) -> bool:
    if isinstance(then, int | float) and isinstance(now, int | float):
        return math.isclose(then, now, rel_tol=_APPROXIMATE_SHARE)
    return then == now


def test_the_kept_set_is_large_enough(pytestconfig: pytest.Config) -> None:
    assert len(bundles_before(pytestconfig.getoption("--before"))) >= BUNDLES_MIN


def test_every_verdict_is_the_one_of_before(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    use_fitting_java()
    differing: dict[str, list[str]] = {}
    for group in batched(bundles_before(pytestconfig.getoption("--before"))):
        copies = [tmp_path / f"{before.parent.name}-{before.name}" for before in group]
        for before, copy in zip(group, copies, strict=True):
            translate(before, copy)
        for before, copy, verdict in zip(group, copies, judge([Bundle.open(c) for c in copies]), strict=True):
            old: Json = translated(json.loads((before / "verdict.json").read_text(encoding="utf-8")))
            assert isinstance(old, dict)
            then, now = comparable(old), comparable(json.loads(json.dumps(plain(verdict))))
            if wrong := [f"{key}: {then[key]} then, {now[key]} now" for key in then if not _same(then[key], now[key])]:
                differing[str(before)] = wrong
            shutil.rmtree(copy)
    assert not differing, json.dumps(differing, indent=1)


def batched(bundles: list[Path]) -> list[list[Path]]:
    """Bundles in groups that one run of the judge takes, as after a gate."""
    return [bundles[start : start + BATCH] for start in range(0, len(bundles), BATCH)]

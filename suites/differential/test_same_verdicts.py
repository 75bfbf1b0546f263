"""Bundles that an earlier version judged get the same verdict, findings and counts today, but for intended changes.

Only sentences may differ. Kinds, places, offsets, sequences, counts, excuses, doubts, score and figures are compared as
they stand in verdict.json, and what differs must be declared in `intended.py`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from harness.commands.verify import use_fitting_java
from harness.evidence import Bundle
from harness.evidence.documents import plain
from harness.verify.judge import judge
from suites.differential.differences import differences
from suites.differential.intended import INTENDED, Intended, OneValue, undeclared, unused
from suites.differential.latencies import Evidence
from suites.differential.translation import Json, translate, translated

BUNDLES_MIN: Final = 60
BATCH: Final = 20


@dataclass(slots=True)
class Compared:
    """The comparison of all bundles. wrong: undeclared differences by bundle; used: changes that permitted others."""

    bundles: set[str] = field(default_factory=set)
    wrong: dict[str, list[str]] = field(default_factory=dict)
    used: list[Intended] = field(default_factory=list)


def bundles_before(folder: Path) -> list[Path]:
    """Every judged bundle below a folder, also those of runs that died half way."""
    return sorted(path.parent for path in folder.rglob("verdict.json"))


def name_of(bundle: Path) -> str:
    """The name of a bundle among the kept ones."""
    return f"{bundle.parent.name}/{bundle.name}"


@pytest.fixture(scope="module")
def compared(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """All bundles, judged again and compared with the verdicts beside them."""
    use_fitting_java()
    out = Compared()
    for group in batched(bundles_before(pytestconfig.getoption("--before"))):
        folder = tmp_path_factory.mktemp("translated")
        for before, evidence, now in judged_again(group, folder):
            then: Json = translated(json.loads((before / "verdict.json").read_text(encoding="utf-8")))
            assert isinstance(then, dict)
            name = name_of(before)
            out.bundles.add(name)
            if wrong := undeclared(differences(then, now), name, evidence, INTENDED, out.used):
                out.wrong[name] = [str(difference) for difference in wrong]
        shutil.rmtree(folder)
    return out


def judged_again(group: list[Path], folder: Path) -> Iterator[tuple[Path, Evidence, dict[str, Json]]]:
    """Each of these bundles with its evidence in today's format and today's verdict."""
    bundles = []
    for before in group:
        copy = folder / before.parent.name / before.name
        translate(before, copy)
        bundles.append(Bundle.open(copy, allow_unfinished=True))
    for before, bundle, verdict in zip(group, bundles, judge(bundles), strict=True):
        yield before, Evidence.of(bundle), json.loads(json.dumps(plain(verdict)))


def batched(bundles: list[Path]) -> list[list[Path]]:
    """Bundles in groups that one run of the judge takes, as after a gate."""
    return [bundles[start : start + BATCH] for start in range(0, len(bundles), BATCH)]


def test_the_kept_set_is_large_enough(pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("--incomplete"):
        pytest.skip("--incomplete compares a part of the kept set")
    assert len(bundles_before(pytestconfig.getoption("--before"))) >= BUNDLES_MIN


def test_every_verdict_is_the_one_of_before(compared: Compared) -> None:
    assert not compared.wrong, json.dumps(compared.wrong, indent=1)


def test_every_intended_change_is_still_seen(compared: Compared, pytestconfig: pytest.Config) -> None:
    """A part of the kept set needs to show the changes of its own bundles only."""
    gone = unused(INTENDED, compared.used)
    if pytestconfig.getoption("--incomplete"):
        gone = [change for change in gone if isinstance(change, OneValue) and change.bundle in compared.bundles]
    assert not gone, "\n".join(map(str, gone))

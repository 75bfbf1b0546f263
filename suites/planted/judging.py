"""All copies before the judge, at once: most of what a judgement costs does not depend on how many there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.evidence import Bundle
from harness.model.verdict import Verdict
from harness.verify import judge
from suites.planted.copies import Copy, Original
from suites.planted.expected import Expected
from suites.planted.table import PLANTS


@dataclass(frozen=True, slots=True)
class Judged:
    """What was expected of a copy, and what the judge said."""

    bundle: Bundle
    expected: Expected
    verdict: Verdict


def judge_plants(original: Original, folder: Path, names: Iterable[str] = tuple(PLANTS)) -> dict[str, Judged]:
    """The verdict on a copy for each plant, by its name. A Spark session has to be open, or JAVA_HOME to fit."""
    expected: dict[str, Expected] = {}
    bundles: dict[str, Bundle] = {}
    for name in names:
        copy = Copy(original, folder / name)
        expected[name] = PLANTS[name](copy)
        bundles[name] = copy.sealed()
    verdicts = judge(list(bundles.values()))
    return {
        name: Judged(bundle=bundle, expected=expected[name], verdict=verdict)
        for (name, bundle), verdict in zip(bundles.items(), verdicts, strict=True)
    }

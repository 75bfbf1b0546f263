"""Judges all copies at once, because most of the cost of a judgement does not depend on their number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.evidence import Bundle
from harness.model.verdict import Verdict
from harness.verify import judge
from suites.planted.copies import Copy, Original
from suites.planted.expected import Expected
from suites.planted.table import PLANTS

# Each part is planned separately, so few large parts cost less. Copies of one run differ in little, so more of them
# have room in memory than of other bundles.
AT_ONCE_BYTES: Final = 90 << 20


@dataclass(frozen=True, slots=True)
class Judged:
    """The expected verdict on a copy, and the actual one."""

    bundle: Bundle
    expected: Expected
    verdict: Verdict


def judge_plants(original: Original, folder: Path, names: Iterable[str]) -> dict[str, Judged]:
    """The verdict on one copy for each plant, by its name. Needs an open Spark session or JAVA_HOME."""
    expected: dict[str, Expected] = {}
    bundles: dict[str, Bundle] = {}
    for name in names:
        copy = Copy(original, folder / name)
        expected[name] = PLANTS[name](copy)
        bundles[name] = copy.sealed()
    verdicts = judge(list(bundles.values()), at_once_bytes=AT_ONCE_BYTES)
    return {
        name: Judged(bundle=bundle, expected=expected[name], verdict=verdict)
        for (name, bundle), verdict in zip(bundles.items(), verdicts, strict=True)
    }

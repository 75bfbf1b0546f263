"""The differences between two verdicts on one bundle, value by value. Only sentences are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from suites.differential.translation import Json, objects

FIGURES: Final = "figures"
# Texts and references, and what excuses or explains a finding: of these only whether they are there.
_TEXTS: Final = ("detail", "contract", "excuse")
_PRESENT: Final = ("excused_by", "explained_by")
# With the kind they say which finding it is; all other values of two such findings are compared.
_PLACE: Final = ("topic", "partition", "offset_first", "offset_last", "stream", "seq_first", "seq_last", "reader")
_FACTS: Final[Mapping[str, str]] = {"given_again": "redelivered", "untold": "unknown_outcomes"}


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that two verdicts do not share. None: the verdict lacks it."""

    path: tuple[str, ...]
    then: Json
    now: Json

    def __str__(self) -> str:
        return f"{' > '.join(self.path)}: {self.then} then, {self.now} now"


def differences(then: Mapping[str, Json], now: Mapping[str, Json]) -> list[Difference]:
    """The differences between two verdicts, each as verdict.json has it."""
    return list(_between((), comparable(then), comparable(now)))


def _between(path: tuple[str, ...], then: Json, now: Json) -> Iterator[Difference]:
    if isinstance(then, dict) and isinstance(now, dict):
        for key in (*then, *(key for key in now if key not in then)):
            if key in then or now[key]:  # keys that once were absent where they said nothing are written always
                yield from _between((*path, key), then.get(key), now.get(key))
    elif then != now:
        yield Difference(path, then, now)


def comparable(verdict: Mapping[str, Json]) -> dict[str, Json]:
    """A verdict without its sentences: findings by what they are about, doubts as their numbers by name."""
    facts = verdict["facts"]
    assert isinstance(facts, dict)
    plugins = () if facts.get("plugins") else ("plugins",)  # once absent without one
    left_out = ("negative_control", "steps", *plugins)
    kept: dict[str, Json] = {key: verdict[key] for key in ("verdict", "scenario", "score", "promised", "durable")}
    return {
        **kept,
        "findings": _by_identity([_finding(row) for row in objects(verdict["findings"])]),
        "doubts": dict(Counter(str(row["name"]) for row in objects(verdict["doubts"]))),
        "notes": _number(verdict["notes"]),
        FIGURES: {
            "not_covered": _number(verdict["not_covered"]),
            **{_FACTS.get(key, key): value for key, value in facts.items() if key not in left_out},
        },
        # The proof of an effect has a sentence, too.
        "effects": [[row["name"], row["do"], _held(row)] for row in objects(facts["steps"])],
    }


def _number(value: Json) -> int:
    assert isinstance(value, list)
    return len(value)


def _finding(row: Mapping[str, Json]) -> dict[str, Json]:
    compared = {key: value for key, value in row.items() if key not in (*_TEXTS, *_PRESENT)}
    return {**compared, **{key: row.get(key) is not None for key in _PRESENT}}


def _by_identity(findings: Sequence[dict[str, Json]]) -> dict[str, Json]:
    """Findings by the words for what they are about. Those with the same words are numbered."""
    named: dict[str, Json] = {}
    same: Counter[str] = Counter()
    for finding in sorted(findings, key=str):
        place = (f"{key}={finding[key]}" for key in _PLACE if finding.get(key) is not None)
        words = " ".join((str(finding["kind"]), *place))
        same[words] += 1
        named[words if same[words] == 1 else f"{words} #{same[words]}"] = finding
    return named


def _held(step: Mapping[str, Json]) -> Json:
    effect = step["effect"]
    return effect["held"] if isinstance(effect, dict) else None

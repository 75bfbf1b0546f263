"""Changes of verdicts that were intended, in plain words, each as narrow as it can be said.

A verdict, a finding, a doubt, a score or a number of notes may differ only in a named bundle, and only by the named
pair of values. A figure, which decides nothing, may differ in any bundle by a rule. A change that no bundle shows any
more leaves the list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

from suites.differential.differences import FIGURES, Difference
from suites.differential.latencies import PERCENTILES, Evidence
from suites.differential.translation import Json

Keys: TypeAlias = tuple[str, ...]
_COUNTED: Final = {"ack_ms": "acks", "read_ms": "records"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OneValue:
    """One value of one bundle: it was `then`, and it is `now`. bundle: its folder and the folder around it."""

    why: str
    bundle: str
    path: Keys
    then: Json
    now: Json

    def permits(self, difference: Difference, bundle: str, _: Evidence) -> bool:
        """Whether this is that difference."""
        return bundle == self.bundle and difference == Difference(self.path, self.then, self.now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of any bundle. figure: its path below the figures; * is any name. rule: which differences it permits."""

    why: str
    figure: Keys
    rule: Callable[[Difference, Evidence], bool]

    def permits(self, difference: Difference, _: str, evidence: Evidence) -> bool:
        """Whether this is a difference of that figure within the rule."""
        path = (FIGURES, *self.figure)
        same = len(path) == len(difference.path) and all(map(fnmatchcase, difference.path, path))
        return same and self.rule(difference, evidence)


Intended: TypeAlias = OneValue | Figure


def undeclared(
    found: Sequence[Difference],
    bundle: str,
    evidence: Evidence,
    intended: Sequence[Intended],
    used: list[Intended],
) -> list[Difference]:
    """The differences of a bundle that no intended change permits. Appends those that do to `used`."""
    wrong = []
    for difference in found:
        permitting = [change for change in intended if change.permits(difference, bundle, evidence)]
        used += permitting
        if not permitting:
            wrong.append(difference)
    return wrong


def unused(intended: Sequence[Intended], used: Sequence[Intended]) -> list[Intended]:
    """Intended changes that no bundle showed."""
    return [change for change in intended if not any(change is one for one in used)]


def in_bundle(bundle: str, why: str, values: Mapping[Keys, tuple[Json, Json]]) -> Iterator[OneValue]:
    """One intended change for each of these values of a bundle: what it was, and what it is."""
    for path, (then, now) in values.items():
        yield OneValue(why=why, bundle=bundle, path=path, then=then, now=now)


def _is_new(difference: Difference, _: Evidence) -> bool:
    return difference.then is None


def _is_unseen_elections(difference: Difference, evidence: Evidence) -> bool:
    """Whether a run without a history of its cluster has one more line of what it does not cover."""
    then = difference.then
    return evidence.without_history and isinstance(then, int) and difference.now == then + 1


def _is_within_precision(difference: Difference, evidence: Evidence) -> bool:
    """Whether both verdicts have the percentile of the evidence within their stated precision."""
    *_, what, window, percentile = difference.path
    of = evidence.latencies
    then = of.then_was_right(what, window, percentile, difference.then)
    return then and of.now_is_right(what, window, percentile, difference.now)


def _is_the_whole_run(difference: Difference, evidence: Evidence) -> bool:
    """Whether a run without faults has no figures `after` any more, and they repeated those of `before`."""
    *_, what, _ = difference.path
    then = difference.then
    if not evidence.without_faults or difference.now is not None or not isinstance(then, dict):
        return False
    of = evidence.latencies
    right = (of.then_was_right(what, "before", percentile, then[percentile]) for percentile in PERCENTILES)
    return then[_COUNTED[what]] == len(of.of(what, "before")) and all(right)


_LOST: Final = "lost topic=plain partition={} offset_first={} offset_last={} stream={} seq_first={} seq_last=6991"
INTENDED: Final[tuple[Intended, ...]] = (
    Figure(
        figure=("read_back",),
        why="verdicts say how many copies of the log were read to the end",
        rule=_is_new,
    ),
    Figure(
        figure=("deleted_by",),
        why="verdicts say what deleted how many acknowledged records",
        rule=_is_new,
    ),
    Figure(
        figure=("deleted_records",),
        why="verdicts say how many promised records were deleted",
        rule=_is_new,
    ),
    Figure(
        figure=("not_covered",),
        why="a verdict without the history of the cluster says that elections of replicas out of sync cannot be seen",
        rule=_is_unseen_elections,
    ),
    Figure(
        figure=("availability", "ack_ms", "*", "p[59][09]"),
        why="latencies are counted in classes that are 0.5 % wide; an approximation of each percentile took longer",
        rule=_is_within_precision,
    ),
    Figure(
        figure=("availability", "read_ms", "*", "p[59][09]"),
        why="the same for reads",
        rule=_is_within_precision,
    ),
    Figure(
        figure=("availability", "*_ms", "after"),
        why="a run without faults has one span, which was shown as `before` and again as `after`",
        rule=_is_the_whole_run,
    ),
    *in_bundle(
        "proof/calm",
        "a run without faults has no episode; its lost records are counted by themselves",
        {
            ("score", "episodes"): (1, 0),
            ("score", "episodes_with_loss"): (1, 0),
            ("score", "lost_without_fault"): (None, 16928),
        },
    ),
    *in_bundle(
        "proof/second_leader_killed",
        "two records that were acknowledged at one offset of one stream are two lost records, and were counted as one",
        {
            ("findings", _LOST.format(0, 2796, 6255, 1, 2796), "count"): (3460, 4196),
            ("findings", _LOST.format(1, 2760, 6071, 3, 2760), "count"): (3312, 4232),
            ("durable",): (68864, 67208),
            ("score", "durable_raw"): (68864, 67208),
            ("score", "share_raw"): (0.9104659157015178, 0.8885715796710562),
            ("score", "share_excused"): (0.9104659157015178, 0.8885715796710562),
            ("score", "nines_raw"): (1.0480116037363423, 0.9530040262371774),
            ("score", "nines_excused"): (1.0480116037363423, 0.9530040262371774),
        },
    ),
    *in_bundle(
        "proof/exact_loss_safe",
        "a note counts the lost record that shares its acknowledged offset with another record of librdkafka",
        {("notes",): (0, 1)},
    ),
    *in_bundle(
        "proof/followers_frozen_long",
        "a note counts the 15,088 lost records that share their acknowledged offsets with other records of librdkafka",
        {("notes",): (4, 5)},
    ),
)

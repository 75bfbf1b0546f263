"""A night as a gate, with its episodes as scenarios: gate.json and the pages then judge it by the rule of a night."""

from __future__ import annotations

from typing import Final

from harness.chaos.night import Episode, Night
from harness.chaos.plan import name_of
from harness.evidence.gate import GateSummary, NightRule, ScenarioResult, Try, decided, is_bundle, try_of
from harness.evidence.thinned import is_thinned
from harness.evidence.verdicts import VERDICT, read_verdict
from harness.model.documents.manifest import NamedRelease
from harness.model.doubt_names import DoubtOrigin
from harness.model.limits import NO_LIMITS, Limits

RECORDS: Final = 1_000  # of an episode, at least


def summary_of(night: Night, release: NamedRelease, limits: Limits = NO_LIMITS) -> GateSummary:
    """The summary of a night. An episode that this release or machine cannot play does not apply to it."""
    episodes = night.episodes
    return GateSummary(
        required=tuple(name_of(one.episode) for one in episodes),
        results=tuple(_result(night, one) for one in episodes if not one.not_played),
        release=release,
        seed=night.header.seed,
        records=RECORDS,
        limits=limits if limits.asked() else None,
        not_applicable={name_of(one.episode): one.error or "it cannot be played" for one in episodes if one.not_played},
        backends=(night.header.backend,),
        took_s=night.elapsed_s,
        night=NightRule(planted=tuple(name_of(one.episode) for one in episodes if one.planted)),
    )


def _result(night: Night, one: Episode) -> ScenarioResult:
    """The result of an episode. `durability verify` may have judged it after its line was written."""
    name = name_of(one.episode)
    bundle = night.out / name
    if (bundle / VERDICT).is_file():
        return decided(name, [try_of(name, read_verdict(bundle), thinned=is_thinned(bundle))])
    if one.status is None:
        if not is_bundle(bundle):
            return ScenarioResult(name=name, error=one.error)
        return decided(name, [Try(bundle=name, error=one.error)])
    origins = (DoubtOrigin.RELEASE,) if one.of_release else ()
    return decided(name, [Try(bundle=name, status=one.status, origins=origins)])

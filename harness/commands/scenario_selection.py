"""Which scenarios a run plays, and on which backend; what nobody can play, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from harness import clusters, scenarios
from harness.clusters.choosing import able, check_plan, check_release
from harness.commands.options import GateOptions
from harness.faults.steps.registry import check_steps
from harness.faults.steps.registry import lacking as undoable
from harness.kafka.release.own_clients import CLIENTS
from harness.kafka.release.own_streams import STREAMS
from harness.kafka.release.release import Release
from harness.kafka.release.tier_needs import asked
from harness.model.backend import AUTO, PROCESSES
from harness.model.errors import BadInput
from harness.model.scenario.scenario import SHARE_GROUPS_SINCE, Scenario
from harness.model.version import numbers_of


def chosen(options: GateOptions, whole: Sequence[Scenario]) -> list[Scenario]:
    """The scenarios that the options ask for, with the tier that they ask for; BadInput on a name nobody knows."""
    if options.tags:
        wanted = scenarios.tagged(options.tags)
    else:
        specs = [*map(str, options.scenarios), *options.only]
        wanted = [scenarios.load(spec) for spec in specs] or list(whole)
    return [_by_user(s) if s.shape.tier else s for s in wanted] if options.tier_storage else wanted


def _by_user(scenario: Scenario) -> Scenario:
    return replace(scenario, shape=replace(scenario.shape, tier="user"))


def backends_of(options: GateOptions, chosen_one: str) -> tuple[str, ...]:
    """What may play a scenario, the first choice first: processes, too, where the choice was left to us."""
    free = options.backend == AUTO and not clusters.only_in_containers(options.kafka, options.limits)
    return (chosen_one, PROCESSES) if free and chosen_one != PROCESSES else (chosen_one,)


def assign_backends(
    options: GateOptions,
    wanted: Sequence[Scenario],
    backends: Sequence[str],
    tested: Release,
    *,
    negative_control: bool = False,
    lacking: Mapping[str, str] = MappingProxyType({}),
) -> tuple[dict[str, str], dict[str, str]]:
    """The backend that plays each scenario, and why nobody can play the others.

    BadInput, before anything starts, on the first of these. Of a set, and of a whole gate, are left out those that are
    not of this release, and with `leave_out` those that this machine cannot play, unless there is nothing else.
    lacking: what of `tier_needs` and `own_clients` the release cannot have, and why.
    """
    named = bool(options.only or options.scenarios)
    cast: dict[str, str] = {}
    nobody: dict[str, str] = {}
    for scenario in wanted:
        as_played = played(scenario, negative_control)
        reason = _not_of(tested, as_played)
        if reason is None:
            why = next((lacking[what] for what in sorted(_asked(as_played)) if what in lacking), None)
            reason = why and f"scenario {scenario.name}: {why}"
        refused = {backend: reason or _undoable(as_played, backend) for backend in backends}
        fit = next((backend for backend, why in refused.items() if why is None), None)
        if fit is not None:
            cast[scenario.name] = fit
            continue
        nobody[scenario.name] = str(refused[backends[0]])
        if named if reason else not options.leave_out:
            raise BadInput(nobody[scenario.name])
    if nobody and not cast:
        raise BadInput(next(iter(nobody.values())))
    return cast, nobody


def _asked(scenario: Scenario) -> set[str]:
    clients = {CLIENTS} if scenario.own_clients else set()
    return asked(scenario.shape) | clients | ({STREAMS} if scenario.own_streams else set())


def otherwise(cast: Mapping[str, str], backend: str) -> list[str]:
    others = {name: by for name, by in cast.items() if by != backend}
    return [f"backend: {by} for {name}, which {backend} cannot play" for name, by in others.items()]


def played(scenario: Scenario, negative_control: bool) -> Scenario:
    return scenarios.negative_control(scenario) if negative_control else scenario


def _not_of(tested: Release, scenario: Scenario) -> str | None:
    """Why no machine can play a scenario on this release; None when some can."""
    if scenario.since is not None and tested.numbers < numbers_of(scenario.since):
        return _too_old(tested, scenario, "what it is about", scenario.since)
    if scenario.share_groups and tested.numbers < SHARE_GROUPS_SINCE:
        return _too_old(tested, scenario, "share groups for production", ".".join(map(str, SHARE_GROUPS_SINCE)))
    return (
        _refusal(scenario, lambda: clusters.refuse_upgrade(scenario.shape, tested))
        or _refusal(scenario, lambda: check_release(tested, scenario.shape))
        or _refusal(scenario, lambda: check_steps(scenario))  # of a tier that it was not written for
    )


def _too_old(tested: Release, scenario: Scenario, what: str, since: str) -> str:
    return (
        f"scenario {scenario.name}: Kafka {tested.version} has not {what}, which came with {since}; "
        "give --kafka a newer release, or leave this scenario away"
    )


def _undoable(scenario: Scenario, backend: str) -> str | None:
    """Why this machine cannot play a scenario on a backend; None when it can."""
    return undoable(scenario, able(backend)) or _refusal(scenario, lambda: check_plan(backend, scenario.shape))


def _refusal(scenario: Scenario, check: Callable[[], None]) -> str | None:
    try:
        check()
    except BadInput as error:
        return f"scenario {scenario.name}: {error}"
    return None

"""Which scenarios a run plays, and on which backend; which ones it does not play, and why.

    choose_scenarios    what the options ask for
    assign_backends     what this release and this machine can play of it, before anything is fetched
    Selection.without   what is left once jars that could not be had are known

A scenario that is not played is one of two kinds. `not_applicable`: the tested Kafka is older than what the scenario is
about, or an image where the scenario upgrades a cluster. `not_run`: the machine, a jar or an option stands against it;
a whole gate is INCONCLUSIVE then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from harness import clusters, scenarios
from harness.clusters.choosing import able, check_plan, check_release
from harness.commands.options import GateOptions
from harness.commands.prepare import needs_of
from harness.faults.steps.registry import check_steps
from harness.faults.steps.registry import lacking as lacking_capability
from harness.kafka.release.release import Release
from harness.model.backend import AUTO, BACKENDS, CONTAINERS, PROCESSES
from harness.model.errors import BadInput
from harness.model.scenario.scenario import SHARE_GROUPS_SINCE, Scenario
from harness.model.version import numbers_of


@dataclass(frozen=True, slots=True)
class Wanted:
    """declared: a scenario as its author wrote it. played: what runs: the same, or it under its negative control."""

    declared: Scenario
    played: Scenario

    @property
    def name(self) -> str:
        return self.declared.name


@dataclass(frozen=True, slots=True)
class Selected(Wanted):
    """A scenario that will be played, and the backend that plays it."""

    backend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The scenarios that the options ask for.

    gate: every scenario of the backend's gate; they share the records of a run among them.
    required: names of what a whole run brings to a verdict. part: whether --only asks for less than that.
    left_out: names of `required` that --without leaves out. wanted: what is to be played, in order.
    """

    gate: tuple[Scenario, ...]
    required: tuple[str, ...]
    part: bool
    left_out: tuple[str, ...]
    wanted: tuple[Wanted, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The scenarios that will be played, and by name the reasons why the other wanted ones will not."""

    selected: tuple[Selected, ...]
    not_run: Mapping[str, str] = field(default_factory=dict)
    not_applicable: Mapping[str, str] = field(default_factory=dict)

    def without(self, lacking: Mapping[str, str], options: GateOptions) -> Selection:
        """Moves scenarios to `not_run` that need something which could not be had.

        lacking: the reason by need, as in `prepare.needs_of`. BadInput where the user named such a scenario, or where
        none is left.
        """
        reasons = {}
        for one in self.selected:
            if missing := sorted(needs_of(one.played) & lacking.keys()):
                reasons[one.name] = f"scenario {one.name}: {lacking[missing[0]]}"
        if reasons and options.named:
            raise BadInput(next(iter(reasons.values())))
        left = tuple(one for one in self.selected if one.name not in reasons)
        return not_empty(replace(self, selected=left, not_run={**self.not_run, **reasons}))

    def lines(self, backend: str) -> list[str]:
        """For the terminal: what another backend than the chosen one plays, and what is not played."""
        others = [one for one in self.selected if one.backend != backend]
        return [
            *(f"backend: {one.backend} for {one.name}, which {backend} cannot play" for one in others),
            *(f"not applicable: {reason}" for reason in self.not_applicable.values()),
            *(f"not run: {reason}" for reason in self.not_run.values()),
        ]


def check_choice(options: GateOptions) -> None:
    """BadInput, before anything is fetched, when a scenario does not exist, is none, or cannot be played here."""
    known = scenarios.every()
    for name in options.only:
        if name not in known:
            if "/" in name or name.lower().endswith(".toml"):
                scenarios.load(name)  # says what is wrong with a path
            raise BadInput(f"there is no scenario {name!r}{_near(name, known)}")
    # Which backend runs the gate is not known yet, and containers have the larger one.
    asked = _asked(options, scenarios.gate(CONTAINERS))
    _check_left_out(options, asked)
    if options.attach is not None:
        return  # what the cluster can play is known only when it was looked at
    if not (options.named or options.tags):
        asked = scenarios.gate()
    able_here = [able(backend) for backend in BACKENDS if backend != AUTO and options.backend in (AUTO, backend)]
    reasons = []
    for scenario in (wanted := [s for s in asked if s.name not in options.without]):
        refused = [lacking_capability(scenario, capabilities) for capabilities in able_here]
        if all(refused):  # where the choice is left to the run, it checks again what it has chosen
            reasons.append(str(refused[0]))
    if reasons and not (options.leave_out and len(reasons) < len(wanted)):
        raise BadInput(reasons[0])


def _check_left_out(options: GateOptions, asked: Sequence[Scenario]) -> None:
    names = [scenario.name for scenario in asked]
    for name in options.without:
        if name not in names:
            raise BadInput(f"--without {name}: that is none of the scenarios of this run{_near(name, names)}")
    if asked and set(names) <= set(options.without):
        raise BadInput("--without leaves no scenario to run")


def _near(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=3, cutoff=0.5)
    meant = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"{meant or ';'} `durability list scenarios` shows what there is"


def choose_scenarios(options: GateOptions, backend: str, *, negative_control: bool = False) -> Choice:
    """The scenarios that the options ask for, with the user's remote storage where there is one."""
    gate = scenarios.gate(backend)
    asked = _asked(options, gate)
    left_out = tuple(s.name for s in asked if s.name in options.without)
    wanted = [_with_user_storage(s, options) for s in asked if s.name not in left_out]
    # A set by tags, a file of the user and a scenario outside of the gate are a whole of their own.
    of_gate = {s.name for s in asked} <= {s.name for s in gate} and not (options.scenarios or options.tags)
    return Choice(
        gate=tuple(gate),
        required=tuple(s.name for s in (gate if of_gate else asked)),
        part=bool(options.only),
        left_out=left_out,
        wanted=tuple(Wanted(s, scenarios.negative_control(s) if negative_control else s) for s in wanted),
    )


def _asked(options: GateOptions, gate: Sequence[Scenario]) -> list[Scenario]:
    if options.tags:
        return scenarios.tagged(options.tags)
    return [scenarios.load(spec) for spec in (*map(str, options.scenarios), *options.only)] or list(gate)


def _with_user_storage(scenario: Scenario, options: GateOptions) -> Scenario:
    if not (scenario.shape.tier and options.tier_storage):
        return scenario
    return replace(scenario, shape=replace(scenario.shape, tier="user"))


def backends_of(options: GateOptions, chosen: str) -> tuple[str, ...]:
    """Backends that may play a scenario, the first choice first. Where the user left it open, processes are another."""
    free = options.backend == AUTO and not clusters.only_in_containers(options.kafka, options.limits)
    return (chosen, PROCESSES) if free and chosen != PROCESSES else (chosen,)


def assign_backends(
    options: GateOptions, wanted: Sequence[Wanted], backends: Sequence[str], tested: Release
) -> Selection:
    """The first backend that can play each scenario, and why none can play the others.

    BadInput where the user named a scenario that cannot be played, where this machine cannot play one and the options
    do not leave it out, and where none is left.
    """
    selected: list[Selected] = []
    not_run: dict[str, str] = {}
    not_applicable: dict[str, str] = {}
    for one in wanted:
        inapplicable, unfit = _inapplicable(tested, one.played), _unfit(one.played)
        refused = {backend: _cannot_play(one.played, backend) for backend in backends}
        fit = next((backend for backend, reason in refused.items() if reason is None), None)
        reason = inapplicable or unfit or refused[backends[0]]
        if fit is not None and not (inapplicable or unfit):
            selected.append(Selected(one.declared, one.played, fit))
            continue
        if options.named if inapplicable or unfit else not options.leave_out:
            raise BadInput(str(reason))
        (not_applicable if inapplicable else not_run)[one.name] = str(reason)
    return not_empty(Selection(selected=tuple(selected), not_run=not_run, not_applicable=not_applicable))


def not_empty(selection: Selection) -> Selection:
    """The selection. BadInput, with a reason why, if nothing is to be played."""
    if selection.selected:
        return selection
    raise BadInput(next(iter((*selection.not_run.values(), *selection.not_applicable.values())), "no scenario is left"))


def too_old(tested: Release, scenario: Scenario) -> str | None:
    """Why a scenario does not apply to a release that lacks what the scenario is about; None when it has it."""
    if scenario.since is not None and tested.numbers < numbers_of(scenario.since):
        return _came_with(tested, scenario, "what the scenario is about", scenario.since)
    if scenario.share_groups and tested.numbers < SHARE_GROUPS_SINCE:
        return _came_with(tested, scenario, "share groups for production", ".".join(map(str, SHARE_GROUPS_SINCE)))
    return None


def _inapplicable(tested: Release, scenario: Scenario) -> str | None:
    """Why a scenario does not apply to a release that is too old, or to an image, which is not upgraded; None when it
    applies."""
    return (
        too_old(tested, scenario)
        or _refusal(scenario, lambda: clusters.refuse_upgrade(scenario.shape, tested))
        or _refusal(scenario, lambda: check_release(tested, scenario.shape))
    )


def _came_with(tested: Release, scenario: Scenario, what: str, since: str) -> str:
    return (
        f"scenario {scenario.name}: Kafka {tested.version} does not have {what}, which came with {since}; "
        "give --kafka a newer release, or leave this scenario out"
    )


def _unfit(scenario: Scenario) -> str | None:
    """Why no backend can play steps that the user's remote storage cannot take part in; None when some can."""
    return _refusal(scenario, lambda: check_steps(scenario))


def _cannot_play(scenario: Scenario, backend: str) -> str | None:
    """Why this machine cannot play a scenario on a backend; None when it can."""
    reason = lacking_capability(scenario, able(backend))
    return reason or _refusal(scenario, lambda: check_plan(backend, scenario.shape))


def _refusal(scenario: Scenario, check: Callable[[], None]) -> str | None:
    try:
        check()
    except BadInput as error:
        return f"scenario {scenario.name}: {error}"
    return None

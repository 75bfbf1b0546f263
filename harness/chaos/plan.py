"""From a seed, a profile and the number of an episode to a plan: an ordinary scenario, and what it permits to be lost.

An episode has one or two rounds. In each, one or two things happen (faults, or operations such as a reassignment), the
second one at once, after a pause, or when the first has had its effect. Then everything is healed, the cluster must
recover, and every partition must acknowledge records again: a quiet time. A cluster that starts on an earlier release
is upgraded: its controllers before the first round, its brokers before the second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from harness.chaos.arguments import CannotDrawError, Surroundings, arguments
from harness.chaos.bearing import Bearing, Permitted, acknowledges
from harness.chaos.draw import Draw
from harness.chaos.profile import Profile
from harness.chaos.workload import load_of, shape_of
from harness.faults.operations.plant_loss import PlantLoss
from harness.faults.steps.registry import all_kinds, build_step, check_step, check_steps, folder_of
from harness.faults.steps.step import OF_CLIENTS, Fault, Kind, is_disturbance
from harness.faults.steps.step_validation import StepValidation
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.scenario import toml
from harness.model.scenario.scenario import ClusterShape, Scenario, Step

ROUNDS_MAX: Final = 2
# How often arguments are drawn for a kind before the next kind gets its chance.
TRIES: Final = 6
PAUSES_S: Final = (0.5, 1.0, 3.0)
ACKS_AFTER: Final = 50
_VARIATION: Final = "variation-"
_EPISODE: Final = "episode_"
# Facts of faults that leave a majority able to serve, if they take no more than a minority of the nodes. Of a broken
# link that is not certain: a leader that reaches a controller and no follower still leads, and may not acknowledge.
_LEFT_BROKEN: Final = frozenset({FactKind.STOPPED, FactKind.FROZEN})
EPISODE_MAX: Final = 10**9
_NONE_PERMITTED: Final = (
    "No acknowledged record may be lost, because each setting and step here permits none to be lost."
)
_SOME_PERMITTED: Final = "No acknowledged record may be lost, but those that {topics} may lose by its settings."


@dataclass(frozen=True, slots=True)
class Plan:
    """One episode. happenings: the kinds of its faults and operations, by round, in their order."""

    seed: int
    episode: int
    variation: int
    scenario: Scenario
    permitted: tuple[Permitted, ...]
    happenings: tuple[tuple[str, ...], ...]


@dataclass(slots=True)
class _Outline:
    """The steps of a plan so far, each of them validated when it is added."""

    scenario: Scenario
    bearing: Bearing
    steps: list[Step] = field(default_factory=list)
    earlier: dict[str, Kind] = field(default_factory=dict)
    active: list[str] = field(default_factory=list)

    def fits(self, step: Step) -> bool:
        """Whether a step may come next: it is valid, it would have an effect, and the cluster can bear it."""
        try:
            kind, plan = build_step(step), StepValidation(self.scenario, self.earlier)
            check_step(kind, plan, self.active)
            return self.bearing.refusal(kind, plan) is None
        except BadInput:
            return False

    def add(self, step: Step) -> None:
        kind = build_step(step)
        self.bearing.add(step.name, kind, StepValidation(self.scenario, self.earlier))
        self.steps.append(step)
        self.earlier[step.name] = kind
        if isinstance(kind, Fault):
            self.active.append(step.name)

    def heal(self, name: str) -> None:
        self.add(Step(do="heal", name=f"heal_{name}", args={"fault": name}))
        self.active.remove(name)
        self.bearing.heal(name)


def plan_of(seed: int, profile: Profile, episode: int, variation: int = 0, *, planted: bool = False) -> Plan:
    """The plan of an episode. Episodes count from 1. A variation is another plan for the same episode.

    planted: the same plan, and at its end the harness deletes acknowledged records behind the verifier's back.
    """
    block = (episode - 1) // profile.block
    shape = shape_of(Draw(f"{seed}/block {block}"), profile)
    draw = Draw(f"{seed}/episode {episode}/variation {variation}")
    sloppy = not planted and draw.chance("sloppy", profile.sloppy_percent)
    scenario = load_of(draw.within("load"), profile, shape, name=name_of(episode), sloppy=sloppy)
    outline = _Outline(scenario, Bearing(scenario, strict=not sloppy))
    upgrade = _upgrade(draw, shape)
    rounds = len(upgrade) or 1 + int(draw.chance("second round", 40))
    happenings: list[tuple[str, ...]] = []
    for number in range(1, rounds + 1):
        for step in upgrade.get(number, ()):
            outline.add(step)
        happenings.append(_round(draw.within(f"round {number}"), number, outline, profile, last=number == rounds))
    words = "; ".join(" and ".join(each) for each in happenings)
    if planted:
        outline.add(Step(do=PlantLoss.do, name="planted", args={"on": _planted_on(scenario)}))
    permitted = tuple(outline.bearing.permitted)
    topics = ", ".join(dict.fromkeys(one.topic for one in permitted))
    deletes = any(fact.kind is FactKind.RECORDS_DELETED for kind in outline.earlier.values() for fact in kind.facts)
    whole = replace(
        scenario,
        title=f"{'A planted loss must be found. ' if planted else ''}Seed {seed}, episode {episode}: {words}",
        tags=("chaos", f"profile-{profile.name}", f"seed-{seed}", f"episode-{episode}", f"{_VARIATION}{variation}"),
        property=_SOME_PERMITTED.format(topics=topics) if permitted else _NONE_PERMITTED,
        steps=tuple(outline.steps),
        allowed_anomalies=replace(scenario.allowed_anomalies, delete_records=deletes),
    )
    # Through the same door as a file: what the plan is made of is checked again, as a whole.
    checked = toml.from_plain(toml.to_plain(whole), whole.name, check_steps)
    return Plan(seed, episode, variation, checked, permitted, tuple(happenings))


def _upgrade(draw: Draw, shape: ClusterShape) -> dict[int, tuple[Step, ...]]:
    """The steps of an upgrade, by the round that they come before; none of a cluster with one release. Controllers come
    first, as in Kafka's upgrade notes."""
    if shape.starts_on is None:
        return {}
    raised = (Step(do="raise_features", name="raised"),) if draw.chance("features are raised", 50) else ()
    return {1: (_roll("controllers"),), 2: (_roll("brokers"), *raised)}


def _roll(nodes: str) -> Step:
    return Step(do="roll", name=f"{nodes}_up", args={"node": nodes, "to": "tested"})


def variation_of(scenario: Scenario) -> int:
    """Which variation of its episode a generated scenario is."""
    return next((int(tag.removeprefix(_VARIATION)) for tag in scenario.tags if tag.startswith(_VARIATION)), 0)


def is_planted(scenario: Scenario) -> bool:
    """Whether the harness plants a loss in a generated scenario, which must be FAIL then."""
    return any(step.do == PlantLoss.do for step in scenario.steps)


def _planted_on(scenario: Scenario) -> str:
    """A partition with records that nothing but the harness deletes."""
    kept = [topic for topic in scenario.topics if "compact" not in topic.config.get("cleanup.policy", "")]
    return f"{(kept or scenario.topics)[0].name}/0"


def name_of(episode: int) -> str:
    """The name of an episode's scenario, and of the folder of its evidence."""
    return f"{_EPISODE}{episode:06d}"


def is_episode(name: str) -> bool:
    """Whether a scenario of this name is an episode."""
    number = name.removeprefix(_EPISODE)
    return number.isdecimal() and name == name_of(int(number))


def _round(draw: Draw, number: int, outline: _Outline, profile: Profile, *, last: bool) -> tuple[str, ...]:
    """Adds a round, and returns the kinds of what happens in it."""
    first = _happening(draw.within("first"), f"r{number}_first", outline, profile)
    happened = [first.do] if first else []
    if first and draw.chance("pair", 65):
        broken = any(taken.brokers for taken in outline.bearing.active.values())
        await_effect = broken or draw.chance("await the effect", 50)
        second = _second(draw, number, outline, profile, await_effect=await_effect)
        happened += [second.do] if second else []
    if draw.chance("lasts", 50) or any(_proven_late(outline.earlier[name]) for name in outline.active):
        _pause(draw, f"r{number}_lasts", outline)
    if last and draw.chance("a minority stays broken", 75):
        _let_a_majority_serve(draw, number, outline)
    # Without controllers, other faults may not be able to heal.
    for name in sorted(
        draw.order("healing", list(outline.active)), key=lambda one: not outline.bearing.active[one].alone
    ):
        outline.heal(name)
    outline.add(Step(do="wait_healthy", name=f"r{number}_healthy"))
    outline.add(Step(do="wait_acks", name=f"r{number}_acks", args={"records": ACKS_AFTER}))
    return tuple(happened)


def _let_a_majority_serve(draw: Draw, number: int, outline: _Outline) -> None:
    """Heals all but one fault that takes a minority of the nodes, and waits until the others serve: liveness.

    If no active fault is such a one, or no partition can be served without its nodes, nothing is added.
    """
    kept = next((name for name in draw.order("stays", list(outline.active)) if _leaves_a_majority(name, outline)), None)
    if kept is None:
        return
    away = outline.bearing.active[kept].brokers
    of = outline.scenario
    served = [topic.name for topic in of.topics if topic.name in of.fed and acknowledges(of, [topic], away)]
    if not served:
        return
    for name in draw.order("healing", [name for name in outline.active if name != kept]):
        outline.heal(name)
    on = [f"{name}/*" for name in served]
    outline.add(Step(do="wait_acks", name=f"r{number}_majority", args={"records": ACKS_AFTER, "on": on}))


def _leaves_a_majority(name: str, outline: _Outline) -> bool:
    """Whether the other nodes must serve while this fault lasts. Clients reach them: it breaks no link of a client."""
    kind, taken = outline.earlier[name], outline.bearing.active[name]
    shape = outline.scenario.shape
    minority = taken.brokers <= (shape.brokers - 1) // 2 and taken.controllers <= (shape.controllers - 1) // 2
    lasting = {fact.kind for fact in kind.declared()} <= _LEFT_BROKEN
    return lasting and minority and not (taken.alone or taken.copies or OF_CLIENTS in kind.breaks())


def _second(draw: Draw, number: int, outline: _Outline, profile: Profile, *, await_effect: bool) -> Step | None:
    """Adds what happens while the first fault is active, or after the first operation."""
    proven = [name for name in outline.active if not _proven_late(outline.earlier[name])]
    kept = len(outline.steps)
    if await_effect and proven:
        outline.add(Step(do="wait_effect", name=f"r{number}_effect", args={"fault": proven[0]}))
    elif outline.active:
        _pause(draw, f"r{number}_pause", outline)
    second = _happening(draw.within("second"), f"r{number}_second", outline, profile)
    if second is None:  # nothing fits: the wait for it goes, too
        for step in outline.steps[kept:]:
            del outline.earlier[step.name]
        del outline.steps[kept:]
    return second


def _proven_late(kind: Kind) -> bool:
    """Whether a fault shows its effect only after it is healed: those of all brokers do, too."""
    return isinstance(kind, Fault) and (kind.proven_late or kind.victims() == "brokers")


def _pause(draw: Draw, name: str, outline: _Outline) -> None:
    outline.add(Step(do="hold", name=name, args={"seconds": draw.one(name, PAUSES_S)}))


def _happening(draw: Draw, name: str, outline: _Outline, profile: Profile) -> Step | None:
    """Adds the first drawn fault or operation that fits; None if none does."""
    kinds = draw.order("kind", usable(profile), weight=lambda kind: _lots(kind, profile), key=lambda kind: kind.do)
    broken = any(taken.brokers for taken in outline.bearing.active.values())
    around = Surroundings(outline.scenario, tuple(outline.active), broken)
    whole = not any(taken.anything for taken in outline.bearing.active.values())
    for kind in kinds:
        if kind.needs_every_node and not whole:
            continue  # `Bearing.refusal` would refuse each of its steps
        for step in _steps(draw, name, kind, around):
            if outline.fits(step):
                outline.add(step)
                return step
    return None


def _steps(draw: Draw, name: str, kind: type[Kind], around: Surroundings) -> Iterator[Step]:
    for number in range(TRIES):
        try:
            drawn = arguments(kind, draw.within(f"{kind.do} {number}"), around)
        except CannotDrawError:
            return
        yield Step(do=kind.do, name=name, args=drawn)


def usable(profile: Profile) -> tuple[type[Kind], ...]:
    """The faults and operations that generated scenarios may use, by the capabilities of a profile."""
    return tuple(kind for kind in _generated() if not kind.needs - profile.capabilities)


def _lots(kind: type[Kind], profile: Profile) -> int:
    return profile.kinds.get(kind.do, profile.folders.get(folder_of(kind), 1))


def _generated() -> tuple[type[Kind], ...]:
    """Faults and operations, those without an effect of their own included if they have values to draw."""
    return tuple(kind for kind in all_kinds() if (is_disturbance(kind) or kind.drawn) and not kind.by_hand)

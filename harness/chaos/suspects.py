"""The first guesses of a search: one fault or operation alone, on the topics of the findings.

Most defects need a single fault. So a guess costs one play where the halving of a whole plan takes several. A defect
that shows rarely gets more chances in one play: the steps of a guess several times.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise

from harness.chaos.plan import ACKS_AFTER
from harness.chaos.shrink import REFERENCES, Part, checked, of_topic, with_references, without
from harness.faults.steps.registry import Heal, build_step, is_disturbance, marked
from harness.faults.steps.step import Fault
from harness.model.scenario.scenario import Scenario, Step


def guesses(scenario: Scenario, topics: Collection[str], steps: Sequence[str]) -> list[Scenario]:
    """Smaller scenarios, the likeliest first: each fault or operation alone, then each with the one before it.

    topics: of the findings. steps: during which they were found, the most frequent first. A guess that is no legal
    scenario, or that is the whole one, is left out.
    """
    alone = _suspects(scenario, steps)
    order = [step.name for step in scenario.steps if step.name in alone]
    found: list[Scenario] = []
    for names in [*((name,) for name in alone), *pairwise(order)]:
        smaller = _only(scenario, names, topics)
        if smaller is not None and smaller not in found and smaller != scenario:
            found.append(smaller)
    return found


def repeated(scenario: Scenario, times: int) -> Scenario | None:
    """The scenario with its steps so many times, on a healed cluster each time; None if that is no legal scenario."""
    healed = {step.args.get("fault") for step in scenario.steps if step.do == Heal.do}
    left = [step.name for step in scenario.steps if _lasts(step) and step.name not in healed]
    heals = [Step(do=Heal.do, name=f"heal_{name}", args={"fault": name}) for name in reversed(left)]
    acks = Step(do="wait_acks", name="acks_again", args={"records": ACKS_AFTER})
    once = [*scenario.steps, *heals, Step(do="wait_healthy", name="healthy_again"), acks]
    more = [_numbered(step, {one.name for one in once}, number) for number in range(2, times + 1) for step in once]
    return checked(replace(scenario, steps=(*once, *more)))


def _lasts(step: Step) -> bool:
    """Whether it is a fault that something else has to heal."""
    kind = build_step(step)
    return isinstance(kind, Fault) and kind.for_s == 0


def _numbered(step: Step, names: Collection[str], number: int) -> Step:
    """A copy of a step under another name, which refers to the copies with this number."""
    words = {name: f"{name}_{number}" for name in names}
    same = {f"same({name})": f"same({copy})" for name, copy in words.items()}
    refers = {name for name, marker, _ in marked(build_step(step)) if marker in REFERENCES}
    args = {key: (words if key in refers else same).get(str(value), value) for key, value in step.args.items()}
    return replace(step, name=words[step.name], args=args)


def _suspects(scenario: Scenario, steps: Sequence[str]) -> list[str]:
    """The faults and operations: first those during which something was found, or after which."""
    order = [step.name for step in scenario.steps]
    disturbing = [step.name for step in scenario.steps if is_disturbance(build_step(step))]
    blamed: list[str] = []
    for name in steps:
        before = order[: order.index(name) + 1] if name in order else []
        blamed += [one for one in reversed(disturbing) if one in before][:1]
    return list(dict.fromkeys([*blamed, *disturbing]))


def _only(scenario: Scenario, names: Sequence[str], topics: Collection[str]) -> Scenario | None:
    """The scenario with these faults or operations, those that refer to them, and the waits while they are active."""
    order = [step.name for step in scenario.steps]
    disturbing = {step.name for step in scenario.steps if is_disturbance(build_step(step))}
    kept = frozenset[str]().union(*(with_references(name, scenario) for name in names))
    first, last = min(map(order.index, kept)), max(map(order.index, kept))
    others = frozenset[str]().union(*(with_references(name, scenario) for name in disturbing - set(names)))
    meanwhile = frozenset(order[first:last]) - others
    steps = Part("the other steps", steps=frozenset(order) - kept - meanwhile)
    dropped = [topic.name for topic in scenario.topics if topics and topic.name not in topics]
    smaller = without(scenario, [steps, *(of_topic(topic, scenario) for topic in dropped)])
    return smaller if smaller is not None else without(scenario, [steps])

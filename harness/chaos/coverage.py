"""Which pairs an episode covers: a fault or an operation with another one, or with a configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import combinations
from typing import Final

from harness.chaos.plan import Plan
from harness.model.scenario.scenario import ClusterShape, Scenario

Pair = tuple[str, str]
_USUAL: Final = ClusterShape()


def pairs_of(happenings: Iterable[Iterable[str]], scenario: Scenario) -> set[Pair]:
    """The pairs of an episode. The order of two happenings of one round counts."""
    found: set[Pair] = set()
    traits = list(traits_of(scenario))
    for each in map(list, happenings):
        found.update((first, f"then {second}") for first, second in combinations(each, 2))
        found.update((one, trait) for one in each for trait in traits)
    return found


def traits_of(scenario: Scenario) -> Iterator[str]:
    """The configuration of an episode as words."""
    shape = scenario.shape
    yield f"{shape.controllers} controllers"
    for name in ("log_dirs", "disk", "tier", "voters", "starts_on"):
        value = getattr(shape, name)
        if value != getattr(_USUAL, name):
            yield f"{name} {value}"
    for topic in scenario.topics:
        yield f"{topic.replicas} replicas"
        yield "compacted" if "compact" in topic.config.get("cleanup.policy", "") else "not compacted"
        if topic.config.get("unclean.leader.election.enable") == "true":
            yield "unclean elections"
        yield f"min.insync.replicas {topic.config.get('min.insync.replicas', '2')}"
    for producer in scenario.producers:
        yield "transactions" if producer.transactions else "idempotent" if producer.idempotent else "not idempotent"
        yield f"acks {producer.acks}"
        yield f"producer {producer.client}"
        if producer.processes:
            yield "a processor"
    for reader in scenario.readers:
        if reader.group:
            yield f"group {reader.protocol}"
    if scenario.admin:
        yield "admins"


def best_plan(plans: Iterable[Plan], covered: Collection[Pair], former: Collection[Pair] = ()) -> Plan:
    """The plan with the most pairs that no night covered yet; of equal ones, that with the most pairs that are new in
    this night; of these the first. covered: by this night. former: by former ones."""

    def new(plan: Plan) -> tuple[int, int, int]:
        fresh = pairs_of(plan.happenings, plan.scenario) - set(covered)
        return len(fresh - set(former)), len(fresh), -plan.variation

    return max(plans, key=new)


def table_of(covered: Counter[Pair], most: int) -> list[tuple[str, str, int]]:
    """The pairs with their counts, those that were met most often first."""
    ordered = sorted(covered.items(), key=lambda item: (-item[1], item[0]))
    return [(first, second, count) for (first, second), count in ordered[:most]]

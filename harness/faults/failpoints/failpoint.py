"""A failpoint: a node is killed, delayed or gets an error of its disk at a point in Kafka's own code.

The jars stay as they are. An agent in the node (Byteman, `agent = true` in [shape]) changes the method while the fault
is active. An environment can cause each action, too: a SIGKILL at that moment, a long pause of a thread, an IOException
of a file. So each promise stays as it is; but a finding needs a confirmation without the agent.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from harness.faults.disks.common import NO_EFFECT_DEADLINE_S, LogSince, ended_by_disk, only_node
from harness.faults.failpoints.acting import Acting
from harness.faults.failpoints.code_point import IO_EXCEPTION, CodePoint, Load, Role, Site
from harness.faults.failpoints.points import POINTS
from harness.faults.failpoints.rule import HALTED, Act, Rule
from harness.faults.nodes import process
from harness.faults.nodes.process import absence_proof, restart
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import Probe
from harness.faults.steps.step import EffectProof, Fault, Injection, NodesExpr, PartitionExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import BROKERS, StepValidation
from harness.faults.steps.targets import place_of
from harness.kafka.release.class_files import Method
from harness.model.errors import BadInput
from harness.model.facts import FactKind, Stop
from harness.model.hints import hint
from harness.model.scenario.scenario import Range, Scenario

DEADLINE_S: Final = 20.0
_DELAY_MAX_MS: Final = 30_000
_PASSAGES_MAX: Final = 1_000_000
_NUMBERS: Final = itertools.count(1)
_FACTS: Final[Mapping[Act, Declares]] = {
    "kill": (Declared(FactKind.STOPPED, how=Stop.KILLED),),
    "delay": (Declared(FactKind.FROZEN),),
    "io_error": (Declared(FactKind.DISK_FAILED), Declared(FactKind.STOPPED, how=Stop.CRASHED)),
}


@dataclass(frozen=True, kw_only=True)
class Failpoint(Fault):
    """`POINTS.md` has the names for `point`. `skip` passages are let through, and then it acts on `count` of them.

    `of`: only passages for this partition count, at a point that belongs to a log.
    """

    do: ClassVar[str] = "failpoint"
    facts: ClassVar[Declares] = (Declared(FactKind.STOPPED), Declared(FactKind.FROZEN), Declared(FactKind.DISK_FAILED))
    summary: ClassVar[str] = (
        "Kills or delays a node, or fails its disk (IOException), when it passes a point of Kafka's own code; "
        "healing removes the rule, and starts an ended node."
    )
    proof: ClassVar[str] = (
        "the agent reports that the rule acted; a killed node ended by it, and its absence shows as for `kill`; "
        "after an error of its disk, a broker ends as for `disk_full`"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"agent", "kill", "restart", "disk.read"})
    internal: ClassVar[bool] = True
    stops: ClassVar[bool] = True
    drawn: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "point": tuple(name for name, point in POINTS.items() if point.generated),
        "delay_ms": (50, 500, 3000),
        "skip": (0, 1),
        "count": (1, 10),
        "of": ("",),
    }
    node: NodesExpr
    action: Act = "kill"
    point: str
    delay_ms: Annotated[int, Range(1, _DELAY_MAX_MS)] = 500
    skip: Annotated[int, Range(0, _PASSAGES_MAX)] = 0
    count: Annotated[int, Range(1, _PASSAGES_MAX)] = 1
    of: PartitionExpr = ""

    def __post_init__(self) -> None:
        if self.point not in POINTS:
            raise BadInput(f"point: there is no {self.point!r}{hint(self.point, POINTS)}")
        if self.action == "io_error" and not self._point.io_error:
            able = ", ".join(name for name, point in POINTS.items() if point.io_error)
            raise BadInput(f"action: no error of a disk can show at {self.point!r}; name one of {able}")
        if self.of and not self._point.log:
            raise BadInput(f"of: {self.point!r} belongs to no log; leave `of` out")

    @classmethod
    def drawn_in(cls, scenario: Scenario, chosen: Mapping[str, object]) -> Mapping[str, tuple[object, ...]]:
        """The actions that the nodes can bear, as often each; and the points that these nodes pass under this load.

        A node that is named for its work gets the points of that work: few other nodes pass them.
        """
        node = str(chosen.get("node", ""))
        if not node:
            return cls.drawn
        reached = StepValidation(scenario, {}).reach(node)
        role = Role.BROKER if reached.role == BROKERS else Role.CONTROLLER
        acts: list[Act] = ["delay"]
        if reached.count == 1:
            acts.append("kill")
            if role is Role.BROKER and scenario.shape.log_dirs == 1:
                acts.append("io_error")
        disk = chosen.get("action") == "io_error"
        able = {n: p for n, p in POINTS.items() if p.generated and role in p.roles and (p.io_error or not disk)}
        work = tuple(name for name, point in able.items() if _is_work_of(point.load, node, scenario))
        others = tuple(name for name, point in able.items() if point.load is Load.ALWAYS)
        return {**cls.drawn, "action": tuple(acts), "point": work or others}

    @property
    def _point(self) -> CodePoint:
        return POINTS[self.point]

    def declared(self) -> Declares:
        return _FACTS[self.action]

    def keeps_stopped(self) -> bool:
        return self.action != "delay"

    def validate(self, plan: StepValidation) -> None:
        if not plan.scenario.shape.agent:
            raise BadInput("the nodes of this cluster load no agent; set agent = true in [shape]")
        if self._point.tier and not plan.scenario.shape.tier:
            raise BadInput(f"point: {self.point!r} needs a remote tier; set tier in [shape]")
        reached = plan.reach(self.node)
        role = Role.BROKER if reached.role == BROKERS else Role.CONTROLLER
        if role not in self._point.roles:
            raise BadInput(f"node: {self.node!r} names {role}, and {self.point!r} is passed by {self._point.roles[0]}")
        if self.of and not plan.may_hold(self.node, place_of(self.of)):
            raise BadInput(f"node: {self.node} has no replica of {self.of}; name a broker that has one")
        if self.action != "delay":
            self._validate_end(plan, reached.count)
        if self.action == "io_error":
            self._validate_disk(plan, role)

    def _validate_end(self, plan: StepValidation, count: int) -> None:
        if count > 1:
            raise BadInput(f"node: {self.action} ends one node, and {self.node!r} names {count}; name one")
        process.validate(plan, self.node)

    def _validate_disk(self, plan: StepValidation, role: Role) -> None:
        if role is not Role.BROKER:
            raise BadInput(f"action: io_error takes a broker, and {self.node!r} names {role}; name a broker")
        if plan.scenario.shape.log_dirs > 1:
            raise BadInput(
                "action: io_error takes a broker with one log directory, which ends then; remove log_dirs from [shape]"
            )

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        victims = context.nodes(self.node)
        if self.action != "delay":
            only_node(victims, (*context.cluster.brokers, *context.cluster.controllers), self.do)
        rules, unknown = self._rules(context, victims)
        acting = Acting(context, rules)
        probe = self._probe(context, acting, unknown)
        try:
            for node in rules:
                if self.action == "kill":
                    context.cluster.let_halt(node, HALTED)
                elif self.action == "io_error":
                    context.cluster.let_end(node)
            acting.install()
            yield Injection(
                resolved={"nodes": list(victims), "rules": {str(node): rule.text for node, rule in rules.items()}},
                probe=probe,
                nodes=victims,
                deadline_s=DEADLINE_S if rules else NO_EFFECT_DEADLINE_S,
                ended=acting.ended if self.action == "kill" else None,
            )
        finally:
            try:
                acting.uninstall()
            finally:  # a delay ends no node: one that is down is so by another fault
                restart(context, victims if self.action != "delay" else ())

    def _rules(self, context: StepContext, nodes: tuple[int, ...]) -> tuple[dict[int, Rule], str]:
        """The rule of each node, and why nodes have none: their release has no such method."""
        rules: dict[int, Rule] = {}
        unknown = ""
        for node in nodes:
            release = context.cluster.release_of(node)
            found = self._point.site_in(release)
            if found is None:
                unknown = f"Kafka {release.version} does not have the point {self.point!r}: {self._missing()}"
            elif self.action == "io_error" and IO_EXCEPTION not in found[1].declares:
                unknown = f"{found[1].name} of Kafka {release.version} declares no IOException, so none may be thrown"
            else:
                name = f"failpoint {next(_NUMBERS)} {self.point}"
                rules[node] = self._rule(name, *found)
        return rules, unknown

    def _missing(self) -> str:
        return f"it has no method {' nor '.join(site.text for site in self._point.sites)}"

    def _rule(self, name: str, site: Site, method: Method) -> Rule:
        return Rule(
            name=name,
            point=self._point,
            site=site,
            method=method,
            act=self.action,
            delay_ms=self.delay_ms,
            skip=self.skip,
            count=self.count,
            of=place_of(self.of) if self.of else None,
        )

    def _probe(self, context: StepContext, acting: Acting, unknown: str) -> Probe:
        """Proof: the rule acted; and where it ends a node, that has ended, and the cluster noticed its absence."""
        ended: Probe | None = None
        if self.action != "delay" and acting.rules:
            (node,) = acting.rules
            missed = absence_proof(context, (node,))
            if self.action == "kill":
                ended = acting.halted(node, missed)
            else:
                ended = ended_by_disk(context, node, LogSince(context.cluster.server_log(node)), missed)

        def asked() -> EffectProof:
            if not acting.rules:
                return EffectProof(False, unknown)
            times = acting.times()
            seen: dict[str, object] = {"acted": {str(node): n for node, n in times.items()}}
            if not any(times.values()):
                return EffectProof(False, self._not_passed(acting), seen)
            because = ", ".join(f"node {node} ({n} x)" for node, n in times.items() if n)
            because = f"{self.action} at {self.point!r}: {because}"
            if ended is None:
                return EffectProof(True, because, seen)
            effect = ended()
            return EffectProof(effect.held, f"{because}; {effect.because}", {**seen, **effect.seen})

        return asked

    def _not_passed(self, acting: Acting) -> str:
        nodes = ", ".join(map(str, acting.rules))
        often = f" more than {self.skip} times" if self.skip else ""
        where = f" for {self.of}" if self.of else ""
        needs = f"; {self._point.seldom}" if self._point.seldom else ""
        return f"node {nodes} did not pass {self.point!r}{where}{often}{needs}{acting.problems()}"


def _is_work_of(load: Load, node: str, scenario: Scenario) -> bool:
    """Whether the expression of a node says that it passes points with this load: it coordinates, or leads."""
    if load is Load.TRANSACTIONS:
        return node.startswith("txn_coordinator(")
    written = {topic for one in scenario.producers if one.transactions and one.when == "always" for topic in one.topics}
    topics = [topic for topic in scenario.topics if node.startswith(f"leader({topic.name}/")]
    if load is Load.MARKERS:
        return any(topic.name in written for topic in topics)
    if load is Load.COMPACTED:
        return any("compact" in topic.config.get("cleanup.policy", "") for topic in topics)
    return load is Load.TIERED and any(topic.config.get("remote.storage.enable") == "true" for topic in topics)

"""The rules that a failpoint has in nodes: installs and removes them, and counts how often each acted."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from harness.faults.disks.common import LogSince
from harness.faults.failpoints import agent_client
from harness.faults.failpoints.rule import HALTED, Rule
from harness.faults.steps.effect import Probe
from harness.faults.steps.step import EffectProof
from harness.faults.steps.step_context import StepContext
from harness.model.clock import now_ns
from harness.model.errors import HarnessFailure, HarnessTimeout
from harness.model.waiting import wait_for

# A JVM that was told to halt has ended after milliseconds; the supervisor looks ten times a second.
_END_S: Final = 10.0
_FAILED: Final = ("failed to compile", "threw ")
Times = tuple[int, int | None]


@dataclass(slots=True)
class Acting:
    """rules: by node. A rule that ends its node at once may leave the agent no time to answer."""

    context: StepContext
    rules: Mapping[int, Rule]
    _consoles: dict[int, LogSince] = field(init=False)
    _ran_ns: dict[int, int] = field(default_factory=dict)  # when a node was last seen running
    _ended: dict[int, Times] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._consoles = {node: LogSince(self.context.cluster.console_log(node)) for node in self.rules}

    def install(self) -> None:
        """Gives each node its rule. HarnessFailure or HarnessTimeout when an agent does not take it."""
        for node, rule in self.rules.items():
            self._ran_ns[node] = now_ns()
            try:
                agent_client.install(self._address(node), rule.name, rule.text)
            except (HarnessFailure, HarnessTimeout):
                if not self._has_ended(node):
                    raise

    def uninstall(self) -> None:
        """Removes the rules from all nodes that still run. Errors as `install`, after the last node."""
        errors = []
        for node, rule in self.rules.items():
            if self.context.cluster.running(node):
                try:
                    agent_client.uninstall(self._address(node), rule.name, rule.text)
                except (HarnessFailure, HarnessTimeout) as error:
                    errors += [] if self._has_ended(node) else [error]
            self._look(node)
        if errors:
            raise errors[0]

    def times(self) -> dict[int, int]:
        """How often the rule of each node acted."""
        for node in self.rules:
            self._look(node)
        return {node: self._acted(node) for node in self.rules}

    def ended(self) -> Mapping[int, Times]:
        """Between which two times each node ended by its rule."""
        return dict(self._ended)

    def halted(self, node: int, missed: Probe) -> Probe:
        """Proof: the node ended by its rule, and the cluster noticed its absence (`missed`)."""

        def asked() -> EffectProof:
            how = self.context.cluster.how_it_ended(node)
            if node not in self._ended:
                return EffectProof(False, f"node {node} {f'ended otherwise ({how})' if how else 'still runs'}")
            effect = missed()
            return EffectProof(effect.held, f"node {node} ended there; {effect.because}", effect.seen)

        return asked

    def problems(self) -> str:
        """Errors that agents report for rules that they could not inject, as the end of a sentence; empty if none."""
        for node in self.rules:
            with suppress(HarnessFailure, HarnessTimeout):
                text = agent_client.installed(self._address(node))
                if failed := [line for line in text.splitlines() if line.startswith(_FAILED)]:
                    return f"; the agent of node {node} could not inject the rule: {failed[0]}"
        return ""

    def _acted(self, node: int) -> int:
        console = self._consoles[node]
        console.says(self.rules[node].trace)  # reads the new lines
        return console.text.count(f"{self.rules[node].trace}\n")

    def _look(self, node: int) -> None:
        """Notes when a node was last seen running, or that it has ended by its rule."""
        looked_ns = now_ns()
        if self.context.cluster.running(node):
            if node not in self._ended:  # otherwise it was started again
                self._ran_ns[node] = looked_ns
        elif node not in self._ended and self.context.cluster.how_it_ended(node) == f"exit code {HALTED}":
            self._ended[node] = (self._ran_ns[node], now_ns())

    def _has_ended(self, node: int) -> bool:
        """Whether a node that does not answer has ended, or does so within moments."""
        with suppress(HarnessTimeout):
            return wait_for(
                lambda: not self.context.cluster.running(node),
                until=bool,
                deadline_s=_END_S,
                what=f"node {node} to end",
                interval_s=0.1,
            )
        return False

    def _address(self, node: int) -> tuple[str, int]:
        return self.context.cluster.agent_address(node)

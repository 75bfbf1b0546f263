"""Asks rules. A rule that raises is switched off, and the auditor goes on with the others."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from typing import Final, ParamSpec, TypeVar

from harness.audit.rules.rule import Suspicion

P = ParamSpec("P")
T = TypeVar("T")


class Guard:
    """`failed`: the rules that are off, and why. Each stays off until the auditor is started again: after a defect the
    rule's own state of the cluster is not to be trusted.

    report: gets the name and the reason of a rule when it is switched off.
    """

    def __init__(self, report: Callable[[str, str], None] = lambda _rule, _why: None) -> None:
        self.failed: Final[dict[str, str]] = {}
        self._report = report

    def suspicions(
        self, rule: str, ask: Callable[P, Iterable[Suspicion]], *args: P.args, **named: P.kwargs
    ) -> list[Suspicion]:
        """The answer of a rule. What it gave before it raised counts."""
        found: list[Suspicion] = []
        if rule in self.failed:
            return found
        try:
            for suspicion in ask(*args, **named):
                found.append(suspicion)
        except Exception as defect:
            self._switch_off(rule, defect)
        return found

    def answer(self, rule: str, otherwise: T, ask: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """The answer of a rule, or another one if it is off or raises."""
        if rule in self.failed:
            return otherwise
        try:
            return ask(*args, **named)
        except Exception as defect:
            self._switch_off(rule, defect)
            return otherwise

    def _switch_off(self, rule: str, defect: Exception) -> None:
        at = traceback.extract_tb(defect.__traceback__)[-1]
        self.failed[rule] = f"{type(defect).__name__} at {at.name}:{at.lineno}: {defect}"
        self._report(rule, self.failed[rule])

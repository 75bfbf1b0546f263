"""Finds all checks: each module or package of harness/verify/checks with a `CHECK`. There is no list to keep."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import ModuleType

from pyspark.sql import DataFrame

from harness.model.verdict import Doubt
from harness.verify import checks
from harness.verify.engine.case import Case
from harness.verify.engine.inputs import Inputs
from harness.verify.excuses.clauses import Clause
from harness.verify.promise import Check, Query, declare, parameters
from harness.verify.promise import declared as declared

log = logging.getLogger(__name__)
Ask = Callable[[Inputs], DataFrame]


def queries() -> dict[str, Ask]:
    """Every query by its name, as a function of the inputs."""
    return {name: partial(_ask, query) for check in declared().values() for name, query in check.queries.items()}


def _ask(query: Query, inputs: Inputs) -> DataFrame:
    return query(*(getattr(inputs, part) for part in parameters(query)))


def clauses_of_checks(cases: Sequence[Case], failed: dict[str, str]) -> list[Clause]:
    """The clauses of excuses that checks declare. None of a check that fails, which is noted in `failed`."""
    found: list[Clause] = []
    for name, check in declared().items():
        try:
            own = [clause for n, case in enumerate(cases) for clause in check.excuses(n, case)]
            if not all(isinstance(clause, Clause) for clause in own):
                raise TypeError("its excuses are not rows that `clauses` makes")
            if foreign := sorted({clause.kind for clause in own} - {*map(str, check.reports)}):
                raise ValueError(f"it excuses findings of the kind {foreign[0]}, which it does not report")
            found += own
        except Exception as error:  # the findings of all checks are still valid without these excuses
            log.exception("the excuses of the check %s failed", name)
            failed[name] = in_one_line(error)
    return found


def doubts_of_checks(cases: Sequence[Case], failed: dict[str, str]) -> list[list[Doubt]]:
    """The doubts that checks declare, for each case. A check that fails is noted in `failed`."""
    found: list[list[Doubt]] = [[] for _ in cases]
    for name, check in declared().items():
        try:
            own = [[Doubt(doubt.name, doubt.text) for doubt in check.doubts(case)] for case in cases]
        except Exception as error:  # the other checks are still valid
            log.exception("the doubts of the check %s failed", name)
            failed[name] = in_one_line(error)
            continue
        for of_case, doubts in zip(found, own, strict=True):
            of_case += doubts
    return found


def in_one_line(error: Exception) -> str:
    """An exception as one line. The first line of a Java exception names only our call; the last cause is the useful
    one."""
    said = str(error).splitlines() or [""]
    causes = [line.removeprefix("Caused by").lstrip(": ") for line in said if line.startswith((": ", "Caused by: "))]
    return f"{type(error).__name__}: {causes[-1] if causes else said[0]}"[:300]


def check_in(module: ModuleType) -> Check | None:
    """The check that a module declares; None for a module that only helps others."""
    found = vars(module).get("CHECK")
    return found if isinstance(found, Check) else None


def _discover() -> Iterator[tuple[str, Check]]:
    for found in pkgutil.iter_modules(checks.__path__):
        if check := check_in(importlib.import_module(f"{checks.__name__}.{found.name}")):
            yield found.name, check


for _name, _check in _discover():
    declare(_name, _check)

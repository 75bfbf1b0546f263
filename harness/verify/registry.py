"""Finds all checks and excuses: there is no list to keep.

A check is a module or package of harness/verify/checks with a `CHECK`. Excuses that several promises share are those in
the `EXCUSES` of a module or package of harness/verify/excuses.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from types import ModuleType
from typing import TypeVar

from pyspark.sql import DataFrame

from harness.verify import checks
from harness.verify import excuses as excuse_modules
from harness.verify.addition import Added
from harness.verify.engine.case import Case
from harness.verify.engine.inputs import Inputs
from harness.verify.engine.kept import is_empty
from harness.verify.engine.known import Known
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.prepared import Prepared
from harness.verify.excuse import Excuse
from harness.verify.excuses.clauses import Clause
from harness.verify.promise import Check, Query, declare, excuses, parameters, share
from harness.verify.promise import declared as declared

log = logging.getLogger(__name__)
_Read = TypeVar("_Read")
Ask = Callable[[Inputs], DataFrame | None]


def queries() -> dict[str, Ask]:
    """Every query by its name, as a function of the inputs. None: it finds nothing in this evidence."""
    return {
        name: partial(_ask_where_rows_are, query, check.nothing_without.get(name))
        for check in declared().values()
        for name, query in check.queries.items()
    }


def _ask_where_rows_are(query: Query, rows: str | None, inputs: Inputs) -> DataFrame | None:
    if rows is not None and is_empty(attrgetter(rows if "." in rows else f"given.{rows}")(inputs)):
        return None
    return _ask(query, inputs)


def on_driver() -> list[OnDriver[object]]:
    """The rows that checks need on the driver."""
    return [rows for check in declared().values() for rows in check.on_driver]


def read_on_driver(rows: OnDriver[object], inputs: Inputs) -> Sequence[object]:
    """The rows of each bundle."""
    return _ask(rows.read, inputs)


def _ask(reader: Callable[..., _Read], inputs: Inputs) -> _Read:
    return reader(*(getattr(inputs, part) for part in parameters(reader)))


def clauses_of_excuses(given: Prepared, failed: dict[str, str]) -> list[Clause]:
    """The clauses of all excuses. None of an excuse that fails, which is noted in `failed`."""

    def asked(excuse: Excuse) -> Iterator[Clause]:
        for number, case in enumerate(given.cases):
            yield from excuse.clauses(number, case)
        yield from excuse.by_tables(given)

    return _named_clauses(asked, failed)


def late_clauses(cases: Sequence[Case], failed: dict[str, str]) -> list[Clause]:
    """Their clauses for acknowledgements after an election."""

    def asked(excuse: Excuse) -> Iterator[Clause]:
        for number, case in enumerate(cases):
            yield from excuse.late(number, case)

    return _named_clauses(asked, failed)


def _named_clauses(ask: Callable[[Excuse], Iterable[Clause]], failed: dict[str, str]) -> list[Clause]:
    found: list[Clause] = []
    for check, excuse in excuses():
        try:
            own = list(ask(excuse))
            if not all(isinstance(clause, Clause) for clause in own):
                raise TypeError("its clauses are not those that `clauses` makes")
            if foreign := sorted({clause.kind for clause in own} - {*map(str, excuse.kinds)}):
                raise ValueError(f"it excuses findings of the kind {foreign[0]}, which it does not declare")
            found += [clause._replace(excuse=excuse.name) for clause in own]
        except Exception as error:  # the findings of all checks are still valid without these excuses
            log.exception("the excuse %s failed", excuse.name)
            failed[check or excuse.name] = in_one_line(error)
    return found


def additions(known: Known, failed: dict[str, str]) -> list[Added]:
    """The additions of every check to the verdict on a case. A check that fails is noted in `failed`."""
    found: list[Added] = []
    for name, check in declared().items():
        try:
            what = check.adds(known)
            if foreign := [one.kind for one in what.findings if one.kind not in check.reports]:
                raise ValueError(f"it adds findings of the kind {foreign[0]}, which it does not declare")
            found.append(Added(name, check.order, what))
        except Exception as error:  # the other checks are still valid
            log.exception("the additions of the check %s could not be computed", name)
            failed[name] = in_one_line(error)
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


def excuses_in(module: ModuleType) -> tuple[Excuse, ...]:
    """The excuses that a module declares; none for a module that only helps others."""
    found = vars(module).get("EXCUSES", ())
    return tuple(excuse for excuse in found if isinstance(excuse, Excuse))


def _discover() -> None:
    for name in _modules_of(excuse_modules):
        share(excuses_in(importlib.import_module(f"{excuse_modules.__name__}.{name}")))
    for name in _modules_of(checks):
        if check := check_in(importlib.import_module(f"{checks.__name__}.{name}")):
            declare(name, check)


def _modules_of(package: ModuleType) -> list[str]:
    return [found.name for found in pkgutil.iter_modules(package.__path__)]


_discover()

"""The rules and the budget of one auditor: from the file of --rules, which may also have a budget, and from --budget.

budget = "cpu=2%,mem=48MiB"     # in front of the tables of rules; it counts more than --budget
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.audit.rules.rule import Rule
from harness.audit.rules.rules_file import rules_from
from harness.audit.service.budget_option import BudgetOption, budget_of
from harness.model.errors import BadInput
from harness.model.user_files import read_text

_BUDGET: Final = "budget"


@dataclass(frozen=True, slots=True)
class Configured:
    """The rules that are on, by name, and the budget."""

    rules: Mapping[str, Rule]
    budget: BudgetOption


def configured(file: Path | None, budget: str | None) -> Configured:
    """BadInput, in one sentence, if the file or the budget cannot be used."""
    rules = rules_from(file, (_BUDGET,))
    if file is None:
        return Configured(rules, budget_of(budget))
    given = tomllib.loads(read_text(file)).get(_BUDGET)
    if given is None:
        return Configured(rules, budget_of(budget))
    if not isinstance(given, str):
        raise BadInput(f'rules {file}: {_BUDGET} is {given!r}; write it as {_BUDGET} = "cpu=5%"')
    return Configured(rules, budget_of(given, f"rules {file}: {_BUDGET}"))

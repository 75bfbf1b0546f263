"""Renders harness/verify/checks/CATALOGUE.md: each check with its promise, findings and inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.verify.promise import Check, excuses
from harness.verify.registry import declared

_HEAD: Final = """\
# Checks

Written by `durability docs` from the `CHECK` of each module here; do not edit. `durability list checks` shows the kinds
of findings, and `durability list excuses` what permits some of them. A kind with a rank is reported for a record or
offset only if no kind with a lower rank is. A check without inputs reads documents of the bundle only; a check without
findings makes doubts.
"""
_COLUMNS: Final = "| check | promise | findings | excuses of its own | rank | inputs |\n|---|---|---|---|---|---|"


def render() -> str:
    """The whole catalogue as Markdown."""
    return f"{_HEAD}\n{table(declared())}\n"


def table(checks: Mapping[str, Check]) -> str:
    """One row for each check."""
    return "\n".join([_COLUMNS, *(_row(name, check) for name, check in sorted(checks.items()))])


def excuses_table() -> str:
    """One row for each excuse, for FORMAT.md."""
    rows = sorted(
        f"| {excuse.name} | {excuse.permits} | {', '.join(map(str, excuse.kinds))} |" for _, excuse in excuses()
    )
    return "\n".join(["| excuse | what permits it | kinds of findings |", "|---|---|---|", *rows])


def _row(name: str, check: Check) -> str:
    kinds = ", ".join(f"`{kind}`" for kind in check.reports)
    ranks = ", ".join(str(how.rank) for how in check.kinds.values() if how.rank is not None)
    inputs = ", ".join(f"`{part}`" for part in check.inputs)
    own = ", ".join(f"`{excuse.name}`" for excuse in check.excuses)
    return f"| `{name}` | {check.promise} | {kinds} | {own} | {ranks} | {inputs} |"

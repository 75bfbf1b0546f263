"""Renders harness/audit/rules/CATALOGUE.md, the table of all rules, from what their classes declare."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.audit.rules.rule import Rule, rule_classes
from harness.model.severity import Severity

PATH: Final = Path(__file__).with_name("CATALOGUE.md")
_HEAD: Final = """\
# Rules of the auditor
`durability docs` writes this file from the classes in harness/audit/rules; edit those, not this file. `needs` is the
coverage without which a rule sees nothing or less. `--rules FILE` changes severities and limits, for all topics or for
some, and switches rules off:

```
[under_replicated]
severity = "notice"
allowed_s = 600

[[under_replicated.override]]
topics = ["orders*"]
allowed_s = 60
```

| severity | meaning |
| --- | --- |
| loss | committed records are lost, or no reader gets them |
| danger | records will be lost unless an operator acts, or at the next failure |
| notice | for information; nothing is lost by it |
"""
_COLUMNS: Final = ("rule", "meaning", "remedy", "needs", "limits", "source")


def render() -> str:
    """The text of CATALOGUE.md: a table for each severity, the worst first."""
    parts = [_HEAD]
    for severity in Severity:
        rules = [rule for rule in rule_classes().values() if rule.severity is severity]
        rows = [_COLUMNS, tuple("---" for _ in _COLUMNS), *map(_cells, rules)]
        table = "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)
        parts.append(f"\n## {severity.value}\n{table}")
    return "".join(parts)


def _cells(rule: type[Rule]) -> tuple[str, ...]:
    needs = ", ".join(sorted(rule.needs)) or "nothing"
    limits = "; ".join(f"`{name}` {value:g}: {value.meaning}" for name, value in rule.limits.items()) or "none"
    return f"`{rule.name}`", rule.explanation, rule.remedy, needs, limits, rule.source

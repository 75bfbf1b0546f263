"""The file of `--rules`: which rules are on, how severe they are, and their limits.

[under_replicated]
severity = "notice"             # "loss", "danger" or "notice", for all alarms of this rule
allowed_s = 600                 # a limit of the rule; CATALOGUE.md lists them

[topic_deleted]
enabled = false

[[log_start_moved.override]]    # the last one that matches the name of a topic counts
topics = ["orders*", "bills"]   # `*`, `?` and `[...]` as in a shell
severity = "loss"
keep_s = 3600
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from harness.audit.rules.rule import ForTopics, Rule, rule_classes
from harness.model.errors import BadInput
from harness.model.hints import hint, refuse_unknown
from harness.model.severity import Severity
from harness.model.user_files import read_toml

_ENABLED: Final = "enabled"
_SEVERITY: Final = "severity"
_OVERRIDE: Final = "override"
_TOPICS: Final = "topics"
_Table: TypeAlias = Mapping[str, object]


def rules_from(file: Path | None, other_keys: Collection[str] = ()) -> dict[str, Rule]:
    """The rules that are on, by name; without a file, all of them. BadInput, in one sentence, if anything is wrong.

    other_keys: of the file, which are about no rule.
    """
    if file is None:
        return {name: rule() for name, rule in rule_classes().items()}
    where = f"rules {file}"
    plain = read_toml(file, where)
    refuse_unknown(plain, [*rule_classes(), *other_keys], where, "rule")
    made = {name: _rule(kind, plain.get(name, {}), f"{where}: {name}") for name, kind in rule_classes().items()}
    return {name: rule for name, rule in made.items() if rule is not None}


@dataclass(frozen=True, slots=True)
class _Values:
    enabled: bool | None
    severity: Severity | None
    limits: Mapping[str, float]


def _rule(kind: type[Rule], table: object, where: str) -> Rule | None:
    """The rule; None if it is off."""
    given = _table(table, where)
    overrides = [
        _override(kind, entry, f"{where}: override {number}")
        for number, entry in enumerate(_list(given.get(_OVERRIDE, []), where), 1)
    ]
    values = _values(kind, {key: value for key, value in given.items() if key != _OVERRIDE}, where, _OVERRIDE)
    if values.enabled is False and kind.always:
        raise BadInput(f"{where}: it cannot be switched off, because it says what the auditor does not see")
    if values.enabled is False:
        if any(override.enabled for override in overrides):
            raise BadInput(f"{where}: it is off, and an override turns it on; leave enabled = false out")
        return None
    return kind(values.limits, values.severity, overrides)


def _override(kind: type[Rule], entry: object, where: str) -> ForTopics:
    table = _table(entry, where)
    topics = table.get(_TOPICS)
    if not isinstance(topics, list) or not topics or not all(isinstance(name, str) and name for name in topics):
        raise BadInput(f'{where}: {_TOPICS} is missing or no list of names; write {_TOPICS} = ["orders*"]')
    values = _values(kind, {key: value for key, value in table.items() if key != _TOPICS}, where, _TOPICS)
    return ForTopics(topics=tuple(topics), enabled=values.enabled, severity=values.severity, limits=values.limits)


def _values(kind: type[Rule], table: _Table, where: str, other: str) -> _Values:
    refuse_unknown(table, [_ENABLED, _SEVERITY, other, *kind.limits], where, "key")
    enabled = table.get(_ENABLED)
    if enabled is not None and not isinstance(enabled, bool):
        raise BadInput(f"{where}: {_ENABLED} is {enabled!r}; it must be true or false")
    severity = table.get(_SEVERITY)
    if severity is not None and severity not in [*Severity]:
        raise BadInput(
            f"{where}: unknown severity {severity!r}{hint(str(severity), [known.value for known in Severity])}"
        )
    limits = {key: _number(table[key], f"{where}: {key}") for key in kind.limits if key in table}
    return _Values(enabled, None if severity is None else Severity(str(severity)), limits)


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise BadInput(f"{where} is {value!r}; it must be a number of 0 or more")
    return float(value)


def _table(value: object, where: str) -> _Table:
    if not isinstance(value, dict):
        raise BadInput(f"{where}: it is not a table; write it as [name]")
    return value


def _list(value: object, where: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise BadInput(f"{where}: {_OVERRIDE} is not a list of tables; write each one as [[name.{_OVERRIDE}]]")
    return value

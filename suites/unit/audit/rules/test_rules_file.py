"""The file of --rules: what it changes, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.audit.rules.rule import Suspicion, rule_classes
from harness.audit.rules.rules_file import rules_from
from harness.model.errors import BadInput
from harness.model.severity import Severity


def suspicion(rule: str, topic: str, severity: Severity | None = None) -> Suspicion:
    return Suspicion(rule=rule, cause="c", what="w", at_ns=0, topic=topic, severity=severity)


def written(folder: Path, text: str) -> Path:
    file = folder / "rules.toml"
    file.write_text(text, encoding="utf-8")
    return file


EXAMPLE = """
[under_replicated]
severity = "notice"
allowed_s = 600

[topic_deleted]
enabled = false

[[log_start_moved.override]]
topics = ["orders*", "bills"]
severity = "loss"
keep_s = 3600

[[log_start_moved.override]]
topics = ["orders-test"]
enabled = false
"""


def test_a_file_changes_severities_limits_and_switches_rules_off(tmp_path: Path) -> None:
    rules = rules_from(written(tmp_path, EXAMPLE))
    assert rule_classes().keys() - rules.keys() == {"topic_deleted"}
    under = rules["under_replicated"]
    assert (under.limit_of("any", "allowed_s"), under.limit_of("any", "restart_s")) == (600, 900)
    rated = under.rated(suspicion("under_replicated", "any", Severity.DANGER))
    assert rated is not None
    assert rated.severity is Severity.NOTICE


def test_the_last_override_that_matches_a_topic_counts(tmp_path: Path) -> None:
    rule = rules_from(written(tmp_path, EXAMPLE))["log_start_moved"]
    kept = {topic: rule.limit_of(topic, "keep_s") for topic in ("orders", "orders-1", "bills", "bill", "other")}
    assert kept == {"orders": 3600, "orders-1": 3600, "bills": 3600, "bill": 86_400, "other": 86_400}
    severities = {}
    for topic in ("orders", "orders-test", "other"):
        rated = rule.rated(suspicion("log_start_moved", topic, Severity.DANGER))
        severities[topic] = None if rated is None else rated.severity
    assert severities == {"orders": Severity.LOSS, "orders-test": None, "other": Severity.DANGER}


def test_without_a_file_every_rule_is_on_with_its_own_severity() -> None:
    rules = rules_from(None)
    assert rules.keys() == rule_classes().keys()
    for name, rule in rules.items():
        rated = rule.rated(suspicion(name, "any"))
        assert rated is not None
        assert rated.severity is rule.severity


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    assert rules_from(written(tmp_path, "")).keys() == rule_classes().keys()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[under_replicate]", "unknown rule 'under_replicate'; did you mean 'under_replicated'?"),
        ("[no_leader]\nallowed = 3", "no_leader: unknown key 'allowed'; did you mean 'allowed_s'?"),
        ("[no_leader]\nallowed_s = -1", "no_leader: allowed_s is -1; it must be a number of 0 or more"),
        ("[no_leader]\nallowed_s = true", "no_leader: allowed_s is True; it must be a number of 0 or more"),
        ("[no_leader]\nallowed_s = nan", "no_leader: allowed_s is nan; it must be a number of 0 or more"),
        ('[no_leader]\nallowed_s = "3"', "no_leader: allowed_s is '3'; it must be a number of 0 or more"),
        ('[no_leader]\nseverity = "dangr"', "no_leader: unknown severity 'dangr'; did you mean 'danger'?"),
        ("[no_leader]\nseverity = 3", "no_leader: unknown severity 3; known are danger, loss, notice"),
        ("[no_leader]\nenabled = 1", "no_leader: enabled is 1; it must be true or false"),
        ("no_leader = 3", "no_leader: it is not a table; write it as [name]"),
        ("[blind]\nenabled = false", "blind: it cannot be switched off, because it says what the auditor does not see"),
        (
            "[no_leader.override]\nallowed_s = 3",
            "no_leader: override is not a list of tables; write each one as [[name.override]]",
        ),
        (
            "[[no_leader.override]]\nallowed_s = 3",
            'no_leader: override 1: topics is missing or no list of names; write topics = ["orders*"]',
        ),
        (
            '[[no_leader.override]]\ntopics = ["a"]\nkeep_s = 3',
            "no_leader: override 1: unknown key 'keep_s'; known are allowed_s, enabled, restart_s, severity, topics",
        ),
        (
            '[no_leader]\nenabled = false\n[[no_leader.override]]\ntopics = ["a"]\nenabled = true',
            "no_leader: it is off, and an override turns it on; leave enabled = false out",
        ),
        ("[no_leader", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(BadInput) as refused:
        rules_from(file)
    assert str(refused.value).startswith(f"rules {file}: {says}")
    assert "\n" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"cannot be read .*; give a TOML file"):
        rules_from(tmp_path / "none.toml")
    with pytest.raises(BadInput, match="it is a folder"):
        rules_from(tmp_path)

"""Declarations of rules, and the table of them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from harness.audit.rules import catalogue
from harness.audit.rules.rule import Rule, rule_classes

COVERAGE = {"metadata", "offsets", "replicas", "tier", "objects", "groups", "transactions", "logs", "settings"}
UNITS = ("_s", "_h", "_ms", "_bytes")
HEAVY = {"pyarrow", "numpy", "confluent_kafka", "click", "pydantic", "msgspec", "kafka", "pyspark", "jinja2", "rich"}


def test_the_catalogue_is_up_to_date() -> None:
    assert catalogue.PATH.read_text(encoding="utf-8") == catalogue.render(), "run `durability docs`"


@pytest.mark.parametrize("rule", rule_classes().values(), ids=lambda rule: rule.name)
def test_a_rule_declares_what_it_means_and_needs(rule: type[Rule]) -> None:
    for text in (rule.explanation, rule.remedy):
        assert text.endswith(".")
        assert "\n" not in text
    assert rule.source
    assert rule.needs <= COVERAGE
    assert all(name.endswith(UNITS) and limit.meaning for name, limit in rule.limits.items())
    assert rule.name in catalogue.render()


def test_rules_need_no_heavy_module() -> None:
    """The auditor may take 64 MiB in all."""
    code = (
        "import json, re, sys\n"
        "from harness.audit.rules.rules_file import rules_from\n"
        "rules_from(None)\n"
        "print(json.dumps([sorted({name.split('.')[0] for name in sys.modules}),"
        " int(re.search('VmRSS:\\\\s*(\\\\d+)', open('/proc/self/status').read())[1])]))\n"
    )
    modules, resident_kib = json.loads(subprocess.check_output([sys.executable, "-c", code], text=True))
    assert HEAVY & set(modules) == set()
    assert resident_kib < 40 << 10

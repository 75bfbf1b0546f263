"""The text of a rule: what it asks in which order, and how it acts."""

from __future__ import annotations

from typing import Any

import pytest

from harness.faults.failpoints.code_point import CodePoint, Site, Where
from harness.faults.failpoints.rule import Rule
from harness.kafka.release.class_files import Method

SITE = Site("a.Log", "roll")
METHOD = Method("roll", ("java.util.Optional", "long[]"), ())
POINT = CodePoint(text="", sites=(SITE,), log="$0.dir()", where=Where.EXIT)
OF_CHECKPOINT = CodePoint(text="", sites=(SITE,), only='$0.path.endsWith("x")')


def rule(act: Any = "kill", point: CodePoint = POINT, **more: Any) -> Rule:
    return Rule(name="failpoint 7 roll", point=point, site=SITE, method=METHOD, act=act, **more)


def test_a_rule_that_kills() -> None:
    assert rule(skip=4).text.splitlines() == [
        "RULE failpoint 7 roll",
        "CLASS a.Log",
        "METHOD roll(java.util.Optional, long[])",
        "AT EXIT",
        'IF (NOT $0.dir().startsWith("__cluster_metadata-")) AND incrementCounter("failpoint 7 roll") > 4 '
        'AND incrementCounter("failpoint 7 roll acted") <= 1',
        'DO traceln("failpoint 7 roll acts: kill"); killJVM(97)',
        "ENDRULE",
    ]


@pytest.mark.parametrize(
    ("one", "condition"),
    [
        (rule(of=("plain", 3)), 'IF $0.dir().equals("plain-3") AND incrementCounter'),
        (rule(point=OF_CHECKPOINT), 'IF $0.path.endsWith("x") AND incrementCounter'),
    ],
)
def test_a_passage_that_does_not_fit_is_not_counted(one: Rule, condition: str) -> None:
    assert one.text.splitlines()[4].startswith(condition)


@pytest.mark.parametrize(
    ("act", "more", "action"),
    [
        ("delay", {"delay_ms": 20}, "delay(20)"),
        ("io_error", {}, 'throw new java.io.IOException("failpoint 7 roll: injected error of the disk")'),
    ],
)
def test_how_a_rule_acts(act: str, more: dict[str, Any], action: str) -> None:
    one = rule(act, count=9, **more)
    assert one.text.splitlines()[5] == f'DO traceln("{one.trace}"); {action}'
    assert 'acted") <= 9' in one.text

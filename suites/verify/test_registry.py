"""Checks register by existing: every module has a CHECK or only helps others, and every kind has one check."""

from __future__ import annotations

import pkgutil
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from harness.model.finding import Kind
from harness.verify import checks
from harness.verify.promise import Check, Introduced, declare, declared, withdraw
from harness.verify.registry import queries

# It makes doubts.
HELPERS = {"tls"}
BY_CONCLUDE = {"admin_operations", "recovery", "tier", "unavailable"}


def test_every_module_declares_a_check_or_is_a_known_helper() -> None:
    modules = {module.name for module in pkgutil.iter_modules(checks.__path__)}
    assert modules == {*declared()} | HELPERS
    assert {name for name, check in declared().items() if not check.queries} == BY_CONCLUDE
    assert len(queries()) == sum(len(check.queries) for check in declared().values())


def test_every_kind_is_introduced_by_one_check() -> None:
    introduced = Counter(kind for check in declared().values() for kind in check.kinds)
    assert introduced == Counter(Kind)
    ranks = [how.rank for check in declared().values() for how in check.kinds.values() if how.rank is not None]
    assert len({*ranks}) == len(ranks)


@pytest.mark.parametrize("name", [*declared()])
def test_a_promise_is_one_full_sentence(name: str) -> None:
    check = declared()[name]
    assert check.promise[0].isupper()
    assert check.promise.endswith(".")
    assert ". " not in check.promise
    said = [how.promise for how in check.kinds.values() if isinstance(how.promise, str)]
    assert all(not text.endswith(".") for text in [*said, check.breaks])


MINE = Check(promise="A record is blue.", queries={"blue": lambda given: given})


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("lost", {}, "there already is a check 'lost'"),
        ("blue", {"kinds": {Kind.LOST: Introduced(promise="x")}}, "already has the kind lost"),
        ("blue", {"seen": {(Kind.LOST, "passed"): "x"}}, "already has the sentence for"),
        ("blue", {"queries": {"lost": lambda given: given}}, "already has the query lost"),
        ("blue", {"queries": {"blue": lambda sky: sky}}, "query blue needs 'sky', which is no input"),
        ("blue", {"promise": ""}, "its promise is empty"),
    ],
)
def test_a_contradictory_declaration_is_refused(name: str, change: dict[str, Any], said: str) -> None:
    before = dict(declared())
    with pytest.raises(ValueError, match=said):
        declare(name, replace(MINE, **change))
    assert declared() == before


def test_a_check_can_be_withdrawn() -> None:
    declare("blue", MINE)
    assert queries().keys() >= {"blue"}
    withdraw("blue")
    assert "blue" not in queries()

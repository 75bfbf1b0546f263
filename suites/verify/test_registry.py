"""Checks register by existing: every module has a CHECK, and every kind has one check."""

from __future__ import annotations

import pkgutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.model.finding import Kind, OwnKind
from harness.verify import checks
from harness.verify.checks.lost import Lost
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.rows import Only, Reason
from harness.verify.excuse import Excuse
from harness.verify.promise import Check, Introduced, declare, declared, excuses, withdraw
from harness.verify.registry import queries
from suites.planted.table import PLANTS
from suites.unit.test_arrows import imported


def test_every_module_declares_a_check_that_can_find_something() -> None:
    assert [module.name for module in pkgutil.iter_modules(checks.__path__)] == [*declared()]
    assert all(check.can_find for check in declared().values())
    assert not MINE_ALONE.can_find
    assert len(queries()) == sum(len(check.queries) for check in declared().values())


@pytest.mark.parametrize("name", ["judge", "conclude", "doubts", "completeness", "excuse", "excusing", "engine/counts"])
def test_the_verdict_is_made_without_the_name_of_a_check(name: str) -> None:
    source = (Path(checks.__path__[0]).parent / f"{name}.py").read_text(encoding="utf-8")
    assert {one for one in imported(source) if one.startswith(f"{checks.__name__}.")} == set()


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


def test_an_excuse_says_what_permits_it_in_one_full_sentence() -> None:
    shared = [excuse for check, excuse in excuses() if not check]
    assert {excuse.name for excuse in shared} >= {"unclean_election", "power_lost", "compaction"}
    for _, excuse in excuses():
        assert excuse.permits[0].isupper(), excuse.name
        assert excuse.permits.endswith("."), excuse.name
        assert ". " not in excuse.permits, excuse.name


def test_an_excuse_of_one_check_stands_with_it() -> None:
    """An excuse for findings that one check introduces, and that nobody else makes, is in the package of that check."""
    of_kinds = {kind: name for name, check in declared().items() for kind in check.kinds}
    alone = {excuse.name for check, excuse in excuses() if not check and len({of_kinds[k] for k in excuse.kinds}) == 1}
    assert alone == {
        "lost_marker",
        "late_retries",
        "split_batches",
    }  # each belongs to another excuse of its module, for several kinds


def test_a_reason_is_a_documented_member_of_an_enum() -> None:
    for name, check in declared().items():
        reasons = {*(reason for _, reason in check.seen), *check.finer, *check.beside, *check.of_committed}
        reasons |= check.no_findings
        assert all(isinstance(reason, Reason) and reason.meaning.endswith(".") for reason in reasons), name


def test_no_two_reasons_have_the_same_word() -> None:
    """An excuse or a rank that names a reason would cover the findings of the other one, too."""
    assert words_twice(Reason) == []


def test_a_word_that_two_reasons_share_is_found() -> None:
    class Mine(Reason):
        PASSED = Lost.PASSED.value, "One more."
        OTHER = "other", "Another."

    assert words_twice(Mine, Lost) == [Lost.PASSED.value]


def words_twice(*enums: type[Reason]) -> list[str]:
    """The words of more than one reason of these enums and of those that extend them."""
    every = {*enums, *(one for enum in enums for one in enum.__subclasses__() if _of_tree(one))}
    words = Counter(reason.value for enum in every for reason in enum)
    return [word for word, times in words.items() if times > 1]


def _of_tree(enum: type[Reason]) -> bool:
    return enum.__module__.startswith("harness.verify.")


def test_each_plant_of_a_check_exists_and_belongs_to_no_other() -> None:
    named = Counter(name for check in declared().values() for name in check.planted)
    assert {name for name, times in named.items() if times > 1 or name not in PLANTS} == set()
    # Those of no check are about the run and its evidence.
    others = {name for name in PLANTS if name not in named and not name.removeprefix("near_").startswith("doubt_")}
    assert others == {"unchanged", "drain_emptied"}


def excuse(**change: Any) -> Excuse:
    parts = {"name": "sky", "permits": "The sky is blue.", "kinds": (Kind.PHANTOM,), "clauses": lambda number, case: ()}
    return Excuse(**{**parts, **change})


class Sky:
    """The enum is in here because the queries of this module must not know it."""

    class Hue(Reason):
        LIGHT = "light", "It is light."
        DARK = "dark", "It is dark."


def rows(name: str, read: Callable[..., Any] = lambda given: [0]) -> OnDriver[int]:
    return OnDriver(name=name, read=read, none=int)


BLUE: dict[str, Any] = {"seen": {(Kind.PHANTOM, Only.ONE): "it is blue"}}
MINE = Check(promise="A record is blue.", queries={"blue": lambda given: given})
MINE_ALONE = replace(MINE, queries={})


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("lost", {}, "there already is a check 'lost'"),
        ("blue", {"kinds": {Kind.LOST: Introduced(promise="x")}}, "already has the kind lost"),
        ("blue", {"seen": {(Kind.LOST, Lost.PASSED): "x"}}, "already has the sentence for"),
        ("blue", {"queries": {"lost": lambda given: given}}, "already has the query lost"),
        ("blue", {"queries": {"blue": lambda sky: sky}}, "query blue needs 'sky', which is no input"),
        ("blue", {"nothing_without": {"red": "probes"}}, "nothing_without names 'red', which is no query"),
        ("blue", {"nothing_without": {"blue": "sky"}}, "finds nothing without 'sky', which is no table"),
        ("blue", {"promise": ""}, "its promise is empty"),
        ("blue", {"on_driver": (rows("lost"),)}, "already has the query lost"),
        ("blue", {"on_driver": (rows("sky", lambda sky: sky),)}, "query sky needs 'sky', which is no input"),
        (
            "blue",
            {"kinds": {OwnKind("blue", "It is blue."): Introduced(promise="x")}},
            "the kind blue of the check blue has no sentence; write one in its `seen`",
        ),
        ("blue", {"finer": {Sky.Hue.DARK: 1}}, "the reason Hue.LIGHT of the check blue has no sentence"),
        (
            "blue",
            {"seen": {(Kind.PHANTOM, Sky.Hue.LIGHT): "it is light"}},
            "the reason Hue.DARK of the check blue has no sentence; write one in its `seen`, or name it in",
        ),
        ("blue", {"excuses": (excuse(),)}, "its excuse sky is for the kind phantom, which it does not report"),
        ("blue", {**BLUE, "excuses": (excuse(name="retries"),)}, "there already is an excuse 'retries'"),
        ("blue", {**BLUE, "excuses": (excuse(), excuse())}, "there already is an excuse 'sky'"),
        ("blue", {**BLUE, "excuses": (excuse(permits=""),)}, "does not say what permits it"),
        (
            "blue",
            {
                "seen": {(Kind.DUPLICATED, Lost.PASSED): "it is blue"},
                "excuses": (excuse(kinds=(Kind.DUPLICATED,), rows=lambda rows, given: rows),),
            },
            "the excuses sky and producer_expiry of one turn are for the same kind",
        ),
    ],
)
def test_a_contradictory_declaration_is_refused(name: str, change: dict[str, Any], said: str) -> None:
    before = dict(declared())
    with pytest.raises(ValueError, match=said):
        declare(name, replace(MINE, **change))
    assert declared() == before


def test_reasons_of_doubts_and_of_other_outcomes_need_no_sentence() -> None:
    said: dict[str, Any] = {"seen": {(Kind.PHANTOM, Sky.Hue.LIGHT): "it is light"}}
    declare("blue", replace(MINE, **said, no_findings=frozenset({Sky.Hue.DARK})))
    withdraw("blue")
    declare("blue", replace(MINE, **said, of_committed={Sky.Hue.DARK: Sky.Hue.LIGHT}))
    withdraw("blue")


def test_a_check_can_be_withdrawn() -> None:
    declare("blue", MINE)
    assert queries().keys() >= {"blue"}
    withdraw("blue")
    assert "blue" not in queries()

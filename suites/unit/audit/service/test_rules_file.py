"""The file of --rules: rules and a budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.audit.service.budget_option import BudgetOption
from harness.audit.service.rules_file import configured
from harness.model.errors import BadInput


def written(folder: Path, text: str) -> Path:
    (folder / "rules.toml").write_text(text)
    return folder / "rules.toml"


def test_without_a_file_every_rule_is_on_and_the_option_counts() -> None:
    found = configured(None, "cpu=1%")
    assert {"blind", "probe", "over_budget", "unclean_leader"} <= found.rules.keys()
    assert found.budget == BudgetOption(cpu=0.01)


def test_the_budget_of_the_file_counts_more_than_the_option(tmp_path: Path) -> None:
    file = written(tmp_path, 'budget = "cpu=2%"\n[blind]\nsilent_s = 9\n')
    found = configured(file, "cpu=1%")
    assert (found.budget.cpu, found.rules["blind"].limit["silent_s"]) == (0.02, 9)
    assert configured(written(tmp_path, "[blind]\nsilent_s = 9\n"), "cpu=1%").budget.cpu == 0.01


@pytest.mark.parametrize(
    ("text", "said"),
    [("budget = 5", "budget is 5; write it as budget"), ('budget = "cpu=x"', "'x' is no value of cpu"), ("b = 1", "b")],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadInput, match=r"rules\.toml") as refused:
        configured(written(tmp_path, text), None)
    assert said in str(refused.value)


def test_a_rule_takes_new_limits_and_keeps_its_state(tmp_path: Path) -> None:
    first = configured(None, None).rules["under_replicated"]
    file = written(tmp_path, '[under_replicated]\nallowed_s = 7\nseverity = "loss"\n')
    state = dict(vars(first))
    first.reconfigure(configured(file, None).rules["under_replicated"])
    assert first.limit_of("any", "allowed_s") == 7
    kept = {name: value for name, value in vars(first).items() if name not in ("limit", "_severity", "_overrides")}
    assert kept == {name: state[name] for name in kept}

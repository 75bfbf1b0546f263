"""The budget for waits begins with the first wait that ended in vain, and all later ones share it."""

from __future__ import annotations

from harness.model.wait_budget import WaitBudget


def test_waits_have_their_own_time_until_one_ended_in_vain() -> None:
    now_s = [0.0]
    budget = WaitBudget(100.0, lambda: now_s[0])
    now_s[0] = 500.0
    assert (budget.left_s(60.0, 5.0), budget.spent) == (60.0, False)
    budget.begin("the first")
    now_s[0] = 570.0
    budget.begin("the second")
    assert (budget.left_s(60.0, 5.0), budget.left_s(20.0, 5.0), budget.spent) == (30.0, 20.0, False)
    now_s[0] = 599.0
    assert budget.left_s(60.0, 5.0) == 5.0
    now_s[0] = 600.0
    assert (budget.left_s(60.0, 5.0), budget.left_s(2.0, 5.0), budget.spent) == (5.0, 2.0, True)
    assert budget.cause == "the first"

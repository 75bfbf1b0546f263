"""--budget: how it is read, and that looks wait for processor time, memory and bytes."""

from __future__ import annotations

import pytest

from harness.audit.service.budget import Budget
from harness.audit.service.budget_option import BudgetOption, budget_of
from harness.model.errors import BadInput

MIB = 1 << 20


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        (None, BudgetOption()),
        ("", BudgetOption()),
        ("cpu=2%", BudgetOption(cpu=0.02)),
        ("cpu=0.5%, mem=48MiB", BudgetOption(cpu=0.005, memory_bytes=48 * MIB)),
        ("bytes_s=1MiB", BudgetOption(bytes_s=MIB)),
        ("mem=1GiB,bytes_s=5000,cpu=150%", BudgetOption(1.5, 1024 * MIB, 5000)),
    ],
)
def test_a_budget_is_read(text: str | None, budget: BudgetOption) -> None:
    assert budget_of(text) == budget


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cpu", "'cpu' is none of cpu, mem, bytes_s"),
        ("disk=3", "'disk=3' is none of"),
        ("cpu=5", "'5' is no value of cpu"),
        ("cpu=0%", "'0%' is no value of cpu"),
        ("mem=64MB", "'64MB' is no value of mem"),
        ("mem=1MiB", "mem is too small; give 24 MiB or more"),
        ("cpu=1%,cpu=2%", "cpu is given twice"),
        ("bytes_s=-1", "'-1' is no value of bytes_s"),
    ],
)
def test_a_wrong_budget_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadInput, match="--budget") as refused:
        budget_of(text)
    assert said in str(refused.value)


def test_a_budget_as_text() -> None:
    assert str(BudgetOption(bytes_s=MIB)) == "5 % of a processor, 64 MiB of memory, 1 MiB a second of answers"


class Machine:
    """A machine with clocks that the test sets."""

    def __init__(self, option: BudgetOption) -> None:
        self.at_s = self.used_s = 0.0
        self.read = 0
        self.memory_bytes = 40 * MIB
        self.budget = Budget(
            option,
            lambda: self.read,
            now_s=lambda: self.at_s,
            used_s=lambda: self.used_s,
            memory=lambda: self.memory_bytes,
        )


def test_looks_wait_until_their_processor_time_is_earned() -> None:
    machine = Machine(BudgetOption(cpu=0.05))
    assert machine.budget.allows()
    machine.used_s = 0.1
    assert not machine.budget.allows()
    machine.at_s = 1.9
    assert not machine.budget.allows()
    machine.at_s = 2.1
    assert machine.budget.allows()


def test_a_changed_budget_counts_from_then_on() -> None:
    machine = Machine(BudgetOption(cpu=0.01))
    machine.used_s = 0.1
    assert not machine.budget.allows()
    machine.budget.change(BudgetOption(cpu=1.0))
    machine.at_s = 0.2
    assert machine.budget.allows()


def test_bytes_are_paid_for_by_time_without_looks() -> None:
    machine = Machine(BudgetOption(cpu=1.0, bytes_s=1000))
    assert machine.budget.allows()
    machine.read = 3000
    machine.at_s = 2.0
    assert not machine.budget.allows()
    machine.at_s = 3.5
    assert machine.budget.allows()


def test_over_its_memory_the_auditor_looks_rarely_and_never_stops_looking() -> None:
    machine = Machine(BudgetOption(cpu=1.0))
    machine.at_s = 10.0
    machine.memory_bytes = 65 * MIB
    assert machine.budget.allows()
    assert machine.budget.over_memory
    machine.at_s = 14.0
    assert not machine.budget.allows()
    machine.at_s = 15.5
    assert machine.budget.allows()
    machine.memory_bytes = 60 * MIB
    machine.at_s = 17.0
    assert machine.budget.allows()
    assert not machine.budget.over_memory

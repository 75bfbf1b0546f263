"""Processors (read-process-write applications): their rules in a scenario, their death in a step, and their lag."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, TopicPartition
from msgspec import convert, to_builtins

from harness import scenarios
from harness.faults.clients.processor_dies import ProcessorDies
from harness.faults.steps.registry import check_steps
from harness.model.contract.contract import contract_of
from harness.model.documents.contract import Contract
from harness.model.documents.steps import Event
from harness.model.errors import BadInput
from harness.model.scenario.toml import parse, patched
from harness.workload.consumers.processing import ProcessorDeath, application_lag
from harness.workload.consumers.processor import ProcessorLoop
from suites.steps_json import untimed

TEXT = """
title = "t"
property = "g"
steps = [
  { do = "processor_dies", group = "w", at = "produced", name = "dies" },
  { do = "heal", fault = "dies" },
]

[topics]
a = { partitions = 1 }
b = { partitions = 1 }

[producers]
p = { topics = ["a"] }
worker = { topics = ["b"], when = "input", processes = { reads = ["a"], group = "w" }, transactions = {} }

[readers]
r = { topics = ["a"], group = "g" }
"""


def test_the_contract_of_a_processor_is_what_the_scenario_declares() -> None:
    scenario = parse(TEXT, "s", check_steps)
    contract = contract_of(scenario)
    assert contract.processors["worker"].commits == "transaction"
    assert contract.processors["worker"].reads == ("a",)
    plain = to_builtins(contract)
    assert convert(plain, Contract).processors["worker"].group == "w"
    del plain["processors"]
    assert convert(plain, Contract).processors == {}
    assert scenario.groups == ("g", "w")


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        (' when = "input",', "", 'when = "input" and a table `processes` need each other'),
        (' processes = { reads = ["a"], group = "w" },', "", 'when = "input" and a table `processes` need each other'),
        (", transactions = {} }", " }", "a processor writes in transactions; add a table `transactions`"),
        ("transactions = {}", 'transactions = { offsets_of = "o" }', "leave out offsets_of and spans_rolls"),
        ('topics = ["b"]', 'topics = ["a", "b"]', "a processor writes to one topic"),
        ('reads = ["a"]', "reads = []", "reads is empty"),
        ('reads = ["a"]', 'reads = ["c"]', "reads: no topic 'c'"),
        ('reads = ["a"], group = "w"', 'reads = ["a"], group = "g"', "group = 'g' has other members"),
        (
            'group = "w" }',
            'group = "w", commits = "auto" }',
            "commits = 'auto'; it is one of transaction, after, before",
        ),
        ("b = { partitions = 1 }", 'b = { config = { "cleanup.policy" = "compact" } }', "b is compacted"),
        ('group = "w", at', 'group = "g", at', "g is no group of a processor; for a reader use reader_dies"),
        ('group = "w", at', 'group = "v", at', "no group of a reader 'v'"),
        ('at = "produced"', 'at = "made"', "unknown value 'made'"),
        ('at = "produced"', 'at = "commit", zombie = true', 'at "commit" the processor has no open transaction'),
    ],
)
def test_invalid_processors_are_refused(old: str, new: str, reported: str) -> None:
    assert old in TEXT
    with pytest.raises(BadInput) as refused:
        parse(TEXT.replace(old, new, 1), "s", check_steps)
    assert reported in str(refused.value)


OTHER = 'worker2 = { topics = ["b"], when = "input", processes = { reads = ["a"], group = "w" }, transactions = {} }'


def test_processors_with_the_same_plan_are_instances_of_one_application() -> None:
    parse(TEXT.replace("[readers]", f"{OTHER}\n\n[readers]"), "s", check_steps)
    for old, new in (('reads = ["a"]', 'reads = ["a", "c"]'), ('topics = ["b"]', 'topics = ["c"]')):
        text = TEXT.replace("[readers]", f"{OTHER.replace(old, new)}\n\n[readers]")
        with pytest.raises(BadInput, match="group = 'w' has other members"):
            parse(text.replace("[topics]", "[topics]\nc = { partitions = 1 }"), "s", check_steps)


class Instance:
    """An instance of an application, which has so much left."""

    name, failure, state = "w", None, "it works"

    def __init__(self, **left: int) -> None:
        self.left = left

    def lag(self, acked: Any) -> dict[str, int]:
        return self.left


def test_an_application_is_as_far_as_the_instance_that_got_furthest() -> None:
    instances = cast(Any, [Instance(a=7, b=2, c=4), Instance(a=3, b=9)])
    assert application_lag(instances, {}) == {"a": 3, "b": 2}


def test_a_negative_control_can_change_when_it_commits() -> None:
    control = patched(parse(TEXT, "s"), {"producers.worker.processes.commits": "after"})
    assert control.producers[1].processes is not None
    assert control.producers[1].processes.commits == "after"
    weak = scenarios.negative_control(scenarios.load("contract_processor_dies"))
    assert [p.processes.commits for p in weak.producers if p.processes] == ["before", "after", "before"]


class Load:
    """A load with one processor, which dies as given."""

    def __init__(self, **death: Any) -> None:
        self.reported = death
        self.death: ProcessorDeath | None = None

    def crash_processor(self, group: str, at: Any, records: int, *, zombie: bool) -> ProcessorDeath:
        assert (group, records) == ("w", 2)
        self.death = ProcessorDeath(at=at, records=records, zombie=zombie, **self.reported)
        return self.death


def effect_of(load: Load, **how: Any) -> tuple[bool, str, list[dict[str, Any]]]:
    events: list[Event] = []
    stage: Any = SimpleNamespace(load=load, record_event=events.append)
    with ProcessorDies(group="w", records=2, **how).active(stage) as injected:
        effect = injected.probe()
    assert load.death is not None
    assert load.death.called_off
    return effect.held, effect.because, untimed(events)


DIED: dict[str, Any] = {"between": {("a", 0): (5, 7)}}


def test_the_step_has_an_effect_when_the_processor_is_dead_and_records_its_batch() -> None:
    held, because, events = effect_of(Load(**DIED), at="offsets")
    assert (held, because) == (True, "the processor of w died while it worked on 2 records")
    assert events == [
        {
            "kind": "processor_died",
            "topic": "a",
            "partition": 0,
            "group": "w",
            "at": "offsets",
            "from_offset": 5,
            "before_offset": 7,
        }
    ]


@pytest.mark.parametrize(
    ("load", "held", "reported"),
    [
        (Load(held=1), False, "the processor of w received 1 of 2 records"),
        (Load(**DIED, unlogged=1), False, "the processor of w died before 1 of its outputs were in a log"),
        (Load(**DIED), False, "the zombie of w was not fenced: it got None"),
        (Load(**DIED, fenced=""), False, "the zombie of w was not fenced: it could commit"),
        (Load(**DIED, fenced="_TIMED_OUT"), False, "the zombie of w was not fenced: it got _TIMED_OUT"),
        (
            Load(**DIED, fenced="_FENCED"),
            True,
            "worked on 2 records, and its zombie was fenced (_FENCED)",
        ),
    ],
)
def test_the_step_has_an_effect_only_if_the_zombie_was_fenced(load: Load, held: bool, reported: str) -> None:
    found, because, events = effect_of(load, at="produced", zombie=True)
    assert found is held
    assert reported in because
    assert len(events) == ("between" in load.reported)


def test_the_lag_of_a_processor_counts_unfinished_offsets() -> None:
    loop: Any = object.__new__(ProcessorLoop)
    loop.plan = SimpleNamespace(reads=("a",), group="w")
    loop._done, loop._ends = {("a", 0): 5, ("a", 1): 3}, {("a", 1): 7}
    acked = {("a", 0): 6, ("a", 1): 6, ("a", 2): 0, ("b", 0): 9}
    assert loop.lag(acked) == {"a/0": 2, "a/2": 1}
    assert loop.lag({("a", 0): 4}) == {}


def test_a_processor_that_an_error_ends_has_closed_its_consumer() -> None:
    closed: list[str] = []

    def broken() -> None:
        raise RuntimeError("the client is unusable")

    loop: Any = object.__new__(ProcessorLoop)
    loop._consumer = SimpleNamespace(close=lambda: closed.append("closed"))
    loop._take_over = broken
    with pytest.raises(RuntimeError, match="unusable"):
        loop._run()
    assert closed == ["closed"]


class Assigned:
    """A consumer that got its partitions. committed: the offsets of the group, by place."""

    def __init__(self, committed: dict[tuple[str, int], int]) -> None:
        self.answers = committed
        self.begins: dict[tuple[str, int], int] = {}

    def committed(self, partitions: list[TopicPartition], timeout_s: float) -> list[TopicPartition]:
        assert timeout_s > 0
        return [TopicPartition(p.topic, p.partition, self.answers.get((p.topic, p.partition), -1)) for p in partitions]

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self.begins = {(p.topic, p.partition): p.offset for p in partitions}


def test_a_partition_that_was_added_is_read_from_its_start_and_a_lost_commit_is_none() -> None:
    loop = object.__new__(ProcessorLoop)
    loop._done = {("a", 0): 7, ("a", 1): 5}
    consumer = Assigned({("a", 0): 7, ("a", 2): 3})
    loop._begin(cast(Any, consumer), [TopicPartition("a", number) for number in range(4)])
    assert consumer.begins == {
        ("a", 0): OFFSET_INVALID,  # the client begins at the committed offset,
        ("a", 1): OFFSET_INVALID,  # or reports that there is none
        ("a", 2): OFFSET_INVALID,
        ("a", 3): OFFSET_BEGINNING,
    }

"""Settings that steps change during the run permit what they permit while in force, and nothing before or after."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Verdict
from harness.verify.engine.tables import UNBOUNDED
from harness.verify.excuses.config_history import PROPAGATION_NS, SettingPeriod, config_history
from harness.verify.excuses.retention import Size, limits_of
from suites.verify.edits import contract, cut, start_at, taken
from suites.verify.history import MS, START_NS, Built, History
from suites.verify.judging import HistoryBatch, case_of_history, reported

SECOND_NS = 1000 * MS
LONG = "............"  # longer than a new value may take to reach the brokers
Config = dict[str, Any]


def changed(built: Built, *steps: tuple[float, Config], declared: list[Config] | None = None) -> Built:
    """Steps that change topic settings at these seconds; the contract declares them, or the values in `declared`."""
    built.steps[0].update(ended_ns=START_NS, healed_ns=START_NS)
    for number, (at_s, config) in enumerate(steps):
        at_ns = START_NS + int(at_s * SECOND_NS)
        built.steps.append(
            {
                "name": f"set_{number}",
                "do": "alter_topic",
                "args": {"topic": "t", "config": config},
                "started_ns": at_ns,
                "ended_ns": at_ns + MS,
                "healed_ns": None,
                "is_fault": False,
                "effect": None,
                "events": [],
            }
        )
    configs = [config for _, config in steps] if declared is None else declared
    built.run["contract"]["changes"] = [
        {"step": f"set_{n}", "topic": "t", "config": config} for n, config in enumerate(configs)
    ]
    return built


def for_a_second(built: Built, key: str, value: Any, back: Any, **more: Any) -> Built:
    """A setting from second 3 on, and its first value again from second 4 on."""
    return changed(built, (3, {key: value}), (4, {key: back}), **more)


def log_start_seen(built: Built, at_s: float, start: int) -> Built:
    """A step saw the log start."""
    return built.event("log_start_seen", log_start=start, at_ns=START_NS + int(at_s * SECOND_NS))


def cut_until(built: Built, until_s: float) -> Built:
    """A fault is active until then: a broker cut off by it had not learned the new setting."""
    built.steps[0].update(ended_ns=START_NS, healed_ns=START_NS + int(until_s * SECOND_NS))
    return built


def elected(built: Built, at_s: float, log_end: int) -> Built:
    at_ns = START_NS + int(at_s * SECOND_NS)
    return built.event("leader_change", old_leader=1, new_leader=2, leader_epoch=1, clean=False, at_ns=at_ns)


class Change(TypedDict):
    key: str
    value: object
    back: object


MS_1: Change = {"key": "retention.ms", "value": 1000, "back": -1}
BYTES: Change = {"key": "retention.bytes", "value": 100, "back": -1}
POLICY: Change = {"key": "cleanup.policy", "value": "compact", "back": "delete"}
UNCLEAN: Change = {"key": "unclean.leader.election.enable", "value": True, "back": False}


def with_keys(built: Built) -> Built:
    for row in built.tables["ledger"]:
        row["key_hash"] = 5
    return built


def aborted_of_its_key(text: str) -> Built:
    """A follower lacks the second record, which is aborted, and no other record has its key."""
    built = with_keys(for_a_second(History(text).build(), **POLICY)).change("ledger", {"key_hash": 6}, seq=1)
    return built.drop("observations", replica=2, offset=1).drop("batches", broker=2, base_offset=1)


def overtaken(end: int) -> History:
    """A leader of a new epoch starts at `end`, where the older leader had continued."""
    history = History("AAA." + LONG + "|A")
    history.lineage[0][1] = [1, end]
    for offset in range(end, 3):
        history.logs[0][offset].stream = -1
    return history


# name -> (history, what condemns, number of records that are excused)
CASES: dict[str, tuple[Built, list[str], int]] = {
    "retention by time deleted an old record while it was short": (
        for_a_second(History("A" + LONG + "A").build(start_at(1)), **MS_1),
        [],
        0,
    ),
    "retention by time deleted a record sent long after": (
        for_a_second(History("A" + LONG + "A" + LONG + "A").build(start_at(2)), **MS_1),
        ["log_start 1"],
        0,
    ),
    "retention by time deleted a record before it was short": (
        log_start_seen(for_a_second(History("A" + LONG + "A").build(start_at(1)), **MS_1), 2, 1),
        ["log_start 1"],
        0,
    ),
    "retention by time deleted a record, and no declared step shortened it": (
        for_a_second(History("A" + LONG + "A").build(start_at(1)), **MS_1, declared=[]),
        ["log_start 1"],
        0,
    ),
    "retention by time deleted a record, and the declared step shortens it less": (
        for_a_second(
            History("A" + LONG + "A").build(start_at(1)),
            **MS_1,
            declared=[{"retention.ms": 10**9}, {"retention.ms": -1}],
        ),
        ["log_start 1"],
        0,
    ),
    "retention by time deleted a record on a broker that was cut off from the change": (
        cut_until(for_a_second(History("A" + LONG + "A" + LONG + "A").build(start_at(2)), **MS_1), 20),
        [],
        0,
    ),
    "retention by size deleted all but the required bytes": (
        for_a_second(History("AAA" + LONG + "AAA").build(start_at(2)), **BYTES),
        [],
        0,
    ),
    "retention by size deleted one record too many, and later records make up for it": (
        for_a_second(History("AAA" + LONG + "AAA").build(start_at(2)), "retention.bytes", 200, -1),
        ["log_start 1"],
        0,
    ),
    "retention by size deleted everything, and later records make up for it": (
        for_a_second(History("AAA" + LONG + "AAA").build(start_at(3)), **BYTES),
        ["log_start 3"],
        0,
    ),
    "retention by size deleted what a second, smaller limit permits": (
        changed(
            History("AAA" + LONG + "AAA").build(start_at(5)),
            (3, {"retention.bytes": 100}),
            (4, {"retention.bytes": -1}),
            (11, {"retention.bytes": 100}),
        ),
        [],
        0,
    ),
    "compaction removed a record that was superseded while it was permitted": (
        with_keys(for_a_second(History("A.A/" + LONG + "A").build(taken(0)), **POLICY)),
        [],
        1,
    ),
    "compaction removed a record that was superseded when it was over": (
        with_keys(for_a_second(History("A.A/" + LONG + "A").build(taken(1)), **POLICY)),
        ["lost 1"],
        0,
    ),
    "compaction removed an aborted record while it was permitted": (aborted_of_its_key(f"A[A]/{LONG}A"), [], 1),
    "compaction removed an aborted record that was sent when it was over": (
        aborted_of_its_key(f"A/{LONG}[A]/A"),
        ["replica_divergence 1"],
        0,
    ),
    "an unclean election while it was permitted": (
        elected(for_a_second(overtaken(1).build(), **UNCLEAN), 3.5, 1),
        [],
        2,
    ),
    "an unclean election when it was no longer permitted": (
        elected(for_a_second(overtaken(1).build(), **UNCLEAN), 12, 1),
        ["lost 2"],
        0,
    ),
    "an unclean election before it was permitted": (
        elected(for_a_second(overtaken(1).build(), **UNCLEAN), 2, 1),
        ["lost 2"],
        0,
    ),
    "a loss while min.insync.replicas was lower": (
        for_a_second(History("AAA").build(cut(2)), "min.insync.replicas", 1, 2),
        ["lost 1"],
        0,
    ),
}

BATCH = HistoryBatch(history for history, _, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_setting_excuses_what_happened_while_it_was_in_force(name: str, judged: dict[str, Verdict]) -> None:
    _, condemning, excused = CASES[name]
    assert reported(judged[name]) == condemning
    assert sum(f.count for f in judged[name].findings if not f.condemns) == excused


def test_a_finding_lists_all_values_of_the_setting(judged: dict[str, Verdict]) -> None:
    (finding,) = judged["a loss while min.insync.replicas was lower"].findings
    assert "min.insync.replicas=2, then 1, then 2" in finding.contract


def test_a_setting_ends_when_every_broker_has_the_next_one() -> None:
    case = case_of_history(for_a_second(History("AA").build(), **MS_1))
    first, second = (START_NS + at_s * SECOND_NS for at_s in (3, 4))
    assert config_history(case, "t", "retention.ms") == [
        SettingPeriod(None, 0, first + MS + PROPAGATION_NS),
        SettingPeriod("1000", first, second + MS + PROPAGATION_NS),
        SettingPeriod("-1", second, UNBOUNDED),
    ]
    assert config_history(case, "t", "retention.bytes") == [SettingPeriod(None, 0, UNBOUNDED)]


def test_a_failed_step_leaves_both_settings_possible() -> None:
    built = for_a_second(History("AA").build(), **MS_1)
    built.steps[-1]["error"] = "waited 20 s for new settings of t"
    *_, short, back = config_history(case_of_history(built), "t", "retention.ms")
    assert (short.until_ns, back.until_ns) == (UNBOUNDED, UNBOUNDED)


def test_limits_by_size_have_an_end() -> None:
    built = contract(for_a_second(History("AA").build(), **BYTES), retention_bytes=500)
    late_ns = START_NS + 60 * SECOND_NS
    until = [(START_NS + at_s * SECOND_NS + MS + PROPAGATION_NS) // MS for at_s in (3, 4)]
    assert limits_of(case_of_history(built), "t", late_ns).sizes == (Size(500, until[0]), Size(100, until[1]))
    assert limits_of(case_of_history(built), "t", START_NS + SECOND_NS).sizes == (Size(500, None),)

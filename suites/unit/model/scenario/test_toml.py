"""Scenario files: how they are read, what is refused with which hint, and how a negative control is applied."""

from __future__ import annotations

import pytest

from harness import scenarios
from harness.faults.steps.registry import check_steps
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Scenario, Step
from harness.model.scenario.toml import from_plain, negative_control, parse, patched, to_plain

SMALL = """
title = "t"
property = "g"
steps = [
  { do = "kill", node = "leader(plain/0)", name = "down" },
  { do = "wait_leader_changed", since = "down" },
  { do = "heal", fault = "down" },
]
[topics.plain]
config = { "min.insync.replicas" = 2 }
[producers.plain]
topics = ["plain"]
"""


def read(text: str) -> Scenario:
    return parse(text, "small", check_steps)


def refused(text: str) -> str:
    with pytest.raises(BadInput) as reported:
        read(text)
    assert "\n" not in str(reported.value)
    return str(reported.value)


def test_a_small_scenario_has_the_defaults() -> None:
    scenario = read(SMALL)
    assert scenario.name == "small"
    assert not scenario.gate
    assert scenario.shape.brokers == 3
    assert scenario.topics[0].config == {"min.insync.replicas": "2"}
    assert scenario.producers[0].acks == "all"
    assert scenario.steps[1] == Step(do="wait_leader_changed", name="wait_leader_changed", args={"since": "down"})


def test_kafka_keys_need_no_quotes_and_values_become_text() -> None:
    scenario = read(SMALL + "[topics.other.config]\nmin.insync.replicas = 1\nunclean.leader.election.enable = true\n")
    assert scenario.topics[1].config == {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}


def test_steps_without_a_name_are_named_after_their_kind_and_numbered() -> None:
    steps = 'steps = [{ do = "wait_healthy" }, { do = "hold", seconds = 1 }, { do = "wait_healthy" }]'
    scenario = read(f'title = "t"\nproperty = "g"\n{steps}\n' + SMALL[SMALL.index("[topics") :])
    assert [s.name for s in scenario.steps] == ["wait_healthy", "hold", "wait_healthy_2"]


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ('title = "t"', 'titel = "t"', "small: unknown key 'titel'; did you mean 'title'?"),
        ('property = "g"', "", "'property' is missing"),
        ('property = "g"', "property = 3", "property: 3 is not a text in quotes"),
        ('property = "g"', 'property = "g"\ngate = "yes"', "gate: 'yes' is not true or false"),
        ('property = "g"', 'property = "g"\nload_s = true', "load_s: true is not a number"),
        ('property = "g"', 'property = "g"\nname = "x"', "remove `name`"),
        ('do = "kill"', 'do = "kil"', "step down: no kind of step is called 'kil'; did you mean 'kill'?"),
        ('node = "leader(plain/0)"', 'nod = "leader(plain/0)"', "unknown key 'nod'; did you mean 'node'?"),
        ('node = "leader(plain/0)"', 'node = "leder(plain/0)"', "unknown target 'leder'; did you mean 'leader'?"),
        ('node = "leader(plain/0)"', 'node = "leader(plan/0)"', "no topic 'plan'; did you mean 'plain'?"),
        ('node = "leader(plain/0)"', 'node = "leader(plain/9)"', "plain has 3 partitions, counted from 0"),
        ('node = "leader(plain/0)"', 'node = "broker(4)"', "the brokers are 1 to 3"),
        ('node = "leader(plain/0)"', 'node = "leader(plain/0)", hard = 1', "unknown key 'hard'"),
        ('since = "down"', 'since = "dwon"', "no earlier step 'dwon'; did you mean 'down'?"),
        ('fault = "down"', 'fault = "up"', "no earlier step 'up' to heal"),
        ('fault = "down"', 'fault = "wait_leader_changed"', "'wait_leader_changed' is no fault"),
        ('node = "leader(plain/0)"', 'node = "brokers", for_s = 1', "'down' is already healed"),
        ('do = "heal", fault = "down"', 'do = "hold", seconds = "2"', "seconds: '2' is not a number"),
        ('topics = ["plain"]', 'topics = ["plane"]', "no topic 'plane'; did you mean 'plain'?"),
        ('topics = ["plain"]', 'topics = ["plain"]\nacks = "2"', "acks = '2'; it is one of all, 1, 0"),
        ('topics = ["plain"]', 'topics = ["plain"]\nacks = "1"', "set idempotent = false"),
        ('topics = ["plain"]', 'topics = ["plain"]\ncompression = "gzp"', "did you mean 'gzip'?"),
        ("[topics.plain]", "[topics.plain]\nreplicas = 4", "4 replicas on 3 brokers"),
        ("[topics.plain]", "[topics.plain]\nassignment = [[1, 2, 3]]", "assignment names 1 partitions of 3"),
        ("[topics.plain]", '[topics.plain]\nname = "x"', "remove `name`"),
        ("[topics.plain]", "[topics.Plain]\n[topics.plain]", "may only have a-z, 0-9 and _, and is 'Plain'"),
        ("[producers.plain]", "[producers.plain]\nvalue_byte = 1", "did you mean 'value_bytes'?"),
    ],
)
def test_a_word_without_a_meaning_is_refused_with_a_hint(old: str, new: str, reported: str) -> None:
    assert old in SMALL
    assert reported in refused(SMALL.replace(old, new, 1))


@pytest.mark.parametrize(
    "nodes", ["controllers = 0", "brokers = 0", "brokers = -1", "brokers = 51", "controllers = 51"]
)
def test_a_shape_without_addresses_is_refused(nodes: str) -> None:
    what, _, count = nodes.split()
    assert f"small: shape: {what} = {count}; a cluster has 1 to 50 {what}" in refused(f"{SMALL}[shape]\n{nodes}\n")


@pytest.mark.parametrize(
    ("config", "reported"),
    [
        ('"retention.ms" = "abc"', "retention.ms = 'abc'; give a whole number from -1"),
        ('"retention.ms" = 1.5', "retention.ms = '1.5'"),
        ('"retention.ms" = nan', "retention.ms = 'nan'"),
        ('"retention.ms" = -2', "retention.ms = '-2'"),
        ('"retention.bytes" = 99999999999999999999', "retention.bytes = '99999999999999999999'"),
        ('"segment.bytes" = "1g"', "segment.bytes = '1g'; give a whole number from 14 to 2147483647"),
        ('"segment.bytes" = ""', "segment.bytes = ''"),
        ('"segment.bytes" = "1_000_000"', "segment.bytes = '1_000_000'"),
        ('"min.insync.replicas" = "x"', "min.insync.replicas = 'x'"),
        ('"min.insync.replicas" = true', "min.insync.replicas = 'true'"),
        ('"min.insync.replicas" = 0', "min.insync.replicas = '0'"),
        ('"min.insync.replicas" = 4', "min.insync.replicas = 4 of 3"),
        ('"unclean.leader.election.enable" = "yes"', "it is one of true; false"),
        ('"cleanup.policy" = "compat"', "it is one of delete; compact"),
        ('"message.timestamp.type" = "LogAppend"', "it is one of CreateTime; LogAppendTime"),
    ],
)
@pytest.mark.parametrize("place", ["topics.plain", "shape"])
def test_settings_that_no_broker_would_take_are_refused(config: str, reported: str, place: str) -> None:
    text = SMALL.replace('config = { "min.insync.replicas" = 2 }', "") + f"[{place}.config]\n{config}\n"
    key = config.split('"')[1]
    assert f"small: {place}: config: {key} = " in refused(text)
    assert reported in refused(text)


def test_broker_settings_are_checked_under_their_own_names() -> None:
    reported = refused(f'{SMALL}[shape.config]\n"log.retention.ms" = "1h"\n')
    assert "small: shape: config: log.retention.ms = '1h'" in reported
    read(f'{SMALL}[shape.config]\n"log.cleanup.policy" = "compact, delete"\nlog.retention.ms = -1\n')


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ('property = "g"', 'property = "g"\nload_s = nan', "load_s = nan; give a number from 0 to 86400"),
        ('property = "g"', 'property = "g"\nload_s = inf', "load_s = inf"),
        ('property = "g"', f'property = "g"\nload_s = 1{"0" * 400}', "which is too large; give a smaller number"),
        ('property = "g"', f'property = "g"\nload_s = 1{"0" * 5000}', "not valid TOML"),
        ('property = "g"', 'property = "g"\nload_weight = -1', "load_weight = -1.0"),
        ("[topics.plain]", "[topics.plain]\npartitions = 0", "topics.plain: partitions = 0; give a number from 1"),
        ("[topics.plain]", "[topics.plain]\nreplicas = 0", "0 replicas on 3 brokers; use 1 to 3"),
        ("[topics.plain]", "[topics.plain]\npartitions = 1\nassignment = [[1, 1, 2, 3]]", "is not 3 of the brokers"),
        ('topics = ["plain"]', 'topics = ["plain"]\nvalue_bytes = -5', "producers.plain: value_bytes = -5"),
        ('topics = ["plain"]', 'topics = ["plain"]\nbootstrap = 4', "bootstrap = 4; the brokers are 1 to 3"),
        ('topics = ["plain"]', 'topics = ["plain"]\ntombstones = 0.1', "set keyed = true"),
        ('topics = ["plain"]', 'topics = ["plain"]\nkeyed = true\ntombstones = 0.6\nempty = 0.5', "together"),
        ('topics = ["plain"]', 'topics = ["plain"]\npartitioner = "murmur2"', "set keyed = true"),
        ('topics = ["plain"]', 'topics = ["plain"]\nkeyed = true\npartitioner = "murmur3"', "one of consistent"),
        ('topics = ["plain"]', 'topics = ["plain"]\nempty = 1.5', "producers.plain: empty = 1.5"),
        ('topics = ["plain"]', 'topics = ["plain"]\nsizes = [40, 0]', "sizes: a value of 0 bytes"),
        ('topics = ["plain"]', 'topics = ["plain"]\ntransactions = { abort_share = 2 }', "abort_share = 2.0"),
        ('since = "down" }', 'since = "down", name = 1 }', "number 2: name: 1 is not a text in quotes"),
        ('since = "down" }', 'since = "down", name = true }', "name: True is not"),
        ('since = "down" }', 'since = "down", name = ["x"] }', "name: ['x'] is not"),
        ('since = "down" }', 'since = "down", name = { a = 1 } }', "name: {'a': 1} is not"),
    ],
)
def test_values_that_no_run_could_use_are_refused(old: str, new: str, reported: str) -> None:
    assert old in SMALL
    assert reported in refused(SMALL.replace(old, new, 1))


def test_broken_toml_says_where() -> None:
    reported = refused("title = 1\n]\n")
    assert "not valid TOML" in reported
    assert "line 2" in reported


def test_a_wrong_regression_is_refused() -> None:
    def known(bad: str = '["3.8.0"]', fixed: str = '["3.9.0"]', expect: str = '["lost"]') -> str:
        return f'{SMALL}\n[regression]\nissue = "KAFKA-1"\nbad = {bad}\nfixed = {fixed}\nexpect = {expect}\n'

    assert read(known()).regression is not None
    assert "regression: bad is empty; name a release" in refused(known(bad="[]"))
    assert 'add the tag "known-bug"' in refused(known(fixed="[]"))
    assert "fixed: 'newest' is no version of Kafka; give one such as 3.9.0" in refused(known(fixed='["newest"]'))
    assert "regression: expect is empty" in refused(known(expect="[]"))
    assert "did you mean 'lost'?" in refused(known(expect='["lst"]'))


def test_two_steps_of_one_name_are_refused() -> None:
    twice = SMALL.replace('since = "down" }', 'since = "down", name = "down" }')
    assert "two steps have the name 'down'" in refused(twice)


def test_a_wrong_negative_control_is_refused() -> None:
    def with_patch(patch: str, expect: str = '["lost"]') -> str:
        return refused(f'{SMALL}\n[negative_control]\nwhat = "w"\nexpect = {expect}\npatch = {patch}\n')

    assert "no step 'dwn'; did you mean 'down'?" in with_patch('{ "steps.dwn.node" = "brokers" }')
    assert "did you mean 'producers'?" in with_patch('{ "producer.plain.acks" = "1" }')
    assert "unknown key 'ack'" in with_patch('{ "producers.plain.ack" = "1" }')
    assert "negative control changes nothing" in with_patch('{ "producers.plain.acks" = "all" }')
    assert "did you mean 'lost'?" in with_patch('{ "producers.plain.acks" = "all" }', '["lst"]')


@pytest.mark.parametrize(
    ("path", "value", "seen"),
    [
        ("producers.plain.keyed", True, lambda s: s.producers[0].keyed),
        ("topics.plain.config.min.insync.replicas", 1, lambda s: s.topics[0].config["min.insync.replicas"] == "1"),
        ("topics.plain.config.retention.ms", 5, lambda s: s.topics[0].config["retention.ms"] == "5"),
        ("shape.features.eligible.leader.replicas.version", 0, lambda s: list(s.shape.features.values()) == [0]),
        ("steps.down.node", "broker(1)", lambda s: s.steps[0].args["node"] == "broker(1)"),
        ("steps.+", [{"do": "wait_healthy"}], lambda s: s.steps[-1].do == "wait_healthy"),
        ("steps.+before.heal", [{"do": "hold", "seconds": 1}], lambda s: s.steps[2].do == "hold"),
        ("steps.-wait_leader_changed", True, lambda s: [x.do for x in s.steps] == ["kill", "heal"]),
        ("load_s", 9, lambda s: s.load_s == 9.0),
    ],
)
def test_paths_of_a_patch(path: str, value: object, seen: object) -> None:
    before = read(SMALL)
    after = patched(before, {path: value}, check_steps)
    assert callable(seen)
    assert seen(after)
    assert not _equal(before, seen)
    assert read(SMALL) == before  # the original is untouched


def _equal(scenario: Scenario, seen: object) -> bool:
    assert callable(seen)
    try:
        return bool(seen(scenario))
    except (KeyError, IndexError):
        return False


def test_the_plain_form_gives_the_scenario_back() -> None:
    for scenario in scenarios.builtin().values():
        assert from_plain(to_plain(scenario), scenario.name, check_steps) == scenario


def test_a_negative_control_differs_only_by_its_patch() -> None:
    scenario = scenarios.load("leader_isolated")
    control = negative_control(scenario, check_steps)
    assert control.negative_control is None
    assert {p.name: p.acks for p in control.producers if p.acks != "all"} == {"plain": "1"}
    assert [p.name for p in control.producers] == [p.name for p in scenario.producers]
    assert control.steps == scenario.steps
    assert control.topics == scenario.topics
    with pytest.raises(BadInput, match="has no negative control"):
        negative_control(control, check_steps)

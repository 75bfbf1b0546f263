"""Steps that could only fail late, or have no effect, are refused when their scenario is loaded, in one sentence."""

from __future__ import annotations

import re

import pytest

from suites.unit.model.scenario.test_toml import read, refused


def with_steps(*steps: str, shape: str = "") -> str:
    """A scenario with these steps; "one" has one replica, only steps write to "held", no producer writes to "idle"."""
    tables = """
    [topics]
    plain = {}
    one = { replicas = 1, partitions = 1 }
    two = { replicas = 2, partitions = 1, assignment = [[1, 2]] }
    held = {}
    idle = {}
    [producers]
    plain = { topics = ["plain", "one", "two"] }
    held = { topics = ["held"], when = "steps" }
    [readers]
    grouped = { topics = ["plain"], group = "readers" }
    """
    return f'title = "t"\nproperty = "g"\nsteps = [{", ".join(steps)}]\n{tables}\n[shape]\n{shape}'


HOLD = '{ do = "hold", seconds = 1 }'
KILL = '{ do = "kill", node = "broker(2)", name = "down" }'
LED = '{ do = "kill", node = "leader(plain/0)", name = "down" }'
THREE = "controllers = 3"


@pytest.mark.parametrize(
    ("step", "reported"),
    [
        *[
            (f'do = "hold", seconds = {seconds}', "step it (hold): seconds = ")
            for seconds in ("-1", "nan", "inf", "1e300")
        ],
        ('do = "kill", node = "broker(1)", for_s = nan', "for_s = nan; give a number from 0 to 86400"),
        ('do = "kill", node = "broker(1)", for_s = inf', "for_s = inf"),
        ('do = "disk_full", node = "broker(1)", spare_kb = 100000000000000000000', "spare_kb = 1000"),
        ('do = "disk_full", node = "broker(1)", spare_kb = 0', "spare_kb = 0; give a number from 1"),
        ('do = "crash_loop", node = "broker(1)", times = 0', "times = 0"),
        ('do = "flap", src = "broker(1)", dst = "broker(2)", down_s = 0', "down_s = 0.0"),
        ('do = "wait_acks", records = -1', "records = -1"),
        ('do = "wait_acks", deadline_s = -1', "deadline_s = -1"),
        ('do = "wait_commits", group = "readers", commits = 0', "commits = 0"),
        ('do = "wait_rolled", segments = 0', "segments = 0"),
        ('do = "delete_records", share = 1.5', "share = 1.5"),
        ('do = "produce", producer = "held", to = "held/0", records = -1', "records = -1"),
        ('do = "slow", src = "broker(1)", dst = "broker(2)"', "this slows nothing; give latency_ms"),
        ('do = "slow", src = "broker(1)", dst = "broker(2)", latency_ms = -1', "latency_ms = -1"),
        ('do = "slow", src = "broker(1)", dst = "broker(2)", rate_kb_s = 0', "rate_kb_s = 0"),
        ('do = "cut", src = "broker(1)", dst = "broker(2)", mode = "refusing", direction = "answers"', "leave out"),
        ('do = "flap", src = "broker(1)", dst = "broker(2)", mode = "refusing", direction = "answers"', "leave out"),
        ('do = "isolate", node = "broker(1)", away_from = ["broker"]', "did you mean 'brokers'?"),
        ('do = "isolate", node = "broker(1)", away_from = []', "names no side"),
        (
            'do = "damage", what = "flip", of = "plain/0", node = "broker(1)", alone = true',
            "alone: flip does not concern the whole disk",
        ),
        ('do = "damage", what = "wiped", node = "broker(1)", segment = "oldest"', "concerns no segment; leave it out"),
        ('do = "damage", what = "wiped", node = "broker(1)", tail_bytes = 1000', "tears no tail; leave it out"),
        ('do = "damage", what = "flip", of = "plain/0", node = "broker(1)", how = "cleanly"', "set how = 'killed'"),
        (
            'do = "damage", what = "index", by = "flip", how = "cleanly", of = "plain/0", node = "broker(1)"',
            "set how = 'killed'",
        ),
        ('do = "damage", what = "flip", of = "plain/0", node = "broker(1)", unnoticed = true', "leave out unnoticed"),
    ],
)
def test_arguments_out_of_range_or_in_conflict_are_refused(step: str, reported: str) -> None:
    said = refused(with_steps(f'{{ {step}, name = "it" }}'))
    assert said.startswith("scenario small: step it (")
    assert reported in said


DAMAGE = 'do = "damage", what = "torn_tail"'


@pytest.mark.parametrize(
    ("step", "reported"),
    [
        ('do = "kill", node = ""', "node: '' names no node"),
        ('do = "kill", node = "broker(²)"', "broker needs a number"),
        ('do = "kill", node = "brokers(2, 4)"', "the brokers are 1 to 3; name some of them"),
        ('do = "kill", node = "leader(plain/²)"', 'write "topic/0"'),
        (f'do = "kill", node = "broker({"9" * 5000})"', "broker needs a number"),
        ('do = "kill", node = "followers(one/0)"', "one has one replica, and so no followers"),
        ('do = "kill", node = "controller"', "use quorum_lost"),
        ('do = "kill", node = "controller_follower"', "set controllers = 3 in [shape]"),
        ('do = "kill", node = "controller_beside(hold)"', "there is no third controller; set controllers = 3 in"),
        ('do = "cut_followers", of = "plain/*"', "of: 'plain/*' is more than one partition; name one, as in"),
        ('do = "cut_followers", of = "one/0"', "one has one replica"),
        (f'{DAMAGE}, node = "broker(1)", of = "plain/*"', "more than one partition"),
        *[
            (f'{DAMAGE}, node = "{node}", of = "plain/0"', f"names {count}, and this step takes")
            for node, count in (
                ("brokers", "3 brokers"),
                ("followers(plain/0)", "2 brokers"),
                ("controller", "controllers"),
                ("controllers", "controllers"),
                ("controller_majority", "controllers"),
            )
        ],
        ('do = "disk_full", node = "brokers"', "names 3 brokers, and this step takes one"),
        ('do = "disk_full", node = "controller"', "takes brokers only"),
        ('do = "crash_loop", node = "controller"', "takes brokers only"),
        ('do = "lose_answers", node = "controllers"', "takes brokers only"),
        ('do = "rolling_restart", node = "controllers"', "takes brokers only"),
        ('do = "isolate", node = "controller", away_from = ["brokers"]', "takes brokers only"),
        ('do = "wait_leader_is", node = "controller"', "takes brokers only"),
        (f'{DAMAGE}, node = "broker(1)", of = "one/0"', "one has one replica"),
        (f'{DAMAGE}, node = "broker(1)", of = "idle/0"', "no producer writes to idle"),
        (f'{DAMAGE}, node = "broker(3)", of = "two/0"', "broker(3) has no replica of two/0; name one of 1, 2"),
        ('do = "quorum_lost", node = "brokers"', "takes controllers only"),
        ('do = "quorum_lost", node = "leader(plain/0)"', "takes controllers only"),
        ('do = "quorum_lost", node = "broker(1)"', "takes controllers only"),
        (
            'do = "damage", what = "wiped", node = "broker(1)", alone = true',
            "records of one are lost with the disk; state how many in allowed_anomalies.exact_losses",
        ),
        ('do = "controller_wiped"', "set controllers = 3 in [shape]"),
        ('do = "controller_wiped", node = "brokers"', "takes controllers only"),
        ('do = "wait_commits", group = "nope"', "group: no group of a reader 'nope'"),
        ('do = "alter_topic", topic = "x", config = { "retention.ms" = 1 }', "topic: no topic 'x'"),
        ('do = "alter_topic", topic = "plain"', "config: names no setting"),
        (
            'do = "alter_topic", topic = "plain", config = { "segment.bytes" = "1g" }',
            "config: segment.bytes = '1g'",
        ),
        ('do = "alter_topic", topic = "one", config = { "min.insync.replicas" = 2 }', "= 2 of 1 replicas"),
        ('do = "wait_acks"', "no producer writes to held while this step waits"),
        ('do = "wait_acks", on = ["plain/0", "idle/0"]', "no producer writes to idle while"),
        ('do = "kill", node = "same(hold)"', "the step 'hold' chose no nodes"),
        ('do = "wait_deposed", since = "hold"', "the step 'hold' chose no nodes"),
        ('do = "produce", producer = "plain", to = "plain/0", records = 1', 'give it when = "steps"'),
        ('do = "produce", producer = "held", to = "plain/0", records = 1', "held does not write to plain"),
        ('do = "end_transaction", producer = "plain"', 'give it when = "steps"'),
        ('do = "end_transaction", producer = "held"', "held has no transactions"),
        ('do = "wait_transactional_id_expired", producer = "held"', "held has no transactions"),
        ('do = "wait_transaction_ended", producer = "held"', "held has no transactions"),
        ('do = "abort_transaction", producer = "held", on = "two/0"', "held has no transactions"),
        ('do = "split", into = "ring", mode = "refusing"', "a ring of 3 machines has only one-way links"),
        ('do = "split", into = "minority", node = "brokers"', "names 3 of 3 nodes, which is no minority"),
        ('do = "split", into = "bridge", node = "followers(plain/0)"', "names 2 nodes, and a bridge is one"),
        ('do = "split", into = "ring", among = "controllers"', "1 controllers are too few to split"),
        ('do = "split", into = "bridge", node = "controller", among = "brokers"', "and the split is among brokers"),
        ('do = "cut", src = "client", dst = "controller"', "clients connect to none"),
        ('do = "cut", src = "controller", dst = "broker(1)"', "connect to no broker"),
        ('do = "cut", src = "broker(1)", dst = "broker(1)"', "no node has a link to itself"),
        ('do = "reassign", shift = 3', "moves no replica"),
        ('do = "reassign", to = [1, 9]', "there is no broker 9"),
        ('do = "reassign", to = [2, 2]', "names a broker twice"),
        ('do = "reassign", on = ["plain/*"]', "every broker already has a replica"),
        ('do = "move_leaders", on = ["one/0"]', "one has one replica"),
        ('do = "reassign_away", on = ["one/0"]', "one has one replica"),
    ],
)
def test_steps_that_could_only_fail_late_or_have_no_effect_are_refused(step: str, reported: str) -> None:
    said = refused(with_steps(HOLD, f'{{ {step}, name = "it" }}'))
    assert said.startswith("scenario small: step it: ")
    assert reported in said


@pytest.mark.parametrize("node", ["controller", "controller_follower"])
def test_only_a_majority_can_lose_a_quorum(node: str) -> None:
    assert 'name "controller_majority"' in refused(
        with_steps(f'{{ do = "quorum_lost", node = "{node}" }}', shape=THREE)
    )
    read(with_steps('{ do = "quorum_lost" }', shape=THREE))
    read(with_steps('{ do = "quorum_lost", node = "controller" }'))


@pytest.mark.parametrize("node", ["controllers", "controller_majority"])
def test_controller_wiped_takes_one_controller(node: str) -> None:
    assert "this step takes one" in refused(with_steps(f'{{ do = "controller_wiped", node = "{node}" }}', shape=THREE))
    read(with_steps('{ do = "controller_wiped" }', shape=THREE))


def test_the_absence_of_a_follower_of_the_controllers_could_not_be_proven() -> None:
    assert 'name "controller"' in refused(with_steps('{ do = "kill", node = "controller_follower" }', shape=THREE))
    read(with_steps('{ do = "kill", node = "controller" }', shape=THREE))


STOPPED = "step 'down' still keeps "


@pytest.mark.parametrize(
    ("first", "second", "refusal"),
    [
        (KILL, 'do = "damage", what = "wiped", node = "broker(2)"', True),
        (KILL, 'do = "disk_full", node = "broker(2)"', True),
        (KILL, 'do = "pause", node = "brokers"', True),
        (LED, 'do = "kill", node = "same(down)"', True),
        (KILL, 'do = "kill", node = "broker(3)"', False),
        (KILL, 'do = "cut", src = "broker(2)", dst = "broker(1)"', False),
        (LED, 'do = "kill", node = "leader(plain/0)"', False),
        (KILL.replace(' name = "down"', ' for_s = 1, name = "down"'), 'do = "kill", node = "broker(2)"', False),
        (f'{KILL}, {{ do = "heal", fault = "down" }}', 'do = "kill", node = "same(down)"', False),
    ],
)
def test_a_stopped_process_is_not_stopped_again(first: str, second: str, refusal: bool) -> None:
    text = with_steps(first, f'{{ {second}, name = "it" }}')
    if refusal:
        assert STOPPED in refused(text)
    else:
        read(text)


@pytest.mark.parametrize(
    ("topic", "node", "refusal"),
    [
        ("replicas = 2, assignment = [[1, 3]]", "followers(plain/0)", True),
        ("replicas = 2, assignment = [[1, 3]]", "broker(3)", True),
        ("replicas = 2", "broker(2)", True),
        ("replicas = 2, assignment = [[1, 3]]", "broker(2)", False),
        ("replicas = 3", "leader(plain/0)", False),
    ],
)
def test_a_bridge_separates_two_replicas(topic: str, node: str, refusal: bool) -> None:
    text = with_steps(f'{{ do = "split", into = "bridge", node = "{node}", among = "brokers", name = "it" }}')
    only = re.sub(r"plain = \{\}.*idle = \{\}", f"plain = {{ partitions = 1, {topic} }}", text, flags=re.DOTALL)
    only = only.replace('"plain", "one", "two"', '"plain"').replace('held = { topics = ["held"], when = "steps" }', "")
    if refusal:
        assert "two replicas still reach each other" in refused(only)
    else:
        read(only)


DIVERTED = '{ do = "hold_frames", apis = ["Produce"], name = "held", node = "%s" }'


@pytest.mark.parametrize(
    ("first", "second", "refusal"),
    [
        (DIVERTED % "broker(2)", "leader(plain/0)", True),
        (DIVERTED % "leader(plain/0)", "broker(2)", True),
        (DIVERTED % "broker(2)", "brokers(2, 3)", True),
        (DIVERTED % "broker(2)", "same(held)", True),
        (DIVERTED % "broker(2)", "broker(3)", False),
        (f'{DIVERTED % "leader(plain/0)"}, {{ do = "heal", fault = "held" }}', "leader(plain/0)", False),
    ],
)
def test_the_clients_of_a_broker_are_not_diverted_twice(first: str, second: str, refusal: bool) -> None:
    text = with_steps(first, f'{{ do = "hold_frames", apis = ["Produce"], node = "{second}", name = "it" }}')
    if refusal:
        assert "step 'held' is still active on " in refused(text)
    else:
        read(text)


@pytest.mark.parametrize(
    ("stop", "held", "refusal"),
    [
        ("broker(2)", "broker(2)", True),
        ("broker(2)", "leader(plain/0)", True),
        ("leader(plain/0)", "broker(2)", True),
        ("broker(2)", "broker(3)", False),
        ("controller", "leader(plain/0)", False),
    ],
)
def test_requests_are_held_on_their_way_to_brokers_that_run(stop: str, held: str, refusal: bool) -> None:
    kill, hold = f'{{ do = "kill", node = "{stop}", name = "down" }}', DIVERTED % held
    for text in (with_steps(kill, hold, shape=THREE), with_steps(hold, kill, shape=THREE)):
        if refusal:
            assert "which may be the same broker" in refused(text)
        else:
            read(text)


@pytest.mark.parametrize(
    ("fault", "on", "refusal"),
    [
        ('do = "cut", src = "leader(plain/0)", dst = "controllers"', '"plain/0"', True),
        ('do = "cut", src = "leader(plain/0)", dst = "follower(plain/0)"', '"plain/0"', True),
        ('do = "cut_followers", of = "plain/0"', '"plain/0"', True),
        ('do = "cut_followers", of = "plain/0"', '"plain/0", "plain/1"', False),
        ('do = "kill", node = "controller"', '"plain/0"', True),
        ('do = "cut", src = "client", dst = "leader(plain/0)"', '"plain/0"', False),
        ('do = "split", into = "minority", node = "controller"', '"plain/0"', False),
        ('do = "hold", seconds = 1', '"plain/0"', False),
    ],
)
def test_a_wait_for_new_leaders_needs_a_step_that_concerns_leaders(fault: str, on: str, refusal: bool) -> None:
    wait = f'{{ do = "wait_leader_changed", on = [{on}], since = "it" }}'
    text = with_steps(f'{{ {fault}, name = "it" }}', wait, shape=THREE)
    if refusal:
        assert "which leads none of the partitions" in refused(text)
    else:
        read(text)

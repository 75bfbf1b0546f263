"""The supervisor of the probe: findings become suspicions, and a child that ends is started again."""

from __future__ import annotations

import sys

import pytest

from harness.audit.rules.reported import Probe
from harness.audit.service.probe import ProbeChild, suspicion_of
from harness.model.errors import BadInput
from harness.model.waiting import wait_for

FINDING = {
    "row": "finding",
    "topic": "probe",
    "topic_id": "P",
    "partition": 1,
    "broker": 2,
    "leads": False,
    "tier": False,
    "wrong": "lost",
    "first_offset": 10,
    "end_offset": 13,
    "at_ns": 5,
}
CHILD = """
import json, sys
task = json.loads(sys.stdin.readline())
def say(**row):
    print(json.dumps(row), flush=True)
{body}
"""


def child(body: str, rule: Probe | None = None) -> ProbeChild:
    return ProbeChild({"topic": "probe"}, rule, (sys.executable, "-c", CHILD.format(body=body)), pause_s=0.05)


def test_a_finding_names_the_replica_and_the_offsets() -> None:
    found = suspicion_of(FINDING)
    assert found.what == (
        "Follower 2 does not return 3 acknowledged records, offsets 10 to 12 of probe-1, twice some seconds apart."
    )
    assert (found.rule, found.cause, found.records, found.broker) == ("probe", "probe-1 lost", 3, 2)
    tier = suspicion_of({**FINDING, "tier": True, "leads": True, "wrong": "corrupt", "end_offset": 11})
    assert tier.what.startswith("The remote tier, by way of leader 2 returns other bytes for offset 10 of probe-1")


def test_rows_of_the_child_arrive() -> None:
    rule = Probe()
    body = f"say(row='started')\nsay(row='counts', counts={{'acked': 3}})\nsay(**{FINDING!r})\nsys.stdin.read()"
    made = child(body, rule)
    try:
        wait_for(lambda: made.counts, until=bool, deadline_s=10, what="the counts")
        (found,) = wait_for(lambda: rule.mailbox.taken(), until=bool, deadline_s=10, what="the finding")
        assert (made.counts, found.partition, made.problem) == ({"acked": 3}, 1, None)
    finally:
        made.close()


def test_a_refused_task_is_refused_at_the_start() -> None:
    with pytest.raises(BadInput, match="the topic exists"):
        child("say(row='refused', why='--probe probe: the topic exists')")


def test_a_child_that_dies_at_the_start_is_refused() -> None:
    with pytest.raises(BadInput, match="its process ended with code 9"):
        child("sys.exit(9)")


def test_a_child_that_ends_is_started_again_and_its_problem_is_known_meanwhile(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    starts = tmp_path_factory.mktemp("starts") / "starts"
    starts.touch()
    body = f"f = open({str(starts)!r}, 'a'); f.write('x'); f.flush()\nsay(row='started')\nsys.exit(3)"
    made = child(body)
    try:
        wait_for(lambda: len(starts.read_text()), until=lambda count: count >= 3, deadline_s=20, what="a third start")
    finally:
        made.close()

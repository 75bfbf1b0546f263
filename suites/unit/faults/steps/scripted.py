"""A context for tests of faults, on a cluster that a test scripts."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, Final

from harness.faults.steps.step_context import StepContext
from harness.model.clock import now_ns
from harness.model.scenario.scenario import Topic

TOPIC: Final = Topic(name="t", partitions=1)


def context_on(cluster: Any, *, admin: Any = None, topic: Topic = TOPIC, **load: Any) -> StepContext:
    """The scripted cluster also answers as the admin, unless there is another one.

    The last acks of the load were `cluster.acks_ago_s` ago; `load` has its other answers. The fakes are duck-typed:
    this is the one place that casts them.
    """

    def last_ack_ns(topic: str, partition: int) -> int:
        return now_ns() - int(cluster.acks_ago_s * 1e9)

    seen: Any = SimpleNamespace(**{"last_ack_ns": last_ack_ns, **load})
    nodes: Any = SimpleNamespace(controllers=()) if cluster is None else cluster
    return StepContext(
        cluster=nodes, admin=admin or cluster, load=seen, rng=Random(1), topics=(topic,), say=lambda _: None
    )

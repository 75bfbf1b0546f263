"""The progress of share groups (KIP-932) in each partition, as their coordinator reports it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from kafka.protocol.api_message import ApiMessage

from harness.kafka.admin.groups import coordinator
from harness.kafka.admin.wire import Unanswered, Wire, call, error_name
from harness.kafka.messages import DescribeShareGroupOffsetsRequest
from harness.model.errors import HarnessTimeout
from harness.model.place import Place


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """start: the group has finished everything below it. lag: the number of offsets that are neither accepted,
    rejected, archived nor skipped as no records; None = unknown (KIP-1226)."""

    start: int
    lag: int | None


def share_offsets(wire: Wire, group: str, deadline_s: float) -> dict[Place, ShareOffset]:
    """The progress in every partition from which the group ever received a record. HarnessTimeout without an answer."""
    kind = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    question = call(DescribeShareGroupOffsetsRequest, groups=[kind(group_id=group, topics=None)])
    give_up_at = time.monotonic() + deadline_s
    while True:
        broker = coordinator(wire, "group", group, max(0.1, give_up_at - time.monotonic()))
        try:
            offsets, error = _reported(wire.ask(broker, question))
        except Unanswered as silent:
            offsets, error = {}, str(silent)
        if error is None:
            return offsets
        if time.monotonic() >= give_up_at:
            why = f"last saw broker {broker}: {error}"
            raise HarnessTimeout(f"waited {deadline_s:g} s for the offsets of share group {group}; {why}")
        time.sleep(0.05)


def _reported(answer: ApiMessage) -> tuple[dict[Place, ShareOffset], str | None]:
    (group,) = answer.groups
    errors = [error_name(group.error_code)]
    errors += [error_name(p.error_code) for topic in group.topics for p in topic.partitions]
    if error := next((e for e in errors if e is not None), None):
        return {}, error
    return {
        (topic.topic_name, p.partition_index): ShareOffset(p.start_offset, p.lag if p.lag >= 0 else None)
        for topic in group.topics
        for p in topic.partitions
    }, None

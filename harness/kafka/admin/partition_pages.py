"""The partitions of topics, in pages, as one broker describes them: DescribeTopicPartitions (KIP-966), from 3.8 on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kafka.protocol.admin import DescribeTopicPartitionsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.data_container import DataContainer
from kafka.protocol.metadata import ApiVersionsResponse

from harness.kafka.admin.wire import Call, Unanswered, call


def partition_pages(ask: Callable[[Call], ApiMessage], topics: Sequence[str], limit: int) -> Iterator[ApiMessage]:
    """The answers of a broker, until it names no next partition. topics: none = all that this client may describe.
    limit: of partitions in a page. Unanswered, at any page, when the broker does not answer, or its pages do not end.
    """
    cursor: DataContainer | None = None
    while True:
        answer = ask(partition_page(topics, limit, cursor))
        yield answer
        if answer.next_cursor is None:
            return
        if cursor is not None and _place(answer.next_cursor) <= _place(cursor):
            raise Unanswered(f"the pages of DescribeTopicPartitions do not end: they come back to {_place(cursor)}")
        cursor = answer.next_cursor


def gives_pages(versions: ApiVersionsResponse) -> bool:
    """Whether the broker of this answer knows the request."""
    return any(api.api_key == DescribeTopicPartitionsRequest.API_KEY for api in versions.api_keys)


def partition_page(topics: Sequence[str] = (), limit: int = 1, after: DataContainer | None = None) -> Call:
    """The question for one page. after: the cursor of the page before it."""
    kind = DescribeTopicPartitionsRequest
    cursor = None if after is None else kind.Cursor(topic_name=after.topic_name, partition_index=after.partition_index)
    # With a cursor, Kafka expects the topics before it to be left out.
    wanted = [name for name in sorted(topics) if cursor is None or name >= cursor.topic_name]
    return call(
        kind, topics=[kind.TopicRequest(name=name) for name in wanted], response_partition_limit=limit, cursor=cursor
    )


def eligible(partition: DataContainer) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """The ELR of a partition in an answer, and its last known ELR; None where the request is one without them."""
    named = (getattr(partition, name, None) for name in ("eligible_leader_replicas", "last_known_elr"))
    elr, last_known = (None if nodes is None else tuple(nodes) for nodes in named)
    return elr, last_known


def _place(cursor: DataContainer) -> tuple[str, int]:
    return cursor.topic_name, cursor.partition_index

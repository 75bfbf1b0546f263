"""Brokers that answer looks with made offsets, over real connections, in a process of their own.

They know the four requests that a looker sends. It prints the addresses when they listen, and ends with its input.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

_API: Final = struct.Struct(">hhi")  # key, version, correlation id
_EARLIEST: Final = -2
Answer = Callable[[ApiMessage], ApiMessage]


class MadeBroker:
    """One listener. Every log begins at 0 and grows by 10 records a second."""

    def __init__(self, number: int, all_of: Callable[[], dict[int, tuple[str, int]]]) -> None:
        self._number = number
        self._all_of = all_of
        self._begun_s = time.monotonic()
        self._kept: dict[bytes, ApiMessage] = {}
        self._answers: dict[int, tuple[type[ApiMessage], Answer]] = {
            int(kind.API_KEY): (kind, answer)
            for kind, answer in (
                (ApiVersionsRequest, self._versions),
                (DescribeClusterRequest, self._cluster),
                (ListOffsetsRequest, self._offsets),
                (OffsetForLeaderEpochRequest, self._epochs),
            )
        }
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as incoming, suppress(ConnectionError):
            while len(head := incoming.read(4)) == 4:
                frame = incoming.read(struct.unpack(">i", head)[0])
                key, version, correlation = _API.unpack_from(frame)
                kind, answer = self._answers[key]
                known = key.to_bytes(2, "big") + frame[_API.size :]
                request = self._kept.get(known)
                if request is None:
                    request = self._kept[known] = kind.decode(frame, version=version, header=True)
                made = answer(request)
                made.API_VERSION = version
                made.with_header(correlation_id=correlation)
                connection.sendall(made.encode(header=True, framed=True))

    def _versions(self, _: ApiMessage) -> ApiMessage:
        one = ApiVersionsResponse.ApiVersion
        kinds = (kind for kind, _ in self._answers.values())
        keys = [
            one(api_key=int(k.API_KEY), min_version=int(k.min_version), max_version=int(k.max_version)) for k in kinds
        ]
        return ApiVersionsResponse(api_keys=keys)

    def _cluster(self, _: ApiMessage) -> ApiMessage:
        one = DescribeClusterResponse.DescribeClusterBroker
        seen = [one(broker_id=number, host=host, port=port) for number, (host, port) in self._all_of().items()]
        return DescribeClusterResponse(cluster_id="made", controller_id=1, brokers=seen)

    def _offsets(self, request: ApiMessage) -> ApiMessage:
        end = 10 * int(time.monotonic() - self._begun_s + 1)
        topic_of = ListOffsetsResponse.ListOffsetsTopicResponse
        one = topic_of.ListOffsetsPartitionResponse
        return ListOffsetsResponse(
            topics=[
                topic_of(
                    name=topic.name,
                    partitions=[
                        one(
                            partition_index=p.partition_index,
                            offset=0 if p.timestamp == _EARLIEST or p.timestamp >= 0 else end,
                            timestamp=-1,
                            leader_epoch=p.current_leader_epoch,
                        )
                        for p in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _epochs(self, request: ApiMessage) -> ApiMessage:
        topic_of = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        one = topic_of.EpochEndOffset
        return OffsetForLeaderEpochResponse(
            topics=[
                topic_of(
                    topic=topic.topic,
                    partitions=[
                        one(partition=p.partition, leader_epoch=p.leader_epoch, end_offset=p.current_leader_epoch)
                        for p in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


@contextmanager
def made_brokers(count: int) -> Iterator[list[tuple[str, int]]]:
    """The addresses of brokers 1, 2, ... in a process of their own."""
    command = [sys.executable, "-m", "suites.bench.made_brokers", str(count)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield [(host, port) for host, port in json.loads(process.stdout.readline())]
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


def main(count: int) -> None:
    addresses: dict[int, tuple[str, int]] = {}
    brokers = [MadeBroker(number, lambda: addresses) for number in range(1, count + 1)]
    addresses.update({n: broker.listener.getsockname() for n, broker in enumerate(brokers, 1)})
    print(json.dumps([*addresses.values()]), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]))

"""Controllers in memory, behind the interface of `Link`: what a feed does with answers, and no claim about Kafka."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import FetchRequest, FetchResponse

from harness.kafka.admin.link import Address
from harness.kafka.admin.security import Security
from harness.kafka.admin.wire import Call, Unanswered, error_name
from harness.kafka.messages import FetchSnapshotResponse

VERSION = 17
CODES = {error_name(code): code for code in (1, 6, 31, 42, 74, 75, 98, 100)}
_PARTITION = FetchResponse.FetchableTopicResponse.PartitionData
_PIECE = FetchSnapshotResponse.TopicSnapshot.PartitionSnapshot


@dataclass
class Quorum:
    """The state that all controllers share, and the questions that they got: (address, offset or "snapshot N")."""

    leader: Address | None
    epoch: int = 1
    high_watermark: int = 0
    log_start: int = 0
    log: bytes = b""  # an answer has all of it from the requested offset on
    offsets: dict[int, int] = field(default_factory=dict)  # offset of a batch -> its position in the log
    snapshot: tuple[int, int, bytes] | None = None  # end, epoch, file; the answer to offsets before log_start
    piece_bytes: int = 1 << 20
    diverges: tuple[int, int] | None = None  # epoch and end offset
    endpoint: Address | None = None  # of the leader, as controllers name it
    down: set[Address] = field(default_factory=set)
    refusing: dict[Address, list[Unanswered]] = field(default_factory=dict)  # what each question raises
    epochs: dict[Address, int] = field(default_factory=dict)  # of nodes that know only an earlier epoch
    stale_leaders: set[Address] = field(default_factory=set)  # in the epoch of `epochs`, with high watermark 1
    snapshot_for: set[int] = field(default_factory=set)  # offsets in the log that are answered with the snapshot
    error: str | None = None  # of every answer
    asked: list[tuple[Address, str]] = field(default_factory=list)
    waits_ms: list[int] = field(default_factory=list)  # how long each question for records let the leader wait
    after: Callable[[], None] = lambda: None  # called after each answer

    def append(self, offset: int, *batches: bytes) -> None:
        for batch in batches:
            self.offsets[offset] = len(self.log)
            self.log += batch

    def link(self, address: Address, security: Security) -> _Link:
        return _Link(self, address)

    def answer(self, address: Address, question: Call) -> ApiMessage:
        request = question.build(VERSION if question.kind is FetchRequest else 1)
        if question.kind is FetchRequest:
            self.waits_ms.append(request.max_wait_ms)
        (topic,) = request.topics
        (asked,) = topic.partitions
        epoch = self.epochs.get(address, self.epoch)
        error = self.error
        if error is not None:
            pass
        elif asked.current_leader_epoch != epoch:
            error = "FENCED_LEADER_EPOCH" if asked.current_leader_epoch < epoch else "UNKNOWN_LEADER_EPOCH"
        else:
            error = None if address in (self.leader, *self.stale_leaders) else "NOT_LEADER_OR_FOLLOWER"
        return (self._fetch if question.kind is FetchRequest else self._piece)(address, asked, error, epoch)

    def _fetch(self, address: Address, asked: ApiMessage, error: str | None, epoch: int) -> ApiMessage:
        self.asked.append((address, str(asked.fetch_offset)))
        part = _PARTITION(
            partition_index=0,
            error_code=0 if error is None else CODES[error],
            high_watermark=self.high_watermark,
            log_start_offset=self.log_start,
            current_leader=_PARTITION.LeaderIdAndEpoch(leader_id=1 if self.leader else -1, leader_epoch=epoch),
        )
        if error is None and self.diverges is not None and asked.fetch_offset > 0:
            part.diverging_epoch = _PARTITION.EpochEndOffset(epoch=self.diverges[0], end_offset=self.diverges[1])
        elif (
            error is None
            and self.snapshot is not None
            and (asked.fetch_offset < self.log_start or asked.fetch_offset in self.snapshot_for)
        ):
            part.snapshot_id = _PARTITION.SnapshotId(end_offset=self.snapshot[0], epoch=self.snapshot[1])
        elif error is None:
            at = self.offsets.get(asked.fetch_offset, len(self.log))
            within = [position for offset, position in self.offsets.items() if offset < asked.fetch_offset]
            inside = asked.fetch_offset < self.high_watermark and asked.fetch_offset not in self.offsets
            if self.leader == address:
                part.records = self.log[max(within) if inside else at :]
        topic = FetchResponse.FetchableTopicResponse(partitions=[part])
        nodes = []
        if self.endpoint is not None:
            host, port = self.endpoint
            nodes = [FetchResponse.NodeEndpoint(node_id=1, host=host, port=port, rack=None)]
        return FetchResponse(error_code=0, responses=[topic], node_endpoints=nodes)

    def _piece(self, address: Address, asked: ApiMessage, error: str | None, epoch: int) -> ApiMessage:
        self.asked.append((address, f"snapshot {asked.position}"))
        _, _, file = self.snapshot or (0, 0, b"")
        part = _PIECE(
            index=0,
            error_code=0 if error is None else CODES[error],
            current_leader=_PIECE.LeaderIdAndEpoch(leader_id=1, leader_epoch=epoch),
            size=len(file),
            position=asked.position,
            bytes=file[asked.position : asked.position + self.piece_bytes] if error is None else b"",
        )
        return FetchSnapshotResponse(error_code=0, topics=[FetchSnapshotResponse.TopicSnapshot(partitions=[part])])


class _Link:
    """In place of a `Link`."""

    def __init__(self, quorum: Quorum, address: Address) -> None:
        self.address = address
        self.name = f"{address[0]}:{address[1]}"
        self._quorum = quorum

    def ask(self, question: Call, timeout_s: float) -> ApiMessage:
        if self.address in self._quorum.refusing:
            raise self._quorum.refusing[self.address].pop(0)
        if self.address in self._quorum.down:
            self._quorum.asked.append((self.address, "down"))
            raise Unanswered(f"{self.name}: Connection refused")
        answer = self._quorum.answer(self.address, question)
        self._quorum.after()
        return answer

    def close(self) -> None:
        pass

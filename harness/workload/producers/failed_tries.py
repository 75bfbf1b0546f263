"""The failed tries of librdkafka to send a batch, with the error of each, from its debug log.

librdkafka reports the last try of a record only, and its statistics count no errors. With `debug = msg` it logs each
produce request with the batch's producer id, epoch and first sequence number, and the result of each. The client passes
its lines in the thread that polls, in their order.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError

from harness.evidence.writer import TableWriter
from harness.model.clock import now_ns

SETTINGS: Final[Mapping[str, object]] = {"debug": "msg", "log_level": 7}
# Requests that may be in flight: 5 to each broker for an idempotent producer, and a failed one is at most as old.
_REQUESTS: Final = 1000
_KEPT: Final = 3  # lines that were not read
_PLACE: Final = r"(?P<topic>[\w.\-]+) \[(?P<partition>\d+)\]: "
_SENT: Final = re.compile(
    r"/(?P<broker>-?\d+): "
    + _PLACE
    + r"Produce MessageSet with (?P<count>\d+) message\(s\) \(.*, MsgId (?P<id>\d+), BaseSeq (?P<base>-?\d+), "
    r"PID\{(?:Id:(?P<pid>-?\d+),Epoch:(?P<epoch>-?\d+)|Invalid)\}, "
)
_FAILED: Final = re.compile(
    _PLACE + r"MessageSet with (?P<count>\d+) message\(s\) \(MsgId (?P<id>\d+), BaseSeq (?P<base>-?\d+)\) "
    r"encountered error: (?P<error>.*) \(actions [^()]*\)(?: \[NOT LEADER\])?$"
)
_NAMES: Final = {error.str(): error.name() for error in map(KafkaError, range(-300, 200))}


class FailedTries:
    """The logger of one client: writes a row of `failed_sends` for each failed try of a batch."""

    def __init__(self, table: TableWriter, producer: str, topic_ids: Mapping[str, str]) -> None:
        self.acked = False  # whether any record was, as its owner knows
        self._unread: list[str] = []
        self._delivered = 0  # batches
        self._table = table
        self._producer = producer
        self._topic_ids = topic_ids
        self._sent: deque[tuple[int, str]] = deque(maxlen=_REQUESTS)

    @property
    def problem(self) -> str | None:
        """Why failed tries may be missing from the table; None if none is."""
        if self._unread:
            lines = "; ".join(repr(line) for line in self._unread)
            return f"lines of the log of {self._producer}'s client say something else than expected: {lines}"
        if self.acked and not self._delivered:
            return f"the client of {self._producer} acknowledged records, and its log has no line about any batch"
        return None

    def log(self, _level: int, _form: str, facility: str, _client: str, text: str) -> None:
        """Called by the client for each line of its log."""
        if facility == "PRODUCE":
            if "Produce MessageSet with" in text:
                self._sent.append((now_ns(), text))
        elif facility == "MSGSET":
            if text.endswith(" delivered"):
                self._delivered += 1
            else:
                self._failed(text)

    def _failed(self, text: str) -> None:
        failed = _FAILED.search(text)
        error = None if failed is None else _NAMES.get(failed["error"])
        sent = None if failed is None else self._request(failed)
        if failed is None or error is None or sent is None or failed["topic"] not in self._topic_ids:
            self._unread = [*self._unread, text][:_KEPT]
            return
        at_ns, request = sent
        self._table.append(
            {
                "producer": self._producer,
                "topic": failed["topic"],
                "topic_id": self._topic_ids[failed["topic"]],
                "partition": int(failed["partition"]),
                "count": int(failed["count"]),
                "producer_id": int(request["pid"] or -1),
                "producer_epoch": int(request["epoch"] or -1),
                "base_sequence": int(failed["base"]),
                "broker": int(request["broker"]),
                "error": error,
                "sent_ns": at_ns,
                "failed_ns": now_ns(),
            }
        )

    def _request(self, failed: re.Match[str]) -> tuple[int, re.Match[str]] | None:
        """The latest request with this batch, and when it was logged."""
        same = f"{failed['topic']} [{failed['partition']}]: Produce MessageSet with "
        batch = f", MsgId {failed['id']}, BaseSeq {failed['base']}, "
        for at_ns, text in reversed(self._sent):
            if batch in text and same in text and (sent := _SENT.search(text)) is not None:
                return at_ns, sent
        return None

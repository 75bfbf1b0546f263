"""The failed calls of a transactional client, which show that a coordinator refuses what its client asks for.

A client that fails in a call is replaced, so a coordinator that refuses every transaction leaves one row for each
transaction, and a fault leaves some rows and then successes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from confluent_kafka import KafkaException

from harness.evidence.writer import TableWriter
from harness.model.clock import now_ns
from harness.workload.client_errors import client_error
from harness.workload.timed_calls import CallHung

Call = Literal["init", "offsets", "commit", "abort"]  # the words of `schemas.CALLS`
HUNG = "_HUNG"  # ours: the call did not return in time


class FailedCalls:
    """Writes the table `failed_calls` of one producer, through all its clients. Belongs to its thread.

    `last`: for each kind of call that failed and has not succeeded since, the error.
    """

    def __init__(self, table: TableWriter, producer: str, transaction_timeout_ms: int | None) -> None:
        self.last: dict[Call, str] = {}
        self.hung: Call | None = None  # the last call that did not return
        self._table = table
        self._producer = producer
        self._transaction_timeout_ms = transaction_timeout_ms

    @contextmanager
    def of(self, call: Call, initialised_ns: int | None) -> Iterator[None]:
        """Records that the call inside raised an error of the client, which it raises again."""
        called_ns = now_ns()
        try:
            yield
        except (KafkaException, SystemError) as failure:
            if (error := client_error(failure)) is not None:
                self._failed(call, error.name(), initialised_ns, called_ns)
            raise
        except CallHung:
            self.hung = call
            self._failed(call, HUNG, initialised_ns, called_ns)
            raise
        self.last.pop(call, None)

    def _failed(self, call: Call, error: str, initialised_ns: int | None, called_ns: int) -> None:
        self.last[call] = error
        self._table.append(
            {
                "producer": self._producer,
                "call": call,
                "error": error,
                "initialised_ns": None if call == "init" else initialised_ns,
                "transaction_timeout_ms": self._transaction_timeout_ms,
                "called_ns": called_ns,
                "returned_ns": now_ns(),
            }
        )

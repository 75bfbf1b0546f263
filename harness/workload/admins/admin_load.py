"""An admin that runs during the load: one operation after another, each sent once, each with its outcome."""

from __future__ import annotations

import struct
import threading
import time
from itertools import cycle
from random import Random
from typing import Final

from harness.evidence.writer import TableWriter
from harness.kafka.admin.operations import refusal, request
from harness.kafka.admin.wire import Connection, Unanswered
from harness.model.clock import now_ns
from harness.model.entities import MetadataEntity, Operation
from harness.model.outcome import Outcome
from harness.model.scenario.scenario import Admin
from harness.workload.admins.admin_plan import Plan, Wanted
from harness.workload.load_thread import LoadThread
from harness.workload.pacing import Pace
from harness.workload.producers.outcomes import NOT_SENT, outcome_of_operation

_TICK_S: Final = 0.05
_TRANSPORT: Final = "_TRANSPORT"
_TIMED_OUT: Final = "_TIMED_OUT"
_BROKEN: Final = (OSError, ValueError, struct.error, IndexError)

Address = tuple[str, int]


def addresses_of(bootstrap: str) -> list[Address]:
    """(host, port) of each broker in "host:port,host:port"."""
    parts = [text.strip().rpartition(":") for text in bootstrap.split(",")]
    return [(host, int(port)) for host, _, port in parts]


class AdminLoop(LoadThread):
    """One thread that sends the operations of its plan to the brokers in turn, at its own rate.

    A client library retries inside a call, and its error describes only the last attempt. So each request here is sent
    once, to one broker, on a connection of its own: if that cannot be opened, nothing was requested.
    """

    def __init__(self, spec: Admin, bootstrap: str, table: TableWriter, rng: Random) -> None:
        super().__init__("admin", spec.name)
        addresses = addresses_of(bootstrap)
        self.spec = spec
        self._plan = Plan(spec, len(addresses), rng)
        self._brokers = cycle(addresses)
        self._table = table
        self._lock = threading.Lock()
        self._operations: list[Operation] = []  # bounded by the rate, which is low
        self._entities: dict[str, MetadataEntity] = {}

    def operations(self) -> list[Operation]:
        """All finished operations, in order."""
        with self._lock:
            return list(self._operations)

    def ended(self, since_ns: int, outcome: Outcome | None = None) -> int:
        """How many operations that began since then have ended, of all outcomes or of one."""
        return sum(
            op.called_ns >= since_ns and (outcome is None or op.outcome == outcome.value) for op in self.operations()
        )

    def metadata_entity(self, entity: str) -> MetadataEntity:
        """The metadata entity that an operation changed, by its text."""
        return self._entities[entity]

    def _live(self) -> None:
        pace = Pace(self.spec.rate_per_s, burst_s=1.0 / self.spec.rate_per_s)
        while not self._stopping.is_set():
            if pace.due(1):
                pace.spent(1)
                wanted = self._plan.next()
                if self._record(wanted) is not Outcome.REFUSED:
                    self._plan.done(wanted)
            else:
                self._stopping.wait(_TICK_S)
        self._table.flush()

    def _record(self, wanted: Wanted) -> Outcome:
        called_ns = now_ns()
        error = _request_once(next(self._brokers), wanted, self.spec.timeout_s)
        operation = Operation(
            op=len(self._operations),
            writer=self.spec.name,
            kind=wanted.did.value,
            entity=wanted.metadata_entity.text,
            value=wanted.after,
            outcome=outcome_of_operation(error).value,
            called_ns=called_ns,
            returned_ns=now_ns(),
            error=error,
        )
        self._table.append({name: getattr(operation, name) for name in Operation.__dataclass_fields__})
        with self._lock:
            self._entities[wanted.metadata_entity.text] = wanted.metadata_entity
            self._operations.append(operation)
        return Outcome(operation.outcome)


def _request_once(broker: Address, wanted: Wanted, timeout_s: float) -> str | None:
    """Sends one request to one broker and returns the name of its error; None on success."""
    give_up_at = time.monotonic() + timeout_s
    did, metadata_entity, after = wanted
    try:
        connection = Connection(broker, give_up_at)
    except _BROKEN:
        return NOT_SENT
    try:
        return refusal(did, connection.ask(request(did, metadata_entity, after, timeout_s), give_up_at))
    except Unanswered:  # the broker supports no version of the request
        return NOT_SENT
    except TimeoutError:
        return _TIMED_OUT
    except _BROKEN:
        return _TRANSPORT
    finally:
        connection.close()

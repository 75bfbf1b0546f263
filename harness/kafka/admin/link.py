"""One connection to one node, kept open and made again when it ends. For processes that ask the same nodes for weeks.

`wire.Wire` asks all brokers of a run in parallel, with threads. A link has none, and each request is sent once more at
most: over a new connection, if the old one was closed while it was idle.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kafka.protocol.api_message import ApiMessage

from harness.kafka.admin.security import PLAINTEXT, Security
from harness.kafka.admin.wire import BROKEN, Call, ClosedByBrokerError, Connection, Prepared, Unanswered

Address = tuple[str, int]
CONNECT_S: Final = 1.5
_CLOSED: Final = (ClosedByBrokerError, ConnectionResetError, BrokenPipeError)


class Reusable:
    """A request that is sent again and again, and encoded once for each connection."""

    def __init__(self, question: Call) -> None:
        self.question = question
        self._prepared: Prepared | None = None
        self._made_for: Connection | None = None

    def on(self, connection: Connection) -> Prepared:
        if self._prepared is None or self._made_for is not connection:
            self._prepared, self._made_for = connection.prepare(self.question), connection
        return self._prepared


class Link:
    """A node at an address. Requests of several threads wait for each other."""

    def __init__(self, address: Address, security: Security = PLAINTEXT) -> None:
        self.address = address
        self.silent_since_s: float | None = None  # monotonic, of the first unanswered request; None = it answers
        self._security = security
        self._connection: Connection | None = None
        self._closed = False
        self._turn = threading.Lock()
        self._received_bytes = 0  # of connections that have ended

    @property
    def received_bytes(self) -> int:
        """All bytes of answers so far."""
        connection = self._connection
        return self._received_bytes + (0 if connection is None else connection.received_bytes)

    @property
    def name(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def ask(self, question: Call | Reusable, timeout_s: float) -> ApiMessage:
        """The node's decoded answer. Unanswered, with the address and the reason, when there is none in time."""
        give_up_at = time.monotonic() + timeout_s
        try:
            answer = self._in_turn(question, give_up_at)
        except Unanswered as silent:
            self.silent_since_s = self.silent_since_s or time.monotonic()
            raise type(silent)(f"{self.name}: {silent}") from silent
        self.silent_since_s = None
        return answer

    def supports(self, question: Call, timeout_s: float) -> bool:
        """Whether the node knows a version of a request that fits. Unanswered as for `ask`."""
        give_up_at = time.monotonic() + timeout_s
        with self._lock(give_up_at):
            connection, _ = self._connected(give_up_at)
            return connection.version_of(question) is not None

    def close(self) -> None:
        """Ends the exchange of another thread, and every later one, as unanswered; idempotent."""
        self._closed = True
        if (connection := self._connection) is not None:
            connection.interrupt()
        if self._turn.acquire(timeout=CONNECT_S):
            self._drop()
            self._turn.release()

    def _in_turn(self, question: Call | Reusable, give_up_at: float) -> ApiMessage:
        with self._lock(give_up_at):
            while True:
                connection, fresh = self._connected(give_up_at)
                try:
                    if isinstance(question, Reusable):
                        return connection.exchange(question.on(connection), give_up_at)
                    return connection.ask(question, give_up_at)
                except Unanswered:
                    raise
                except BROKEN as broken:
                    self._drop()
                    if fresh or self._closed or isinstance(broken, TimeoutError):
                        raise Unanswered(self._reason(broken, fresh)) from broken
                except BaseException:  # the answer may still come, and would be taken for that of the next request
                    self._drop()
                    raise

    def _reason(self, broken: BaseException, fresh: bool) -> str:
        text = str(broken) or type(broken).__name__
        if fresh and self._security.login is None and isinstance(broken, _CLOSED):
            return f"{text}, as a listener with SASL does without a login"
        return text

    @contextmanager
    def _lock(self, give_up_at: float) -> Iterator[None]:
        if not self._turn.acquire(timeout=max(0.0, give_up_at - time.monotonic())):
            raise Unanswered("requests of other threads take too long")
        try:
            yield
        finally:
            self._turn.release()

    def _connected(self, give_up_at: float) -> tuple[Connection, bool]:
        """The connection, and whether it is new."""
        if self._closed:
            raise Unanswered("the connection was closed here")
        if self._connection is not None:
            return self._connection, False
        try:
            until = min(give_up_at, time.monotonic() + CONNECT_S)
            self._connection = Connection(self.address, until, self._security)
        except BROKEN as gone:
            raise Unanswered(str(gone) or type(gone).__name__) from gone
        return self._connection, True

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            self._received_bytes += connection.received_bytes

"""Kafka requests over blocking sockets. Every exchange has a deadline, so a silent broker is a result and never a hang.

Client libraries retry, refresh and wait inside their calls. That is right for an application and wrong for an observer,
whose evidence is the answer of one broker at one moment. So each request goes to one named broker, and its answer, or
the lack of one, is returned within the deadline. Messages are encoded and decoded by kafka-python's schema classes.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from kafka.errors import kafka_errors
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from harness.kafka.decoding import DECODING
from harness.model.errors import HarnessFailure

ANSWER_S: Final = 1.5  # the time for one broker's answer to an ordinary request
SUSPECT_S: Final = 0.3  # the same for a frequent request to a broker that did not answer the last one
SUSPECT_FOR_S: Final = 0.5  # for this time after a timeout, frequent requests skip the broker
_CLIENT_ID: Final = "durability-observer"
_FRAME_BYTES_MAX: Final = 64 << 20
_API_VERSIONS: Final = 3  # the first with features and the metadata offset; every KRaft release answers it

# What ends an exchange on a socket: a deadline, a closed connection, or bytes that are no answer.
BROKEN: Final = (OSError, ValueError, struct.error, IndexError)

# Errors for which kafka-python still has a name that Kafka has replaced.
_RENAMED: Final = {-1: "UNKNOWN_SERVER_ERROR", 6: "NOT_LEADER_OR_FOLLOWER", 10: "MESSAGE_TOO_LARGE"}


class Unanswered(HarnessFailure):
    """One broker gave no usable answer in time: it is down, paused, isolated, or does not know the request."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request without a chosen version.

    `build` makes the message of a version; `newest` is the highest one.
    """

    kind: type[ApiMessage]  # a request class of kafka.protocol
    build: Callable[[int], ApiMessage]
    newest: int = 99


def call(kind: type[ApiMessage], newest: int = 99, /, **fields: object) -> Call:
    """A request with the same fields in every version."""
    return Call(kind, lambda _: kind(**fields), newest)


def error_name(code: int) -> str | None:
    """Kafka's name of an error code, such as "NOT_LEADER_OR_FOLLOWER"; None for success."""
    if code == 0:
        return None
    known = kafka_errors.get(code)
    return _RENAMED.get(code) or (str(known.message) if known is not None else f"error {code}")


class Connection:
    """One socket to one broker, with the versions that it supports. Used by one thread at a time."""

    def __init__(self, address: tuple[str, int], give_up_at: float, tls: ssl.SSLContext | None = None) -> None:
        self._socket = socket.create_connection(address, timeout=_left(give_up_at))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation = 0
        try:
            if tls:
                self._socket = tls.wrap_socket(self._socket, server_hostname=address[0])
            self.reported = self._exchange(_versions_request(), _API_VERSIONS, give_up_at)
        except BaseException:
            self.close()
            raise
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in self.reported.api_keys}

    def ask(self, question: Call, give_up_at: float) -> ApiMessage:
        """The decoded answer. OSError or TimeoutError from the socket; Unanswered when the broker does not know it."""
        version = self.version_of(question)
        if version is None:
            raise Unanswered(f"the broker supports no version of {question.kind.__name__} that this harness knows")
        return self._exchange(question.build(version), version, give_up_at)

    def version_of(self, question: Call) -> int | None:
        """The highest version that both sides support; None without one."""
        low, high = self.versions.get(question.kind.API_KEY, (0, -1))
        version = int(min(high, question.kind.max_version, question.newest))
        return version if version >= low else None

    def close(self) -> None:
        self._socket.close()

    def interrupt(self) -> None:
        """Ends the exchange of another thread, and every later one, with an OSError."""
        with contextlib.suppress(OSError):  # it is no longer connected
            self._socket.shutdown(socket.SHUT_RDWR)

    def _exchange(self, message: ApiMessage, version: int, give_up_at: float) -> ApiMessage:
        self._correlation += 1
        message.API_VERSION = version
        message.with_header(correlation_id=self._correlation, client_id=_CLIENT_ID)
        self._socket.settimeout(_left(give_up_at))
        self._socket.sendall(message.encode(header=True, framed=True))
        (size,) = struct.unpack(">i", self._receive(4, give_up_at))
        if not 4 <= size <= _FRAME_BYTES_MAX:
            raise ConnectionError(f"an answer of {size} bytes is not one of Kafka")
        frame = self._receive(size, give_up_at)
        (correlation,) = struct.unpack_from(">i", frame)
        if correlation != self._correlation:
            raise ConnectionError(f"an answer to request {correlation}, not {self._correlation}")
        with DECODING:
            return message.header.get_response_class().decode(frame, header=True)

    def _receive(self, size: int, give_up_at: float) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._socket.settimeout(_left(give_up_at))
            piece = self._socket.recv(size - len(parts))
            if not piece:
                raise ConnectionError("closed by the broker")
            parts += piece
        return bytes(parts)


class Wire:
    """Connections to the nodes of one cluster. Thread-safe; close it after use.

    `broker` in its methods is a node id. It may be a controller, which answers the few requests that it knows.
    """

    def __init__(
        self, brokers: Mapping[int, tuple[str, int]], controllers: Mapping[int, tuple[str, int]] | None = None
    ) -> None:
        self.brokers = tuple(sorted(brokers))
        self.controllers = tuple(sorted(controllers or {}))
        self._addresses = {**(controllers or {}), **brokers}
        self._lock = threading.Lock()
        self._idle: dict[int, list[Connection]] = defaultdict(list)
        self._silent_since: dict[int, float] = {}
        self._closed = False
        self.paused: frozenset[int] = frozenset()  # by the harness: a request would only cost the time of a timeout
        self._threads = ThreadPoolExecutor(max_workers=8 * max(1, len(self._addresses)), thread_name_prefix="observer")

    def ask(self, broker: int, question: Call, timeout_s: float = ANSWER_S) -> ApiMessage:
        """One broker's decoded answer; Unanswered, saying why, when there is none in time."""
        return self.ask_in_turn(broker, (question,), timeout_s)[0]

    def ask_in_turn(self, broker: int, questions: Iterable[Call], timeout_s: float = ANSWER_S) -> list[ApiMessage]:
        """The answers to several requests, one after another on one connection. Unanswered unless all are answered."""
        if broker in self.paused:
            raise Unanswered(f"broker {broker} is paused")
        give_up_at = time.monotonic() + timeout_s
        questions = tuple(questions)
        while True:
            try:
                connection, fresh = self._take(broker, give_up_at)
            except OSError as gone:
                self._fell_silent(broker, gone)
                raise Unanswered(f"broker {broker}: {gone or type(gone).__name__}") from gone
            try:
                answers = [connection.ask(question, give_up_at) for question in questions]
            except Unanswered as unknown:
                self._give_back(broker, connection)
                raise Unanswered(f"broker {broker}: {unknown}") from unknown
            except BROKEN as broken:
                connection.close()
                # A pooled connection may be older than a restart of the broker and says nothing about its state now.
                if fresh or isinstance(broken, TimeoutError):
                    self._fell_silent(broker, broken)
                    raise Unanswered(f"broker {broker}: {broken or type(broken).__name__}") from broken
                continue
            except BaseException:
                connection.close()
                raise
            self._give_back(broker, connection)
            return answers

    def gather(
        self, questions: Mapping[int, Iterable[Call]], timeout_s: float = ANSWER_S, *, often: bool = False
    ) -> dict[int, list[ApiMessage]]:
        """Asks brokers in parallel; those that do not answer in time are absent.

        `often`: a broker that did not answer a moment ago gets little or no time, so that a paused one does not slow a
        poll. If no broker answers like that, all get the full time.
        """
        chosen = {b: (timeout_s if not often else self._time_for(b, timeout_s)) for b in questions}
        answers = self._gather({b: (questions[b], time_s) for b, time_s in chosen.items() if time_s > 0})
        if often and not answers and any(time_s < timeout_s for time_s in chosen.values()):
            answers = self._gather({b: (asked, timeout_s) for b, asked in questions.items()})
        return answers

    def ask_all(self, question: Call, timeout_s: float = ANSWER_S, *, often: bool = False) -> dict[int, ApiMessage]:
        """Sends the same request to every broker and returns the answers by broker."""
        asked = dict.fromkeys(self.brokers, (question,))
        return {broker: answers[0] for broker, answers in self.gather(asked, timeout_s, often=often).items()}

    def freshest(self) -> list[int]:
        """The brokers that answer, those with the newest metadata first."""
        seen = self.ask_all(versions_call())
        return sorted(seen, key=lambda broker: (-metadata_offset(seen[broker]), broker))

    def close(self) -> None:
        """Closes every socket; idempotent."""
        with self._lock:
            self._closed = True
            idle = [connection for connections in self._idle.values() for connection in connections]
            self._idle.clear()
        for connection in idle:
            connection.close()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _gather(self, asked: Mapping[int, tuple[Iterable[Call], float]]) -> dict[int, list[ApiMessage]]:
        running: dict[int, Future[list[ApiMessage]]] = {
            broker: self._threads.submit(self.ask_in_turn, broker, questions, time_s)
            for broker, (questions, time_s) in asked.items()
        }
        answers = {}
        for broker, future in running.items():
            try:
                answers[broker] = future.result()
            except Unanswered:
                continue  # a caller that needs the reason asks that broker alone
        return answers

    def _take(self, broker: int, give_up_at: float) -> tuple[Connection, bool]:
        with self._lock:
            if self._closed:
                raise HarnessFailure("the observer was closed")
            if self._idle[broker]:
                return self._idle[broker].pop(), False
        return Connection(self._addresses[broker], give_up_at), True

    def _give_back(self, broker: int, connection: Connection) -> None:
        with self._lock:
            self._silent_since.pop(broker, None)
            if not self._closed:
                self._idle[broker].append(connection)
                return
        connection.close()

    def _fell_silent(self, broker: int, why: BaseException) -> None:
        """Drops idle connections, and remembers a timeout, which costs time. A refused connection costs none."""
        with self._lock:
            stale, self._idle[broker] = self._idle[broker], []
            if isinstance(why, TimeoutError):
                self._silent_since[broker] = time.monotonic()
        for connection in stale:
            connection.close()

    def _time_for(self, broker: int, timeout_s: float) -> float:
        with self._lock:
            since = self._silent_since.get(broker)
        if since is None:
            return timeout_s
        return 0.0 if time.monotonic() - since < SUSPECT_FOR_S else min(timeout_s, SUSPECT_S)


def versions_call(newest: int = _API_VERSIONS) -> Call:
    """Asks for features and for the offset of the broker's metadata. Only version 4 reports levels from 0 on."""
    return Call(ApiVersionsRequest, lambda _: _versions_request(), newest)


def metadata_offset(answer: ApiVersionsResponse) -> int:
    """The offset in the metadata log up to which a broker knows the cluster: in KRaft, the finalized features' epoch.

    It rises twice a second even in an idle cluster (metadata.max.idle.interval.ms), so a broker whose value stands
    still has stale metadata.
    """
    return int(answer.finalized_features_epoch)


def _versions_request() -> ApiMessage:
    return ApiVersionsRequest(client_software_name=_CLIENT_ID, client_software_version="1")


def _left(give_up_at: float) -> float:
    left_s = give_up_at - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("no answer in time")
    return left_s

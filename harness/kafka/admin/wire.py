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
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from harness.kafka.admin.security import PLAINTEXT, Login, Security
from harness.kafka.decoding import DECODING, answer_class
from harness.model.errors import HarnessFailure

ANSWER_S: Final = 1.5  # the time for one broker's answer to an ordinary request
SUSPECT_S: Final = 0.3  # the same for a frequent request to a broker that did not answer the last one
SUSPECT_FOR_S: Final = 0.5  # for this time after a timeout, frequent requests skip the broker
_CLIENT_ID: Final = "durability-observer"
_FRAME_BYTES_MAX: Final = 64 << 20
_TLS_ALERT: Final = 0x1503  # how a TLS server's answer to a plaintext client begins
_CORRELATION: Final = struct.Struct(">i")
_CORRELATION_AT: Final = 8  # behind the length, the api key and its version
_METADATA: Final = 12  # the newest of which errors are those of topics and partitions
_API_VERSIONS: Final = 3  # the first with features and the metadata offset; every KRaft release answers it

# What ends an exchange on a socket: a deadline, a closed connection, or bytes that are no answer.
BROKEN: Final = (OSError, ValueError, struct.error, IndexError)

# Errors for which kafka-python still has a name that Kafka has replaced.
_RENAMED: Final = {-1: "UNKNOWN_SERVER_ERROR", 6: "NOT_LEADER_OR_FOLLOWER", 10: "MESSAGE_TOO_LARGE"}


class Unanswered(HarnessFailure):
    """One broker gave no usable answer in time: it is down, paused, isolated, or does not know the request."""


class ClosedByBrokerError(ConnectionError):
    """The broker closed the connection before it answered."""


class Refused(Unanswered):
    """A broker does not accept this client: its login, its certificate, or its protocol. A retry cannot change that."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request without a chosen version.

    `build` makes the message of a version; `newest` is the highest one, and `oldest` the lowest.
    """

    kind: type[ApiMessage]  # a request class of kafka.protocol
    build: Callable[[int], ApiMessage]
    newest: int = 99
    oldest: int = 0


def call(kind: type[ApiMessage], newest: int = 99, /, **fields: object) -> Call:
    """A request with the same fields in every version."""
    return Call(kind, lambda _: kind(**fields), newest)


def error_name(code: int) -> str | None:
    """Kafka's name of an error code, such as "NOT_LEADER_OR_FOLLOWER"; None for success."""
    if code == 0:
        return None
    known = kafka_errors.get(code)
    return _RENAMED.get(code) or (str(known.message) if known is not None else f"error {code}")


@dataclass(frozen=True, slots=True)
class Prepared:
    """An encoded request, with its length in front, and the class of its answer."""

    frame: bytearray
    answer: type[ApiMessage]


class Connection:
    """One socket to one broker, with the versions that it supports. Used by one thread at a time."""

    def __init__(self, address: tuple[str, int], give_up_at: float, security: Security = PLAINTEXT) -> None:
        self.address = address
        self.received_bytes = 0
        self._socket = socket.create_connection(address, timeout=_left(give_up_at))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation = 0
        try:
            if security.tls:
                self._socket = security.tls.wrap_socket(self._socket, server_hostname=address[0])
            self.reported = self._exchange(_versions_request(), _API_VERSIONS, give_up_at)
            self.versions = {api.api_key: (api.min_version, api.max_version) for api in self.reported.api_keys}
            if security.login:
                self._log_in(security.login, give_up_at)
        except ssl.SSLError as refused:
            self.close()
            raise _refusal_of_tls(address, refused) from refused
        except BaseException:
            self.close()
            raise

    def ask(self, question: Call, give_up_at: float) -> ApiMessage:
        """The decoded answer. OSError or TimeoutError from the socket; Unanswered when the broker does not know it."""
        version = self._chosen(question)
        return self._exchange(question.build(version), version, give_up_at)

    def version_of(self, question: Call) -> int | None:
        """The highest version that both sides support; None without one."""
        low, high = self.versions.get(question.kind.API_KEY, (0, -1))
        version = int(min(high, question.kind.max_version, question.newest))
        return version if version >= max(low, question.oldest) else None

    def exchange(self, prepared: Prepared, give_up_at: float) -> ApiMessage:
        """The decoded answer to a request that was encoded before. OSError or TimeoutError from the socket."""
        self._correlation += 1
        frame = prepared.frame
        _CORRELATION.pack_into(frame, _CORRELATION_AT, self._correlation)
        self._send(frame, give_up_at)
        return self._answer(prepared.answer, give_up_at)

    def prepare(self, question: Call) -> Prepared:
        """Encodes a request for `exchange`, in the version that `ask` would choose; Unanswered as there.

        It fits every connection to a broker with the same versions, and is used by one thread at a time.
        """
        version = self._chosen(question)
        message = question.build(version)
        message.API_VERSION = version
        message.with_header(correlation_id=0, client_id=_CLIENT_ID)
        return Prepared(bytearray(message.encode(header=True, framed=True)), _kind_of_answer(message))

    def close(self) -> None:
        self._socket.close()

    def interrupt(self) -> None:
        """Ends the exchange of another thread, and every later one, with an OSError."""
        with contextlib.suppress(OSError):  # it is no longer connected
            self._socket.shutdown(socket.SHUT_RDWR)

    def _chosen(self, question: Call) -> int:
        version = self.version_of(question)
        if version is None:
            raise Unanswered(f"the broker supports no version of {question.kind.__name__} that this harness knows")
        return version

    def _log_in(self, login: Login, give_up_at: float) -> None:
        """Authenticates (KIP-43, KIP-152). Refused with the broker's reason."""
        who = f"{self.address[0]}:{self.address[1]} refuses the login of {login.user} by {login.mechanism}"
        asked = call(SaslHandshakeRequest, mechanism=login.mechanism)
        offered = self.ask(asked, give_up_at)
        if error := error_name(offered.error_code):
            known = f"; it knows {', '.join(offered.mechanisms)}" if offered.mechanisms else ""
            raise Refused(f"{who}: {error}{known}")
        messages = login.exchange()
        while not messages.is_done():
            answer = self.ask(call(SaslAuthenticateRequest, auth_bytes=messages.auth_bytes()), give_up_at)
            if error := error_name(answer.error_code):
                raise Refused(f"{who}: {answer.error_message or error}")
            try:
                messages.receive(bytes(answer.auth_bytes))
            except (ValueError, KeyError) as wrong:
                raise Refused(f"{who}: the answer of the broker proves no knowledge of the password") from wrong

    def _exchange(self, message: ApiMessage, version: int, give_up_at: float) -> ApiMessage:
        self._correlation += 1
        message.API_VERSION = version
        message.with_header(correlation_id=self._correlation, client_id=_CLIENT_ID)
        self._send(message.encode(header=True, framed=True), give_up_at)
        return self._answer(_kind_of_answer(message), give_up_at)

    def _send(self, frame: bytes | bytearray, give_up_at: float) -> None:
        self._socket.settimeout(_left(give_up_at))
        self._socket.sendall(frame)

    def _answer(self, kind: type[ApiMessage], give_up_at: float) -> ApiMessage:
        (size,) = struct.unpack(">i", self._receive(4, give_up_at))
        if size >> 16 == _TLS_ALERT:
            raise ConnectionError("the listener expects TLS")
        if not 4 <= size <= _FRAME_BYTES_MAX:
            raise ConnectionError(f"an answer of {size} bytes is not one of Kafka")
        frame = self._receive(size, give_up_at)
        (correlation,) = struct.unpack_from(">i", frame)
        if correlation != self._correlation:
            raise ConnectionError(f"an answer to request {correlation}, not {self._correlation}")
        with DECODING:
            return kind.decode(frame, header=True)

    def _receive(self, size: int, give_up_at: float) -> bytearray:
        self.received_bytes += size
        received = bytearray(size)
        left = memoryview(received)
        while left:
            self._socket.settimeout(_left(give_up_at))
            count = self._socket.recv_into(left)
            if not count:
                raise ClosedByBrokerError("closed by the broker")
            left = left[count:]
        return received


class Wire:
    """Connections to the nodes of one cluster. Thread-safe; close it after use.

    `broker` in its methods is a node id. It may be a controller, which answers the few requests that it knows.
    """

    def __init__(
        self,
        brokers: Mapping[int, tuple[str, int]],
        controllers: Mapping[int, tuple[str, int]] | None = None,
        security: Security = PLAINTEXT,
    ) -> None:
        self._security = security
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
        return Connection(self._addresses[broker], give_up_at, self._security), True

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


def metadata_call(topics: Iterable[str] | None) -> Call:
    """Asks for the partitions of these topics, or of all (None). The brokers are in every answer."""
    topic = MetadataRequest.MetadataRequestTopic
    named = None if topics is None else list(topics)
    return Call(
        MetadataRequest,
        lambda _: MetadataRequest(
            topics=None if named is None else [topic(name=name) for name in named], allow_auto_topic_creation=False
        ),
        _METADATA,
    )


def versions_call(newest: int = _API_VERSIONS) -> Call:
    """Asks for features and for the offset of the broker's metadata. Only version 4 reports levels from 0 on."""
    return Call(ApiVersionsRequest, lambda _: _versions_request(), newest)


def metadata_offset(answer: ApiVersionsResponse) -> int:
    """The offset in the metadata log up to which a broker knows the cluster: in KRaft, the finalized features' epoch.

    It rises twice a second even in an idle cluster (metadata.max.idle.interval.ms), so a broker whose value stands
    still has stale metadata.
    """
    return int(answer.finalized_features_epoch)


def finalized_levels(answer: ApiVersionsResponse) -> dict[str, int]:
    """The level of each finalized feature, as a node knows it at `metadata_offset`; a feature at level 0 is absent."""
    return {feature.name: feature.max_version_level for feature in answer.finalized_features or ()}


def _versions_request() -> ApiMessage:
    return ApiVersionsRequest(client_software_name=_CLIENT_ID, client_software_version="1")


def _kind_of_answer(message: ApiMessage) -> type[ApiMessage]:
    kind = answer_class(message.header)
    if kind is None:
        raise HarnessFailure(f"kafka-python has no class for the answer to {type(message).__name__}")
    return kind


def _refusal_of_tls(address: tuple[str, int], refused: ssl.SSLError) -> Exception:
    """The error for the caller: a refusal, or an ordinary end of the connection if the broker went away meanwhile."""
    if isinstance(refused, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError):
        return ConnectionError("closed by the broker during the TLS handshake")
    if isinstance(refused, ssl.SSLCertVerificationError):
        why = f"its certificate cannot be trusted ({refused.verify_message})"
    elif refused.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        why = "it does not speak TLS"
    else:
        why = (refused.reason or str(refused)).replace("_", " ").lower()
    return Refused(f"TLS with {address[0]}:{address[1]} failed: {why}")


def _left(give_up_at: float) -> float:
    left_s = give_up_at - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("no answer in time")
    return left_s

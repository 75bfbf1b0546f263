"""Runs a Java client of the release in a process of its own; `ClientDriver.java` is the other end and has the format.

The process ends when its standard input ends, and when the thread that started it ends (PR_SET_PDEATHSIG), so that it
does not outlive a crash of the harness.
"""

from __future__ import annotations

import queue
import signal
import struct
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final

from confluent_kafka import KafkaException, TopicPartition

from harness.clusters.processes.bound_process import bound
from harness.kafka.release import kafka_streams
from harness.kafka.release.java import find_java
from harness.kafka.release.java_clients import MAIN
from harness.kafka.release.release import Release
from harness.model.outcome import JAVA_CLIENTS

DIED: Final = "_JAVA_DIED"
TIMED_OUT: Final = "_TIMED_OUT"
_FATAL: Final = 1
_RETRIABLE: Final = 2
_START_S: Final = 60.0
_END_S: Final = 5.0
_FLAGS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx192m")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
Text = str  # since JavaError has a method `str`


@dataclass(frozen=True, slots=True)
class JavaClients:
    """The Java executable, classpaths and main class of the release's own clients and its Kafka Streams."""

    version: str
    executable: Path
    classpath: tuple[Path, ...]
    streams: tuple[Path, ...] = ()
    main: str = MAIN

    @property
    def name(self) -> str:
        """The name of the client in reservations."""
        return f"{JAVA_CLIENTS} {self.version}"

    def of_streams(self) -> JavaClients:
        """These clients with the classpath and main class of the Kafka Streams application."""
        return replace(self, classpath=self.streams, main=kafka_streams.MAIN)


def clients_of(release: Release) -> JavaClients | None:
    """The clients of a release; None if they were not requested."""
    if not release.java_clients:
        return None
    executable = find_java(release.version).executable
    return JavaClients(release.version, executable, release.java_clients, release.kafka_streams)


@dataclass(frozen=True, slots=True)
class JavaError:
    """An exception of the Java client, with the methods of a KafkaError. Its name is the name of its class."""

    reported: Text
    flags: int = 0
    text: Text = ""
    places: tuple[tuple[Text, int], ...] = ()

    def name(self) -> Text:
        return self.reported

    def str(self) -> Text:
        return f"{self.reported}: {self.text}"

    def fatal(self) -> bool:
        return bool(self.flags & _FATAL)

    def retriable(self) -> bool:
        return bool(self.flags & _RETRIABLE)

    def __str__(self) -> Text:
        return self.str()


class Fields:
    """Reads the fields of a frame."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.at = 1

    @property
    def op(self) -> bytes:
        return self.body[:1]

    def byte(self) -> int:
        self.at += 1
        return self.body[self.at - 1]

    def i32(self) -> int:
        self.at += 4
        return int(_INT.unpack_from(self.body, self.at - 4)[0])

    def i64(self) -> int:
        self.at += 8
        return int(_LONG.unpack_from(self.body, self.at - 8)[0])

    def content(self) -> bytes | None:
        length = self.i32()
        if length < 0:
            return None
        self.at += length
        return self.body[self.at - length : self.at]

    def text(self) -> str:
        return (self.content() or b"").decode()

    def places(self) -> list[tuple[str, int]]:
        return [(self.text(), self.i32()) for _ in range(self.i32())]


def number(value: int) -> bytes:
    """An int of a frame."""
    return _INT.pack(value)


def long(value: int) -> bytes:
    """A long of a frame."""
    return _LONG.pack(value)


def content(value: bytes | str | None) -> bytes:
    """A content or a text of a frame."""
    if value is None:
        return _INT.pack(-1)
    raw = value.encode() if isinstance(value, str) else value
    return _INT.pack(len(raw)) + raw


def places(parts: Iterable[TopicPartition], *, offsets: bool = False) -> bytes:
    """Partitions of a frame, with an offset of each."""
    packed = [content(p.topic) + number(p.partition) + (long(p.offset) if offsets else b"") for p in parts]
    return number(len(packed)) + b"".join(packed)


class JavaProcess:
    """The process of one client. Its owner sends requests, and handles frames that arrive in between (`event`)."""

    def __init__(self, clients: JavaClients, kind: str, settings: Mapping[str, object]) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process ends
        self._process = _started(clients, self._stderr)
        self._frames: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        assert self._process.stdout is not None
        reader = threading.Thread(
            target=_read, args=(self._process.stdout, self._frames), name="java-frames", daemon=True
        )
        reader.start()
        self._finalizer = weakref.finalize(self, _kill, self._process, self._stderr)
        self._calls = 0
        pairs = [content(key) + content(_text(value)) for key, value in settings.items()]
        self.send(b"C", content(kind), number(len(pairs)), *pairs)
        self.answer(0, _START_S)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, op: bytes, *fields: bytes) -> None:
        """Sends a frame. KafkaException if the process has ended; then it has not received the whole frame."""
        body = op + b"".join(fields)
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(number(len(body)) + body)
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise self._died() from error

    def ask(self, what: str, *fields: bytes, timeout_s: float, op: bytes = b"Q") -> Fields:
        """The answer to a request. KafkaException with a JavaError if it failed, or without an answer in time."""
        self._calls += 1
        call = self._calls
        self.send(op, number(call), content(what), *fields)
        return self.answer(call, timeout_s)

    def answer(self, call: int, timeout_s: float) -> Fields:
        give_up_at_s = time.monotonic() + timeout_s
        while (left_s := give_up_at_s - time.monotonic()) > 0:
            frame = self.take(left_s)
            if frame is None:
                break
            if frame.op not in (b"R", b"E"):
                self.event(frame)
            elif frame.i32() != call:
                continue  # the late answer to an earlier call
            elif frame.op == b"R":
                return frame
            else:
                raise KafkaException(_error(frame))
        raise KafkaException(JavaError(TIMED_OUT, text=f"no answer within {timeout_s:g} s"))

    def take(self, timeout_s: float) -> Fields | None:
        """The next frame; None after `timeout_s` without one. KafkaException if the process has ended."""
        try:
            body = self._frames.get(timeout=timeout_s) if timeout_s > 0 else self._frames.get_nowait()
        except queue.Empty:
            return None
        if body is None:
            self._frames.put(None)  # for the next call
            raise self._died()
        return Fields(body)

    def event(self, frame: Fields) -> None:
        """For subclasses: handles a frame that is no answer to a request."""

    def close(self, within_s: float) -> None:
        """Closes the client in order, within `within_s`, and then ends the process in any case."""
        with suppress(KafkaException):
            self.ask("close", long(int(within_s * 1000)), timeout_s=within_s + 1.0, op=b"X")
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
        self.kill()

    def freeze(self) -> None:
        """Stops the process for good, with its connections open; `kill` ends it."""
        self._process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        """Ends the process at once."""
        self._finalizer()

    def _died(self) -> KafkaException:
        with suppress(OSError, ValueError):
            self._stderr.seek(0)
            lines = self._stderr.read().decode("utf-8", "replace").strip().splitlines()
            return KafkaException(JavaError(DIED, _FATAL, " / ".join(lines[-3:])))
        return KafkaException(JavaError(DIED, _FATAL))


def _started(clients: JavaClients, stderr: IO[bytes]) -> subprocess.Popen[bytes]:
    java = [str(clients.executable), *_FLAGS, "-cp", ":".join(map(str, clients.classpath)), clients.main]
    launch = bound(java)
    return subprocess.Popen(
        launch,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        start_new_session=True,  # so that Ctrl-C reaches only the harness, which ends its clients in order
    )


def _read(pipe: IO[bytes], frames: queue.SimpleQueue[bytes | None]) -> None:
    """Puts frames into the queue as they arrive; None after the last."""
    with suppress(OSError, ValueError):
        while len(head := pipe.read(4)) == 4:
            body = pipe.read(_INT.unpack(head)[0])
            if not body:
                break
            frames.put(body)
    frames.put(None)
    pipe.close()


def _kill(process: subprocess.Popen[bytes], stderr: IO[bytes]) -> None:
    process.kill()
    process.wait(_END_S)
    for pipe in (process.stdin, stderr):  # the thread that reads stdout closes that
        if pipe is not None:
            with suppress(OSError, ValueError):
                pipe.close()


def _error(frame: Fields) -> JavaError:
    return JavaError(frame.text(), frame.byte(), frame.text(), tuple(frame.places()))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

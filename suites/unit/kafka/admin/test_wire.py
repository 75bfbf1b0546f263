"""Deadlines of requests to sockets that are silent, close the connection, or send garbage. No Kafka is needed."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from kafka.protocol.metadata import ApiVersionsResponse

from harness.kafka.admin.wire import SUSPECT_FOR_S, Unanswered, Wire, versions_call

SILENCE_S = 0.4
Serve = Callable[[socket.socket], None]


@pytest.fixture
def listen() -> Iterator[Callable[[Serve], tuple[str, int]]]:
    """Starts a listener that passes each connection to a function; everything is closed at the end."""
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def listening(serve: Serve) -> tuple[str, int]:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    serve(connection)

        threads.append(threading.Thread(target=accept))
        threads[-1].start()
        address: tuple[str, int] = listener.getsockname()
        return address

    yield listening
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()


def silent(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def took(action: Callable[[], object]) -> float:
    started = time.monotonic()
    action()
    return time.monotonic() - started


def test_a_silent_broker_costs_no_more_than_its_deadline(listen: Callable[[Serve], tuple[str, int]]) -> None:
    wire = Wire({1: listen(silent)})
    with pytest.raises(Unanswered, match="broker 1"):
        wire.ask(1, versions_call(), SILENCE_S)
    assert SILENCE_S <= took(lambda: wire.ask_all(versions_call(), SILENCE_S)) < SILENCE_S + 0.5
    wire.close()


def test_silent_brokers_are_asked_in_parallel(listen: Callable[[Serve], tuple[str, int]]) -> None:
    wire = Wire({broker: listen(silent) for broker in (1, 2, 3)})
    assert took(lambda: wire.ask_all(versions_call(), SILENCE_S)) < 2 * SILENCE_S
    assert wire.ask_all(versions_call(), SILENCE_S) == {}
    wire.close()


def test_a_silent_broker_is_asked_in_full_when_no_other_answers(listen: Callable[[Serve], tuple[str, int]]) -> None:
    asked: list[float] = []

    def counted(connection: socket.socket) -> None:
        asked.append(time.monotonic())
        silent(connection)

    wire = Wire({1: listen(counted), 2: listen(hanging_up)})
    wire.ask_all(versions_call(), SILENCE_S)
    # Broker 1 was silent a moment ago, so it gets no time. As no other broker answers, it is then asked in full.
    assert took(lambda: wire.ask_all(versions_call(), SILENCE_S, often=True)) >= SILENCE_S
    assert len(asked) == 2
    assert asked[1] - asked[0] < SUSPECT_FOR_S + SILENCE_S
    wire.close()


def hanging_up(connection: socket.socket) -> None:
    connection.recv(4)


def test_a_broker_that_closes_the_connection_is_absent_at_once(listen: Callable[[Serve], tuple[str, int]]) -> None:
    wire = Wire({1: listen(hanging_up)})
    assert took(lambda: wire.ask_all(versions_call(), 5.0)) < 2.0
    wire.close()


def test_a_closed_port_is_unanswered_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address: tuple[str, int] = free.getsockname()
    wire = Wire({7: address})
    with pytest.raises(Unanswered, match=r"broker 7.*refused"):
        wire.ask(7, versions_call(), 5.0)
    wire.close()


@pytest.mark.parametrize(
    "answer", [struct.pack(">i", 1 << 30), struct.pack(">i", 2), struct.pack(">ii", 4, 99), b"HTTP/1.1 400"]
)
def test_a_malformed_answer_counts_as_none(listen: Callable[[Serve], tuple[str, int]], answer: bytes) -> None:
    def talk(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(answer)

    wire = Wire({1: listen(talk)})
    with pytest.raises(Unanswered, match="broker 1"):
        wire.ask(1, versions_call(), 2.0)
    wire.close()


def answering(connection: socket.socket) -> None:
    """Answers each request with its correlation id and four bytes."""
    while head := connection.recv(4, socket.MSG_WAITALL):
        (size,) = struct.unpack(">i", head)
        request = connection.recv(size, socket.MSG_WAITALL)
        connection.sendall(struct.pack(">i", 8) + request[4:8] + bytes(4))


def test_answers_are_decoded_in_one_thread_at_a_time(
    listen: Callable[[Serve], tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """kafka-python compiles a decoder at its first use, and two threads at once may leave one that always fails."""
    inside: list[int] = []
    most: list[int] = []

    def decode(data: bytes, **_: object) -> None:
        inside.append(1)
        time.sleep(0.05)
        most.append(len(inside))
        inside.pop()
        raise ValueError("no answer")

    monkeypatch.setattr(ApiVersionsResponse, "decode", decode)
    wire = Wire({broker: listen(answering) for broker in (1, 2, 3)})

    def ask(broker: int) -> None:
        with suppress(ValueError, Unanswered):
            wire.ask(broker, versions_call(), 5.0)

    with ThreadPoolExecutor() as pool:
        list(pool.map(ask, (1, 2, 3)))
    assert most == [1, 1, 1]
    wire.close()

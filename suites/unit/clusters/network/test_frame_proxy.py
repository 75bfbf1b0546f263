"""A frame proxy between a client and a broker, both sockets of the test: what it holds, and when it releases it."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from harness.clusters.network.frame_proxy import FrameProxy, HeldFrame, Holding, addresses
from harness.kafka.storage.request_frames import APIS, LENGTH
from harness.model.errors import HarnessFailure
from harness.model.waiting import wait_for

END, PRODUCE, METADATA = APIS["EndTxn"], APIS["Produce"], APIS["Metadata"]
COMMIT, HEARTBEAT = APIS["OffsetCommit"], APIS["Heartbeat"]
BOUND_S = 5.0


def frame(api: int, correlation: int, client: str = "held-1", body: bytes = b"") -> bytes:
    name = client.encode()
    whole = struct.pack(">hhih", api, 1, correlation, len(name)) + name + body
    return LENGTH.pack(len(whole)) + whole


def of_group(generation: int, group: bytes = b"g") -> bytes:
    """How requests of a member of a group begin in version 1."""
    return struct.pack(">h", len(group)) + group + struct.pack(">ih", generation, 1) + b"m"


def receive(connection: socket.socket) -> bytes | None:
    """The next frame without its length; None at the end."""
    data = b""
    while len(data) < 4 or len(data) < 4 + LENGTH.unpack_from(data)[0]:
        piece = connection.recv(4 if len(data) < 4 else 4 + LENGTH.unpack_from(data)[0] - len(data))
        if not piece:
            return None
        data += piece
    return data[4:]


class Broker:
    """Answers every frame with its correlation id and an error code, and records the ids in order."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self.mute = False
        self.error = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):  # a test ends and closes it
            while request := receive(connection):
                (correlation,) = struct.unpack_from(">i", request, 4)
                self.received.append(correlation)
                if not self.mute:
                    connection.sendall(LENGTH.pack(10) + struct.pack(">iih", correlation, 0, self.error))

    def disconnect(self) -> None:
        for connection in self._connections:
            connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        for connection in self._connections:
            connection.close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    running = Broker()
    yield running
    running.close()


def free_port() -> tuple[str, int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address: tuple[str, int] = free.getsockname()
    return address


@contextmanager
def frame_proxy(
    broker: Broker, *, again: bool = False, answers: bool = False, api: str = "EndTxn"
) -> Iterator[tuple[FrameProxy, tuple[str, int]]]:
    listen = free_port()
    holding = Holding(apis=frozenset({api}), client="held-", again=again, answers=answers)
    with FrameProxy({"client > b1": (listen, broker.address)}, holding) as running:
        yield running, listen


def client(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=BOUND_S)


def wait_held(frames: list[HeldFrame], count: int) -> list[HeldFrame]:
    return wait_for(lambda: frames, until=lambda held: len(held) == count, deadline_s=BOUND_S, what="held frames")


def wait_left(held: HeldFrame) -> None:
    wait_for(lambda: held.left_ns, until=bool, deadline_s=BOUND_S, what="the end of the client's connection")


def test_other_requests_and_other_clients_pass(broker: Broker) -> None:
    with frame_proxy(broker) as (running, at), client(at) as mine:
        for api, correlation, name in ((METADATA, 1, "held-1"), (END, 2, "other-1"), (PRODUCE, 3, "held-1")):
            mine.sendall(frame(api, correlation, name))
            assert (receive(mine) or b"")[:4] == LENGTH.pack(correlation)
        assert running.frames == []


def test_a_held_request_arrives_after_its_client_was_served_over_another_connection(broker: Broker) -> None:
    with frame_proxy(broker) as (running, at):
        with client(at) as first:
            first.sendall(frame(END, 7) + frame(METADATA, 8))
            (held,) = wait_held(running.frames, 1)
        wait_left(held)
        with client(at) as second:
            second.sendall(frame(END, 9))
            assert (receive(second) or b"")[:4] == LENGTH.pack(9)
        assert broker.received == [9]
        running.release()
        assert broker.received[:2] == [9, 7]  # and then 8, which was behind 7
        assert held.errors == ()
        times = [held.held_ns, held.left_ns, held.again_ns, held.released_ns, held.answered_ns]
        assert times == sorted(t for t in times if t is not None)
        assert not held.cut_off


def test_requests_behind_a_held_request_wait_for_it(broker: Broker) -> None:
    with frame_proxy(broker) as (running, at), client(at) as mine:
        mine.sendall(frame(METADATA, 1) + frame(END, 2) + frame(METADATA, 3) + frame(END, 4))
        wait_held(running.frames, 2)
        assert (receive(mine) or b"")[:4] == LENGTH.pack(1)
        assert broker.received == [1]
        running.release()
        assert [(receive(mine) or b"")[:4] for _ in range(3)] == [LENGTH.pack(n) for n in (2, 3, 4)]
        assert [held.left_ns for held in running.frames] == [None, None]


@pytest.mark.parametrize(
    ("generation", "group", "code", "noted"),
    [(5, b"g", 0, True), (4, b"g", 0, False), (5, b"h", 0, False), (5, b"g", 22, False)],
)
def test_an_accepted_heartbeat_of_a_newer_generation_is_noted(
    broker: Broker, generation: int, group: bytes, code: int, noted: bool
) -> None:
    broker.error = code
    none = struct.pack(">i", 0)
    with frame_proxy(broker, api="OffsetCommit") as (running, address), client(address) as old, client(address) as new:
        old.sendall(frame(COMMIT, 7, body=of_group(4) + none))
        (held,) = wait_held(running.frames, 1)
        assert (held.group, held.generation, held.newer_ns) == ("g", 4, None)
        new.sendall(frame(HEARTBEAT, 8, body=of_group(generation, group)))
        receive(new)
        assert (held.newer_ns is not None) is noted


def test_with_again_a_resent_request_is_held_too(broker: Broker) -> None:
    with frame_proxy(broker, again=True) as (running, at):
        for correlation in (1, 2):
            with client(at) as mine:
                mine.sendall(frame(END, correlation))
                last = wait_held(running.frames, correlation)[-1]
            wait_left(last)
        assert broker.received == []
        assert running.frames[0].again_ns
        running.release()
        assert sorted(broker.received) == [1, 2]


def test_nothing_is_held_after_a_release(broker: Broker) -> None:
    with frame_proxy(broker) as (running, at), client(at) as mine:
        running.release()
        mine.sendall(frame(END, 1))
        assert receive(mine)
        assert running.frames == []


def test_with_answers_only_the_answer_is_held(broker: Broker) -> None:
    with frame_proxy(broker, answers=True) as (running, at), client(at) as mine:
        mine.sendall(frame(END, 5))
        (held,) = wait_held(running.frames, 1)
        wait_for(lambda: held.answered_ns, until=bool, deadline_s=BOUND_S, what="the broker's answer")
        assert broker.received == [5]
        mine.settimeout(0.2)
        with pytest.raises(TimeoutError):
            mine.recv(1)
        running.release()
        mine.settimeout(BOUND_S)
        assert receive(mine)


def test_a_broker_that_disconnects_is_noted_and_not_waited_for(broker: Broker) -> None:
    broker.mute = True
    with frame_proxy(broker) as (running, at):
        with client(at) as mine:
            mine.sendall(frame(END, 1))
            (held,) = wait_held(running.frames, 1)
        wait_left(held)
        broker.disconnect()
        wait_for(lambda: held.cut_off, until=bool, deadline_s=BOUND_S, what="the end of the connection")
        running.release()
        assert held.answered_ns is None


def test_leaving_the_context_closes_all_connections(broker: Broker) -> None:
    with frame_proxy(broker) as (running, at):
        mine = client(at)
        mine.sendall(frame(END, 1))
        wait_held(running.frames, 1)
    with mine:
        assert mine.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        client(at)
    running.close()


def test_an_address_in_use_is_a_failure(broker: Broker) -> None:
    with (
        pytest.raises(HarnessFailure, match="the frame proxy between clients and brokers failed"),
        FrameProxy({"l": (broker.address, broker.address)}, Holding(apis=frozenset())),
    ):
        pass


def test_bytes_that_are_no_frame_end_only_their_connection(broker: Broker) -> None:
    with frame_proxy(broker) as (_, at), client(at) as noisy, client(at) as mine:
        noisy.sendall(b"\xff\xff\xff\xff")
        assert noisy.recv(1) == b""
        mine.sendall(frame(METADATA, 1))
        assert receive(mine)


def test_addresses_are_parsed() -> None:
    assert addresses([("l", "127.0.0.1:1", "10.0.0.1:2")]) == {"l": (("127.0.0.1", 1), ("10.0.0.1", 2))}

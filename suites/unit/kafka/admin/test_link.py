"""One connection to one node that is kept: made again when it ended, and never waited for beyond a deadline."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from kafka.protocol.metadata import ApiVersionsResponse

from harness.kafka.admin.link import Address, Link, Reusable
from harness.kafka.admin.wire import Unanswered, versions_call

ASK_S = 5.0
SILENCE_S = 0.3
_VERSIONS = ApiVersionsResponse(
    error_code=0,
    api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=3)],
    throttle_time_ms=0,
).encode(version=3)


class Node:
    """A listener that answers ApiVersions, and notes the correlation ids of each connection."""

    def __init__(self) -> None:
        self.answers_until = 1 << 30  # requests of one connection, after which it is closed
        self.silent = False  # to every request but the first of a connection
        self.asked: list[list[int]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: Address = self._listener.getsockname()
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def hang_up(self) -> None:
        """Closes every open connection."""
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()
        for thread in self._threads:
            thread.join(ASK_S)
            assert not thread.is_alive()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        asked: list[int] = []
        self.asked.append(asked)
        with connection, suppress(OSError):
            while len(asked) < self.answers_until and (head := connection.recv(4, socket.MSG_WAITALL)):
                request = connection.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
                asked.append(struct.unpack_from(">i", request, 4)[0])
                if not self.silent or len(asked) == 1:
                    answer = request[4:8] + _VERSIONS
                    connection.sendall(struct.pack(">i", len(answer)) + answer)


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    yield made
    made.close()


@pytest.fixture
def link(node: Node) -> Iterator[Link]:
    made = Link(node.address)
    yield made
    made.close()


@pytest.mark.parametrize("reusable", [False, True])
def test_requests_share_a_connection_until_it_ends(node: Node, link: Link, reusable: bool) -> None:
    """A connection that ended while it was idle says nothing about the node now."""
    question = Reusable(versions_call()) if reusable else versions_call()
    for _ in range(3):
        assert link.ask(question, ASK_S).error_code == 0
    node.hang_up()
    assert link.ask(question, ASK_S).error_code == 0
    assert node.asked == [[1, 2, 3, 4], [1, 2]]
    assert link.silent_since_s is None


def test_a_node_that_hangs_up_at_once_is_asked_once(node: Node, link: Link) -> None:
    node.answers_until = 1
    with pytest.raises(Unanswered, match=f"{link.name}: .*, as a listener with SASL does without a login"):
        link.ask(versions_call(), ASK_S)
    assert len(node.asked) == 1
    assert link.silent_since_s is not None


def test_a_silent_node_costs_no_more_than_its_deadline(node: Node, link: Link) -> None:
    node.silent = True
    began_s = time.monotonic()
    with pytest.raises(Unanswered, match="timed out"):
        link.ask(versions_call(), SILENCE_S)
    assert SILENCE_S <= time.monotonic() - began_s < SILENCE_S + 1.0
    silent_since_s = link.silent_since_s
    assert silent_since_s is not None
    with pytest.raises(Unanswered):
        link.ask(versions_call(), SILENCE_S)
    assert link.silent_since_s == silent_since_s
    node.silent = False
    link.ask(versions_call(), ASK_S)
    assert link.silent_since_s is None


def test_threads_wait_for_each_other_within_their_deadlines(node: Node, link: Link) -> None:
    node.silent = True
    reasons: list[str] = []

    def ask(timeout_s: float) -> None:
        try:
            link.ask(versions_call(), timeout_s)
        except Unanswered as silent:
            reasons.append(str(silent))

    threads = [threading.Thread(target=ask, args=(timeout_s,)) for timeout_s in (ASK_S, SILENCE_S)]
    for thread in threads:
        thread.start()
        _until(lambda: bool(node.asked) and len(node.asked[0]) == 2)
    threads[1].join(ASK_S)
    assert reasons == [f"{link.name}: requests of other threads take too long"]
    link.close()  # ends the other one, too
    threads[0].join(ASK_S)
    assert len(reasons) == 2
    with pytest.raises(Unanswered, match="the connection was closed here"):
        link.ask(versions_call(), ASK_S)


def test_what_a_node_supports(link: Link) -> None:
    assert link.supports(versions_call(), ASK_S)
    assert not link.supports(replace(versions_call(newest=9), oldest=4), ASK_S)


def _until(holds: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + ASK_S
    while not holds():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)

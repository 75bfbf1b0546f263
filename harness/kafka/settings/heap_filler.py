"""Fills the heap of a running broker or controller by what its listener promises to anybody.

A request begins with its size, and a server takes that much of its heap at once, before anything else has come
(NetworkReceive; socket.request.max.bytes is 100 MiB by default). A few connections that announce large requests and
send nothing of them exhaust a heap that is smaller: what strangers on a plaintext port do by accident.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from harness.model.errors import HarnessFailure
from harness.model.limits import HEAP, MIB

ANNOUNCED: Final = 96 * MIB
CONNECTIONS: Final = 2 * HEAP // ANNOUNCED + 1
_CONNECT_S: Final = 5.0


@contextmanager
def filled_heap(address: tuple[str, int]) -> Iterator[None]:
    """While inside, requests of twice a node's heap are announced to it. HarnessFailure when it takes not even one."""
    with ExitStack() as connections:
        for number in range(CONNECTIONS):
            try:
                connection = connections.enter_context(socket.create_connection(address, _CONNECT_S))
                connection.sendall(struct.pack(">i", ANNOUNCED))
            except OSError as refused:
                if not number:
                    raise HarnessFailure(f"nobody takes a request at {address[0]}:{address[1]}: {refused}") from refused
                break  # it has ended of those before
        yield

"""A proxy on links between clients and brokers that reads Kafka's frames: it can hold back requests, or their answers.

toxiproxy forwards bytes and does not know requests. While such a fault is active, toxiproxy forwards to this proxy,
and this proxy forwards to the broker. A held request delays everything behind it on the same connection, as TCP would.
If the client disconnects meanwhile, the connection to the broker stays open, and the released request still arrives
there: a request that the network delivered late. All connections are served by one thread of the harness, so the
proxy never outlives it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from harness.kafka.storage.request_frames import (
    FRAME_BYTES_MAX,
    LENGTH,
    Generation,
    Head,
    correlation_of,
    errors_of,
    generation_of,
    head_of,
)
from harness.model.clock import now_ns
from harness.model.errors import MachineFailure

_START_S: Final = 10.0
_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 10.0  # a broker waits less for its followers or for a coordinator
_STOP_S: Final = 10.0
_HEARTBEAT: Final = "Heartbeat"

Address = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The selection of frames to hold back: requests of the kinds in `apis`, or their answers.

    client: the prefix of the client ids. A client's requests are held on its first connection that carries one; what
    it resends over another connection passes, unless `again`. answers: holds the answers, not the requests.
    """

    apis: frozenset[str]
    client: str = ""
    answers: bool = False
    again: bool = False


@dataclass(slots=True, kw_only=True)
class HeldFrame:
    """One request that was held back, or had its answer held back. Times are epoch nanoseconds.

    left_ns: the client closed its connection. again_ns: the client sent such a request over another connection.
    errors: those in the broker's answer; empty = no error, None = no answer, or an unreadable one. group, generation: a
    classic group and its generation, if the request names them. newer_ns: a broker answered a heartbeat of a newer
    generation without an error.
    """

    link: str
    api: str
    version: int
    client: str
    held_ns: int
    left_ns: int | None = None
    again_ns: int | None = None
    released_ns: int | None = None
    answered_ns: int | None = None
    errors: tuple[str, ...] | None = None
    group: str | None = None
    generation: int | None = None
    newer_ns: int | None = None
    cut_off: bool = False  # the connection to the broker ended before its answer came


class FrameProxy:
    """Listens for each link and forwards to its broker. A context manager: leaving it closes all connections.

    listen: by the link's name, the address on which to listen and the address to which to forward.
    """

    def __init__(self, listen: Mapping[str, tuple[Address, Address]], holding: Holding) -> None:
        self.holding = holding
        self.frames: list[HeldFrame] = []  # only the proxy's thread appends
        self.released = asyncio.Event()
        self._listen = listen
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="frame-proxy", daemon=True)
        self._connections: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []

    def __enter__(self) -> FrameProxy:
        self._thread.start()
        try:
            self._do(self._open(), _START_S)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def release(self) -> None:
        """Releases what is held, in order, and waits a bounded time for the brokers' answers."""
        self._do(self._release(), _ANSWER_S + _STOP_S)

    def close(self) -> None:
        """Closes all connections. Idempotent."""
        if self._loop.is_closed():
            return
        try:
            self._do(self._shut(), _STOP_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_STOP_S)
            if not self._thread.is_alive():
                self._loop.close()

    def _do(self, work: Coroutine[object, None, None], deadline_s: float) -> None:
        try:
            asyncio.run_coroutine_threadsafe(work, self._loop).result(deadline_s)
        except (OSError, TimeoutError) as failed:
            raise MachineFailure(
                f"the frame proxy between clients and brokers failed: {failed or 'it hangs'}"
            ) from failed

    # --- in the proxy's own thread ---

    async def _open(self) -> None:
        for name, ((host, port), upstream) in self._listen.items():
            serve = self._serving(name, upstream)
            self._servers.append(await asyncio.start_server(serve, host, port))

    def _serving(
        self, link: str, upstream: Address
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections.add(task)
            try:
                await _Connection(self, link, reader, writer).forward(upstream)
            except (OSError, TimeoutError, asyncio.CancelledError):
                pass  # one side disconnected, or the proxy closes: the other side is disconnected as well
            finally:
                writer.close()
                self._connections.discard(task)

        return serve

    async def _release(self) -> None:
        self.released.set()
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + _ANSWER_S
        while loop.time() < give_up_at and any(not (f.answered_ns or f.cut_off) for f in self.frames):
            await asyncio.sleep(0.01)

    async def _shut(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def hold(self, link: str, head: Head, held_before: bool) -> HeldFrame | None:
        """The record of a request that has to be held; None if it passes.

        held_before: whether an earlier request of the same connection was held.
        """
        holding = self.holding
        if self.released.is_set() or head.api not in holding.apis or not head.client.startswith(holding.client):
            return None
        others = [f for f in self.frames if (f.link, f.client) == (link, head.client)]
        if others and not held_before:
            for frame in others:
                if frame.api == head.api:
                    frame.again_ns = frame.again_ns or now_ns()
            if not holding.again:
                return None
        held = HeldFrame(link=link, api=head.api, version=head.version, client=head.client, held_ns=now_ns())
        self.frames.append(held)
        return held

    def accepted(self, newer: Generation) -> None:
        """A broker accepted a request of this generation, so that it knows of it from now on."""
        for frame in self.frames:
            if frame.group == newer.group and (frame.generation or 0) < newer.number:
                frame.newer_ns = frame.newer_ns or now_ns()


@dataclass(slots=True)
class _Connection:
    """One connection of a client, and the connection to the broker that belongs to it."""

    frame_proxy: FrameProxy
    link: str
    client_in: asyncio.StreamReader
    client_out: asyncio.StreamWriter
    held: dict[int, tuple[Head, HeldFrame]] = field(default_factory=dict)  # by correlation id, not yet answered
    heartbeats: dict[int, tuple[Head, Generation]] = field(default_factory=dict)  # the same
    any_held: bool = False
    left: bool = False
    settled: asyncio.Event = field(default_factory=asyncio.Event)  # every held request has been answered

    async def forward(self, upstream: Address) -> None:
        """Forwards until either side disconnects, and until the broker has answered every held request."""
        broker_in, broker_out = await asyncio.wait_for(asyncio.open_connection(*upstream), _CONNECT_S)
        queue: asyncio.Queue[tuple[bytes, HeldFrame | None] | None] = asyncio.Queue()
        taking = asyncio.create_task(self._take(queue))
        sending = asyncio.create_task(self._send(queue, broker_out))
        answering = asyncio.create_task(self._answer(broker_in))
        tasks = {taking, sending, answering}
        try:
            await asyncio.wait({sending, answering}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            try:  # the proxy may close, and cancel this, while it waits
                await asyncio.gather(*tasks, return_exceptions=True)
            finally:
                for _, held in self.held.values():
                    held.cut_off = True
                broker_out.close()

    async def _take(self, queue: asyncio.Queue[tuple[bytes, HeldFrame | None] | None]) -> None:
        """Keeps reading behind a held request: otherwise the end of the connection would go unnoticed."""
        try:
            async for frame in _frames(self.client_in):
                head = head_of(frame)
                held = self.frame_proxy.hold(self.link, head, self.any_held) if head else None
                of = generation_of(head, frame) if head else None
                if head and held:
                    self.any_held = True
                    self.held[head.correlation] = head, held
                    if of:
                        held.group, held.generation = of.group, of.number
                elif head and of and head.api == _HEARTBEAT:
                    self.heartbeats[head.correlation] = head, of
                queue.put_nowait((frame, held))
        finally:
            self.left = True
            for _, held in self.held.values():
                held.left_ns = now_ns()
            queue.put_nowait(None)

    async def _send(
        self, queue: asyncio.Queue[tuple[bytes, HeldFrame | None] | None], broker: asyncio.StreamWriter
    ) -> None:
        while (item := await queue.get()) is not None:
            frame, held = item
            if held and not self.frame_proxy.holding.answers:
                await self.frame_proxy.released.wait()
                held.released_ns = now_ns()
            broker.write(LENGTH.pack(len(frame)) + frame)
            await broker.drain()
        if self.held:
            await asyncio.wait_for(self.settled.wait(), None if self.frame_proxy.holding.answers else _ANSWER_S)

    async def _answer(self, broker: asyncio.StreamReader) -> None:
        async for frame in _frames(broker):
            if beat := self.heartbeats.pop(correlation_of(frame) or 0, None):
                head, newest = beat
                if errors_of(head, frame) == ():
                    self.frame_proxy.accepted(newest)
            if waited := self.held.get(correlation_of(frame) or 0):
                head, held = waited
                held.errors, held.answered_ns = errors_of(head, frame), now_ns()
                if self.frame_proxy.holding.answers:
                    await self.frame_proxy.released.wait()
                    held.released_ns = now_ns()
                del self.held[head.correlation]
                if not self.held:
                    self.settled.set()
            if not self.left:
                with suppress(OSError):
                    self.client_out.write(LENGTH.pack(len(frame)) + frame)
                    await self.client_out.drain()


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Kafka's frames without their lengths, until the other side disconnects. ConnectionError on anything else."""
    while True:
        try:
            (size,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            if not 0 <= size <= FRAME_BYTES_MAX:
                raise ConnectionError(f"no Kafka frame has {size} bytes")
            frame = await reader.readexactly(size)
        except asyncio.IncompleteReadError:
            return
        yield frame


def addresses(frame_proxies: Sequence[tuple[str, str, str]]) -> dict[str, tuple[Address, Address]]:
    """The argument `listen` of `FrameProxy`, from tuples of link, address to listen on, address to forward to."""
    return {link: (_address(listen), _address(upstream)) for link, listen, upstream in frame_proxies}


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)

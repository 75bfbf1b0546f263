"""A hop of ours on links, which looks into what passes: it can hold requests of a kind back, or the answers to them.

toxiproxy forwards bytes and knows nothing of requests. So while such a fault is on, it is made to forward to a hop,
which forwards to the broker. What is held keeps all behind it on the same connection waiting, as TCP would. When its
client hangs up meanwhile, the connection to the broker stays open, and what is let go at last still arrives there: a
request that the network delivered late. Everything runs in one thread of the harness, so that nothing outlives it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from harness.kafka.storage.request_frames import FRAME_BYTES_MAX, LENGTH, Head, correlation_of, errors_of, head_of
from harness.model.clock import now_ns
from harness.model.errors import HarnessFailure

_START_S: Final = 10.0
_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 10.0  # longer than a broker waits for its followers, or for a coordinator
_STOP_S: Final = 10.0

Address = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a hop holds back: requests of these kinds, or the answers to them.

    client: what the client id begins with. Of one client the first connection on which such a request comes is held;
    what it sends again by another connection passes, unless `again`.
    """

    apis: frozenset[str]
    client: str = ""
    answers: bool = False
    again: bool = False


@dataclass(slots=True, kw_only=True)
class HeldFrame:
    """One request that was held back, or whose answer was; times in epoch nanoseconds.

    left_ns: its client hung up. again_ns: its client sent such a request by another connection. errors: what the broker
    answered at last; empty = no error, None = no answer, or none that can be read.
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
    cut_off: bool = False  # the connection to the broker ended before its answer came

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"errors": None if self.errors is None else list(self.errors)}


class FrameProxy:
    """Listens for each link and forwards to its broker. A context manager: leaving it lets go of everything.

    listen: by the link's name, where this listens and whom it reaches.
    """

    def __init__(self, listen: Mapping[str, tuple[Address, Address]], holding: Holding) -> None:
        self.holding = holding
        self.frames: list[HeldFrame] = []  # appended to by the hop's thread alone
        self.released = asyncio.Event()
        self._listen = listen
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hop", daemon=True)
        self._passages: set[asyncio.Task[None]] = set()
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
        """Lets go of what is held, in order, and waits a bounded time until the brokers have answered to it."""
        self._do(self._let_go(), _ANSWER_S + _STOP_S)

    def close(self) -> None:
        """Hangs up on everybody. Idempotent."""
        if self._loop.is_closed():
            return
        try:
            self._do(self._shut(), _STOP_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_STOP_S)
            if not self._thread.is_alive():
                self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None], deadline_s: float) -> None:
        try:
            asyncio.run_coroutine_threadsafe(work, self._loop).result(deadline_s)
        except (OSError, TimeoutError) as failed:
            raise HarnessFailure(f"the hop between clients and brokers failed: {failed or 'it hangs'}") from failed

    # --- in the hop's own thread ---

    async def _open(self) -> None:
        for name, ((host, port), upstream) in self._listen.items():
            serve = self._serving(name, upstream)
            self._servers.append(await asyncio.start_server(serve, host, port))

    def _serving(self, link: str, upstream: Address) -> Any:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._passages.add(task)
            try:
                await _Passage(self, link, reader, writer).through(upstream)
            except (OSError, TimeoutError, asyncio.CancelledError):
                pass  # either side went, or the hop closes: so does the other, as the client of a proxy sees it
            finally:
                writer.close()
                self._passages.discard(task)

        return serve

    async def _let_go(self) -> None:
        self.released.set()
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + _ANSWER_S
        while loop.time() < give_up_at and any(not (f.answered_ns or f.cut_off) for f in self.frames):
            await asyncio.sleep(0.01)

    async def _shut(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._passages):
            task.cancel()
        await asyncio.gather(*self._passages, return_exceptions=True)

    def hold(self, link: str, head: Head, held_before: bool) -> HeldFrame | None:
        """The record of a request that is held; None where it passes. `held_before`: on the same connection."""
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


@dataclass(slots=True)
class _Passage:
    """One connection of a client, and the one to the broker that belongs to it."""

    frame_proxy: FrameProxy
    link: str
    client_in: asyncio.StreamReader
    client_out: asyncio.StreamWriter
    held: dict[int, tuple[Head, HeldFrame]] = field(default_factory=dict)  # by correlation id, not yet answered
    any_held: bool = False
    left: bool = False
    settled: asyncio.Event = field(default_factory=asyncio.Event)  # nothing that was held waits for an answer

    async def through(self, upstream: Address) -> None:
        """Until either side hangs up; where something was held, until the broker has answered to it."""
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
            try:  # the hop may close, and cancel this, while it waits
                await asyncio.gather(*tasks, return_exceptions=True)
            finally:
                for _, held in self.held.values():
                    held.cut_off = True
                broker_out.close()

    async def _take(self, queue: asyncio.Queue[tuple[bytes, HeldFrame | None] | None]) -> None:
        """Goes on reading behind what is held, or the end of the connection would not be seen."""
        try:
            async for frame in _frames(self.client_in):
                head = head_of(frame)
                held = self.frame_proxy.hold(self.link, head, self.any_held) if head else None
                if head and held:
                    self.any_held = True
                    self.held[head.correlation] = head, held
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
    """What follows each length, until the other side hangs up. ConnectionError on what is not Kafka's."""
    while True:
        try:
            (size,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            if not 0 <= size <= FRAME_BYTES_MAX:
                raise ConnectionError(f"a frame of {size} bytes is not Kafka's")
            frame = await reader.readexactly(size)
        except asyncio.IncompleteReadError:
            return
        yield frame


def addresses(frame_proxies: Sequence[tuple[str, str, str]]) -> dict[str, tuple[Address, Address]]:
    """(link, where the hop listens, whom it reaches), as `FrameHop` takes them."""
    return {link: (_address(listen), _address(upstream)) for link, listen, upstream in frame_proxies}


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)

"""Directed links that can be cut, slowed and diverted. Each link is one proxy of a toxiproxy server."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from harness.clusters.network.address_plan import Link
from harness.clusters.network.toxiproxy import ToxiproxyClient
from harness.model.errors import BadInput
from harness.model.link import Break, CutMode, Direction

# toxiproxy calls the way from the party that opened the connection "upstream", and the way back "downstream".
_STREAMS: dict[Direction, tuple[tuple[str, str], ...]] = {
    "requests": (("requests", "upstream"),),
    "answers": (("answers", "downstream"),),
    "both": (("requests", "upstream"), ("answers", "downstream")),
}
_REFUSING = "refusing"
_DIVERTED = "diverted"
# Prefixes of the keys under which `_broken` keeps each kind of break: names of toxics, and the two states of a proxy.
_PREFIXES: dict[Break, tuple[str, ...]] = {
    "cut": ("cut-", _REFUSING),
    "slow": ("latency-", "rate-"),
    "diverted": (_DIVERTED,),
}


class ToxiproxyLinks:
    """Implements `base.Links`. Safe to use from several threads."""

    def __init__(self, client: ToxiproxyClient, links: Iterable[Link]) -> None:
        self._client = client
        self._links = {(link.src, link.dst): link for link in links}
        self._broken: dict[tuple[str, str], dict[str, str]] = {}
        self._lock = threading.RLock()

    def cut(self, src: str, dst: str, mode: CutMode, direction: Direction = "both") -> None:
        """See `base.Links`. A silent cut loses the bytes in flight; its connections are closed when it is healed."""
        name = self._named(src, dst)
        if mode not in ("silent", "refusing"):
            raise BadInput(f"mode = {mode!r} of a cut: write silent or refusing")
        with self._lock:
            if mode == "refusing":
                if direction != "both":
                    raise BadInput(
                        f"a refusing cut of {src} > {dst} has no direction: write direction = both, or mode = silent"
                    )
                self._note(src, dst, _REFUSING, "refuses")
                self._client.set_enabled(name, False)
                return
            for way, stream in _streams(direction):
                self._note(src, dst, f"cut-{way}", f"swallows {way}")
                self._client.add_toxic(name, f"cut-{way}", "timeout", stream, {"timeout": 0})

    def slow(
        self,
        src: str,
        dst: str,
        latency_ms: int = 0,
        jitter_ms: int = 0,
        rate_kb_s: int | None = None,
        direction: Direction = "both",
    ) -> None:
        """See `base.Links`. A second call for the same direction replaces the first one."""
        name = self._named(src, dst)
        if latency_ms <= 0 and jitter_ms <= 0 and rate_kb_s is None:
            raise BadInput(f"slowing {src} > {dst} needs one of latency_ms, jitter_ms and rate_kb_s")
        if latency_ms < 0 or jitter_ms < 0 or (rate_kb_s is not None and rate_kb_s <= 0):
            raise BadInput(
                f"slowing {src} > {dst}: latency_ms and jitter_ms have to be 0 or more, rate_kb_s has to be 1 or more"
            )
        with self._lock:
            for way, stream in _streams(direction):
                if latency_ms or jitter_ms:
                    self._note(src, dst, f"latency-{way}", f"delays {way} by {latency_ms}+-{jitter_ms} ms")
                    delay = {"latency": latency_ms, "jitter": jitter_ms}
                    self._client.add_toxic(name, f"latency-{way}", "latency", stream, delay)
                if rate_kb_s is not None:
                    self._note(src, dst, f"rate-{way}", f"limits {way} to {rate_kb_s} KB/s")
                    self._client.add_toxic(name, f"rate-{way}", "bandwidth", stream, {"rate": rate_kb_s})

    def divert(self, src: str, dst: str) -> None:
        """See `base.Links`."""
        name, (listen, _) = self._named(src, dst), self.frame_proxy(src, dst)
        with self._lock:
            self._note(src, dst, _DIVERTED, "goes through a frame proxy")
            self._client.set_upstream(name, listen)

    def frame_proxy(self, src: str, dst: str) -> tuple[str, str]:
        """See `base.Links`."""
        self._named(src, dst)
        link = self._links[src, dst]
        if link.frame_proxy is None:
            raise BadInput(f"the link {src} > {dst} has no frame proxy: choose a link from client to a broker")
        return link.frame_proxy, link.upstream

    def heal(self, src: str, dst: str, what: Break | None = None) -> None:
        """See `base.Links`."""
        name = self._named(src, dst)
        with self._lock:
            if what is None:
                self._client.clear(name)
                self._undivert(src, dst)
                self._broken.pop((src, dst), None)
                return
            broken = self._broken.get((src, dst), {})
            healed = [key for key in broken if key.startswith(_PREFIXES[what])]
            self._client.remove_toxics(name, [key for key in healed if key not in (_REFUSING, _DIVERTED)])
            if _REFUSING in healed:
                self._client.set_enabled(name, True)
            if _DIVERTED in healed:
                self._undivert(src, dst)
            for key in healed:
                del broken[key]
            if not broken:
                self._broken.pop((src, dst), None)

    def heal_all(self) -> None:
        """See `base.Links`."""
        with self._lock:
            self._client.reset()
            for src, dst in list(self._broken):
                self._undivert(src, dst)
            self._broken.clear()

    def active(self) -> list[str]:
        """See `base.Links`."""
        with self._lock:
            return sorted(
                f"{src} > {dst} {', '.join(sorted(what.values()))}" for (src, dst), what in self._broken.items()
            )

    def parties_reaching(self, dst: str) -> tuple[str, ...]:
        """See `base.Links`."""
        return tuple(src for src, to in self._links if to == dst)

    def reached_from(self, src: str) -> tuple[str, ...]:
        """See `base.Links`."""
        return tuple(dst for opener, dst in self._links if opener == src)

    def _undivert(self, src: str, dst: str) -> None:
        if _DIVERTED in self._broken.get((src, dst), {}):
            link = self._links[src, dst]
            self._client.set_upstream(link.name, link.upstream)

    def _note(self, src: str, dst: str, key: str, what: str) -> None:
        # Noted before the call to toxiproxy: a cut that failed half way has to count as active.
        self._broken.setdefault((src, dst), {})[key] = what

    def _named(self, src: str, dst: str) -> str:
        link = self._links.get((src, dst))
        if link is not None:
            return link.name
        known = sorted({party for pair in self._links for party in pair})
        for name in (src, dst):
            if name not in known:
                raise BadInput(f"no party of a link is called {name!r}: choose one of {', '.join(known)}")
        reached = ", ".join(self.reached_from(src)) or "no party"
        raise BadInput(f"{src} never opens a connection to {dst}: it only connects to {reached}")


def _streams(direction: Direction) -> tuple[tuple[str, str], ...]:
    if direction not in _STREAMS:
        raise BadInput(f"direction = {direction!r} of a link: write both, requests or answers")
    return _STREAMS[direction]

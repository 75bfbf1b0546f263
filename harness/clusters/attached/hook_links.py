"""The links between nodes of a cluster that the harness did not start, as far as hooks can cut or slow them."""

from __future__ import annotations

from harness.clusters.attached.hook_runner import Done, HookRunner
from harness.clusters.base import party
from harness.model.errors import BadInput
from harness.model.hooks import CUT, SLOW, Hooks
from harness.model.link import Break, CutMode, Direction
from harness.model.live_cluster import LiveCluster

_OF: dict[str, Break] = {CUT: "cut", SLOW: "slow"}


class HookLinks:
    """Implements `base.Links`. Links of clients are none of it: observers use the same listeners."""

    def __init__(self, hooks: Hooks | None, runner: HookRunner | None, live: LiveCluster) -> None:
        self._hooks = hooks
        self._runner = runner
        self._live = live
        self._nodes = {party(node): node for node in (*live.ids, *live.controllers)}

    def cut(self, src: str, dst: str, mode: CutMode, direction: Direction = "both") -> None:
        """See `base.Links`."""
        self._apply(CUT, src, dst, mode=mode, direction=direction)

    def slow(
        self,
        src: str,
        dst: str,
        latency_ms: int = 0,
        jitter_ms: int = 0,
        rate_kb_s: int | None = None,
        direction: Direction = "both",
    ) -> None:
        """See `base.Links`. A rate of 0 stands for no limit."""
        rate = rate_kb_s or 0
        self._apply(SLOW, src, dst, latency_ms=latency_ms, jitter_ms=jitter_ms, rate_kb_s=rate, direction=direction)

    def divert(self, src: str, dst: str) -> None:
        """See `base.Links`."""
        raise BadInput(f"the link from {src} to {dst} cannot be diverted: the harness did not start this cluster")

    def frame_proxy(self, src: str, dst: str) -> tuple[str, str]:
        """See `base.Links`."""
        raise BadInput(f"the link from {src} to {dst} has no frame proxy: the harness did not start this cluster")

    def heal(self, src: str, dst: str, what: Break | None = None) -> None:
        """See `base.Links`. Returns when the hooks say that it is healed."""
        if self._runner is None:
            return
        keys = [_key(op, src, dst) for op, name in _OF.items() if what in (None, name)]
        for key in keys:
            self._runner.undo(key)
        for key in keys:
            self._runner.await_undone(key)

    def heal_all(self) -> None:
        """See `base.Links`."""
        for src in self._nodes:
            for dst in self._nodes:
                self.heal(src, dst)

    def active(self) -> list[str]:
        """See `base.Links`."""
        left = self._runner.left if self._runner else ()
        return sorted(key for key in left if key.partition(" ")[0] in _OF)

    def parties_reaching(self, dst: str) -> tuple[str, ...]:
        """See `base.Links`."""
        return tuple(name for name in self._nodes if name != dst)

    def reached_from(self, src: str) -> tuple[str, ...]:
        """See `base.Links`."""
        return tuple(name for name in self._nodes if name != src)

    def _apply(self, operation: str, src: str, dst: str, **more: object) -> None:
        if self._runner is None or self._hooks is None or operation not in self._hooks.of:
            raise BadInput(f"no hook can {operation} the link from {src} to {dst}; add [{operation}] to --hooks")
        if src not in self._nodes or dst not in self._nodes:
            raise BadInput(f"the link from {src} to {dst} is none between two nodes, and hooks reach no other")
        values = self._hooks.values_of_link(self._nodes[src], self._nodes[dst], self._live, **more)
        key = _key(operation, src, dst)
        if key in self._runner.left:  # another strength or direction replaces the one before
            self.heal(src, dst, _OF[operation])
        self._runner.apply(Done(key, operation, values))


def _key(operation: str, src: str, dst: str) -> str:
    return f"{operation} of the link {src} to {dst}"

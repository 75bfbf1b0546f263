"""A disk that is full: no file of a broker can grow, it gives its log directory up and ends, and the others serve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final

from harness.faults.base import Bite, Fault, Injection, OneBrokerExpr
from harness.faults.bite import Probe
from harness.faults.disks import LogSince, the_only
from harness.faults.process import felt, injection, restart
from harness.faults.stage import Stage
from harness.model.scenario import Range

# LogManager and ReplicaManager, of all log directories, of that of the metadata, or before 3.7 of any.
ENDED: Final = r"(?:Shutdown|Halting) broker because .*\bdirs?\b"
# A log has to grow by as much first, which takes a slow load its time.
DEADLINE_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class DiskFull(Fault):
    """Lets no file of a broker grow any more (RLIMIT_FSIZE), until it ends of that; healing starts it without a limit.

    The limit is the size of its own server log and `spare_kb` on top, so that it can still say why it ends.
    """

    do: ClassVar[str] = "disk_full"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.full", "restart"})
    stops: ClassVar[bool] = True
    node: OneBrokerExpr
    spare_kb: Annotated[int, Range(1, 1 << 20)] = 256  # the broker needs some to say why it ends

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        node = the_only(stage.nodes(self.node), stage.cluster.brokers, "disk_full")
        missed = felt(stage, (node,))
        log = stage.cluster.server_log(node)
        limit = (log.stat().st_size if log.exists() else 0) + self.spare_kb * 1024
        since = LogSince(log)
        try:
            stage.cluster.limit_file_size(node, limit)
            injected = injection(stage, (node,), _ended(stage, node, since, missed))
            yield replace(injected, resolved={**injected.resolved, "limit_bytes": limit}, deadline_s=DEADLINE_S)
        finally:
            try:
                stage.cluster.limit_file_size(node, None)
            finally:
                restart(stage, (node,))


def _ended(stage: Stage, node: int, since: LogSince, missed: Probe) -> Probe:
    """The broker is gone, said that it was its disk, and was missed."""

    def asked() -> Bite:
        gone = not stage.cluster.running(node)
        said = gone and since.find(ENDED) is not None
        seen: Mapping[str, object] = {"gone": gone, "said_why": said}
        if not gone:
            return Bite(False, f"broker {node} runs on: nothing that it writes has grown to the limit", {**seen})
        if not said:
            return Bite(False, f"broker {node} ended, and not because of its log directory", {**seen})
        bite = missed()
        return Bite(
            bite.held, f"broker {node} gave its log directory up and ended; {bite.because}", {**bite.seen, **seen}
        )

    return asked

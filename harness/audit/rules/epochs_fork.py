"""Two leaders disagree about where a leader epoch begins: their logs have different records at the same offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar, Final

from harness.audit.engine.view import View
from harness.audit.look import PartitionLook
from harness.audit.rules.ending import KEEP, KEEP_S, forgotten, undecided
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.audit.rules.sentences import clock, of_look
from harness.audit.store.partitions import Offsets
from harness.model.severity import Severity

_EPOCH: Final = "epoch"
_WAS: Final = "it began at"


class EpochsFork(Rule):
    """Epochs that begin at or below the log start offset are left out, because deletion moves their start. So are
    compacted topics: a new replica knows only the first record of an epoch that compaction left."""

    name: ClassVar[str] = "epochs_fork"
    severity: ClassVar[Severity] = Severity.LOSS
    explanation: ClassVar[str] = (
        "Each leader epoch begins at one offset, in the log of every replica. If two answers differ, replicas have "
        "different records at the same offsets, or the epoch checkpoint of a replica is damaged and followers will "
        "truncate wrongly."
    )
    remedy: ClassVar[str] = (
        "Compare the logs of all replicas from the lower offset on, and move the leadership to a replica with the "
        "complete log."
    )
    source: ClassVar[str] = "KIP-101, KIP-279, KAFKA-16541; LeaderEpochFileCache"
    needs: ClassVar[frozenset[str]] = frozenset({"offsets"})
    limits: ClassVar[Mapping[str, Limit]] = {KEEP: KEEP_S}

    def _begin(self) -> None:
        self._suspected: dict[tuple[str, int], tuple[int, int, int]] = {}

    def on_look(self, look: PartitionLook, before: Offsets, view: View) -> Iterable[Suspicion]:
        if not look.epochs or look.error is not None:
            return ()
        place, fork = (look.topic_id, look.partition), _fork(look, before, view)
        if fork is None:
            self._suspected.pop(place, None)
            return ()
        if self._suspected.get(place) == fork or "compact" in (view.setting(look.topic, "cleanup.policy") or ""):
            return ()
        self._suspected[place] = fork
        epoch, was, start = fork
        what = (
            f"Leader epoch {epoch} of {look.topic}/{look.partition} begins at {start} by the answer of the leader of "
            f"epoch {look.offsets.leader_epoch}, and began at {was} by an earlier answer."
        )
        suspicion = of_look(
            self.name, look, cause=f"{look.topic}/{look.partition}, {clock(look.answered_ns)}", what=what
        )
        first, end = sorted((was, start))
        detail = {_EPOCH: str(epoch), _WAS: str(was)}
        return (replace(suspicion, first_offset=first, end_offset=end, detail=detail),)

    def confirmed(self, suspicion: Suspicion, look: PartitionLook, view: View) -> Suspicion | None:
        if not look.epochs:
            return undecided(suspicion, look)
        start = dict(look.epochs).get(int(suspicion.detail[_EPOCH]))
        return None if start == int(suspicion.detail[_WAS]) else suspicion

    def over(self, suspicion: Suspicion, view: View) -> bool:
        return forgotten(self, suspicion, view)


def _fork(look: PartitionLook, before: Offsets, view: View) -> tuple[int, int, int] | None:
    """(epoch, its start before, its start now) of the first epoch with two starts."""
    log_start = max(before.log_start, look.offsets.log_start)
    known = dict(view.epochs(look.topic_id, look.partition))
    for epoch, start in look.epochs:
        was = known.get(epoch)
        if was is not None and was != start and min(was, start) > log_start >= 0:
            return epoch, was, start
    return None

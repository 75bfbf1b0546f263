"""The last stable offset stands still although records are committed behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from harness.audit.engine.view import View
from harness.audit.look import PartitionLook
from harness.audit.rules.retention import whole
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.audit.rules.sentences import of_look
from harness.audit.store.partitions import UNKNOWN, Offsets
from harness.model.clock import NS_PER_S
from harness.model.severity import Severity

_MAX_TIMEOUT: Final = "transaction.max.timeout.ms"
_MAX_TIMEOUT_MS_DEFAULT: Final = 900_000
_MS_PER_S: Final = 1_000
_PLACES_MAX: Final = 10_000


@dataclass(slots=True)
class _Stands:
    """A last stable offset, with the high watermark and the time when it was first seen."""

    stable: int
    high_watermark: int
    since_ns: int
    reported: bool = False


class StableOffsetStands(Rule):
    """No transaction lasts longer than transaction.max.timeout.ms, so none can hold the last stable offset for longer.
    It must be the same at every look of this time, and the high watermark must have moved in it."""

    name: ClassVar[str] = "stable_offset_stands"
    severity: ClassVar[Severity] = Severity.DANGER
    explanation: ClassVar[str] = (
        "A transaction hangs in this partition, and its coordinator may not know it any more. Readers with "
        "read_committed receive nothing behind it, and retention may delete those records before they are read."
    )
    remedy: ClassVar[str] = (
        "kafka-transactions.sh find-hanging --topic TOPIC --partition N, and then kafka-transactions.sh abort."
    )
    source: ClassVar[str] = "KIP-664, KIP-890, KAFKA-20716"
    needs: ClassVar[frozenset[str]] = frozenset({"offsets"})
    limits: ClassVar[Mapping[str, Limit]] = {"slack_s": Limit(60.0, "time beyond transaction.max.timeout.ms")}

    def _begin(self) -> None:
        self._standing: dict[tuple[str, int], _Stands] = {}

    def on_look(self, look: PartitionLook, before: Offsets, view: View) -> Iterable[Suspicion]:
        place, high_watermark = (look.topic_id, look.partition), look.offsets.high_watermark
        if look.error is not None or UNKNOWN in (look.stable, high_watermark):
            return ()
        if look.stable >= high_watermark:
            self._standing.pop(place, None)
            return ()
        known = self._standing.get(place)
        if known is None or known.stable != look.stable:
            if len(self._standing) < _PLACES_MAX:
                self._standing[place] = _Stands(look.stable, high_watermark, look.asked_ns)
            return ()
        stood_s = (look.answered_ns - known.since_ns) / NS_PER_S
        longest_s = (whole(view.broker_setting(_MAX_TIMEOUT)) or _MAX_TIMEOUT_MS_DEFAULT) / _MS_PER_S
        long_enough = stood_s > longest_s + self.limit_of(look.topic, "slack_s")
        if known.reported or not long_enough or high_watermark <= known.high_watermark:
            return ()
        known.reported = True
        what = (
            f"The last stable offset of {look.topic}/{look.partition} has been {look.stable} for {stood_s:.0f} s, "
            f"longer than any transaction may last ({longest_s:.0f} s); the high watermark moved from "
            f"{known.high_watermark} to {high_watermark}."
        )
        suspicion = of_look(self.name, look, cause=f"{look.topic}/{look.partition}", what=what)
        return (replace(suspicion, first_offset=look.stable, end_offset=high_watermark, needs_look=False),)

    def over(self, suspicion: Suspicion, view: View) -> bool:
        place = suspicion.topic_id, suspicion.partition or 0
        known = self._standing.get(place)
        if known is not None:
            return known.stable != suspicion.first_offset
        # After a restart of the auditor nothing is known until the next look.
        age_s = (view.now_ns - suspicion.at_ns) / NS_PER_S
        return age_s > self.limit_of(suspicion.topic, "slack_s") or view.partition(*place) is None

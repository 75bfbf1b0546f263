"""A record of the metadata log cannot be decoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from harness.audit.engine.view import View
from harness.audit.rules.ending import KEEP, KEEP_S
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.model.clock import NS_PER_S
from harness.model.history.changes import AnyChange, UnknownChange
from harness.model.severity import Severity


class MetadataUnreadable(Rule):
    name: ClassVar[str] = "metadata_unreadable"
    severity: ClassVar[Severity] = Severity.NOTICE
    explanation: ClassVar[str] = (
        "The auditor does not know this kind or version of record, so its state of the cluster may be wrong from "
        "there on: it may miss operations."
    )
    remedy: ClassVar[str] = "Use a version of the auditor that knows the release of the cluster."
    source: ClassVar[str] = "MetadataRecordSerde; metadata.version"
    needs: ClassVar[frozenset[str]] = frozenset({"metadata"})
    limits: ClassVar[Mapping[str, Limit]] = {KEEP: KEEP_S}

    def on_change(self, after: AnyChange, before: AnyChange | None, view: View) -> Iterable[Suspicion]:
        if not isinstance(after, UnknownChange):
            return ()
        kind = f"key {after.key}, version {after.version}"
        what = f"Record {after.offset} of the metadata log ({kind}) cannot be decoded: {after.why}."
        cause = f"records with {kind}"
        return (Suspicion(rule=self.name, cause=cause, what=what, at_ns=after.time_ns, metadata_offset=after.offset),)

    def over(self, suspicion: Suspicion, view: View) -> bool:
        return view.now_ns - suspicion.at_ns > self.limit[KEEP] * NS_PER_S

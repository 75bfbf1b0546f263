"""The meaning of a loss in the topics where coordinators keep transactions and share groups.

These topics are under the same rules as all others, so there are no events here. But a count of lost records does not
say what they were. And the broker setting that sounds like the fix for such a topic is only read when the topic is
created.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from harness.model.contract.broker_rules import MIN_ISR, THREE
from harness.model.contract.effects import REFERENCE, Effect, Promise
from harness.model.contract.internal_topics import SHARE_STATE, TRANSACTIONS


@dataclass(frozen=True, slots=True)
class _State:
    """records: what the acknowledged records of the topic are. made_by: the broker settings for its creation."""

    records: str
    source: str
    made_by: Mapping[str, str]


_KEPT: Final[Mapping[str, _State]] = {
    TRANSACTIONS: _State(
        "among them acknowledged decisions to commit whose markers were not all written yet: on a partition without "
        "its "
        "marker the transaction aborts or hangs",
        "KIP-98",
        {MIN_ISR: "transaction.state.log.min.isr", THREE: "transaction.state.log.replication.factor"},
    ),
    SHARE_STATE: _State(
        "among them acknowledgements of share groups, whose records are delivered again",
        "KIP-932",
        {
            MIN_ISR: "share.coordinator.state.topic.min.isr",
            THREE: "share.coordinator.state.topic.replication.factor",
        },
    ),
}


def in_state(name: str, promise: Promise) -> Promise:
    """The promise for the topic of that name: with what its lost records are, and with the fixes for that topic."""
    if name not in _KEPT:
        return promise
    state = _KEPT[name]
    fix = tuple(
        f"{setting} on {name} ({state.made_by[setting]} is read only when the topic is created)"
        if setting in state.made_by
        else setting
        for setting in promise.fix
    )
    if Effect.LOST not in promise.effects:
        return replace(promise, fix=fix)
    made_by = ", ".join(made for setting, made in state.made_by.items() if setting in promise.fix)
    sources = [promise.source, state.source, *([f"{REFERENCE}, {made_by}"] if made_by else [])]
    return replace(promise, which=f"{promise.which}; {state.records}", source="; ".join(sources), fix=fix)

"""What coordinators keep in topics of their own (transactions, share groups): a loss there is told in its own words.

It adds no event: these topics are under the rules of every other. But who is told of records does not see what they
were; and the setting of brokers that sounds as if it mended such a topic is read only when that is made.
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
    """records: what is acknowledged there. made_by: the settings of brokers that say how its topic is made."""

    records: str
    source: str
    made_by: Mapping[str, str]


_KEPT: Final[Mapping[str, _State]] = {
    TRANSACTIONS: _State(
        "among them decisions to commit that a client was told and whose markers were not all written: where one was "
        "not, the transaction aborts or hangs",
        "KIP-98",
        {MIN_ISR: "transaction.state.log.min.isr", THREE: "transaction.state.log.replication.factor"},
    ),
    SHARE_STATE: _State(
        "among them what share groups acknowledged: these records are given again",
        "KIP-932",
        {
            MIN_ISR: "share.coordinator.state.topic.min.isr",
            THREE: "share.coordinator.state.topic.replication.factor",
        },
    ),
}


def in_state(name: str, promise: Promise) -> Promise:
    """A promise of the topic of that name, with what is lost where something is, and with what mends that topic."""
    if name not in _KEPT:
        return promise
    state = _KEPT[name]
    mend = tuple(
        f"{setting} on {name} ({state.made_by[setting]} is read only when that is made)"
        if setting in state.made_by
        else setting
        for setting in promise.mend
    )
    if Effect.LOST not in promise.effects:
        return replace(promise, mend=mend)
    made_by = ", ".join(made for setting, made in state.made_by.items() if setting in promise.mend)
    sources = [promise.source, state.source, *([f"{REFERENCE}, {made_by}"] if made_by else [])]
    return replace(promise, which=f"{promise.which}; {state.records}", source="; ".join(sources), mend=mend)

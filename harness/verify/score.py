"""Figures of a verdict: fault episodes first, records second."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10

from harness.model.bound import loss_bound
from harness.model.finding import Finding, Kind
from harness.model.verdict import Score

# Kinds that mean that readers cannot get an acknowledged record any more.
LOSSES = frozenset({Kind.LOST, Kind.LOG_START})
# These kinds make an episode one with loss, too: a client relied on what is missing.
LOSSES_OF_EPISODE = LOSSES | {Kind.VANISHED, Kind.TORN_TRANSACTION, Kind.ADMIN_LOST, Kind.ADMIN_RESURRECTED}


def score(
    *, acked: int, lost: int, excused: int, unknown: int, episodes: Sequence[str], findings: Sequence[Finding]
) -> Score:
    """The score of one run. acked: promised records. lost: missing ones, excused ones included. unknown: those of which
    that is not known. episodes: names of the faults that had an effect.

    A loss between two episodes counts as one episode with loss. Without any episode there is no such figure, and
    `lost_without_fault` counts the losses. With unknown records no episode is known to be without loss.
    """
    losses = [f for f in findings if f.kind in LOSSES_OF_EPISODE and f.condemns]
    hit = {f.step for f in losses if f.step in episodes}
    with_loss = max(len(hit), 1) if losses and episodes else 0
    count = with_loss if unknown else len(episodes)
    known = acked - unknown
    durable = known - lost
    share_raw = durable / known if known > 0 else None
    share_excused = durable / (known - excused) if known > excused else None
    return Score(
        episodes=count,
        episodes_with_loss=with_loss,
        episodes_unknown=len(episodes) - count,
        loss_bound=loss_bound(with_loss, count),
        acked=acked,
        durable_raw=durable,
        unknown=unknown,
        share_raw=share_raw,
        share_excused=share_excused,
        nines_raw=nines(share_raw),
        nines_excused=nines(share_excused),
        lost_without_fault=0 if episodes else sum(f.count for f in losses),
    )


def nines(share: float | None) -> float | None:
    """The number of nines of a share: 0.999 has three. None when nothing was measured, and for 1.0, which has no
    number."""
    if share is None or share >= 1.0:
        return None
    return -log10(1.0 - share)

"""The history of one partition: its leader epochs, where the log of each replica ended, and which records it had."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from harness.model.documents.cluster import PartitionState
from harness.model.history.changes import NO_LEADER
from harness.model.history.elections import ElectedFrom
from reports.incidents.evidence import Evidence
from reports.incidents.offsets import (
    READERS_MAX,
    Epochs,
    Part,
    Row,
    Scale,
    Stretch,
    Stretches,
    Track,
    acked_in,
    near,
    observed_in,
    scale_of,
    span_of_offsets,
)
from reports.review.bands import Leadership, Place, Positions, leaders_of, positions_of, seconds
from reports.review.content import Incident
from reports.review.rates import Buckets
from reports.review.timeline import tried
from reports.summary import clock

WHOLE: Final = ""  # the key of the scale of the whole log
_OFFSET_LIMIT: Final = 1 << 62  # damaged evidence may name any number
ELECTED: Final[Mapping[ElectedFrom, str]] = {
    ElectedFrom.ISR: "the ISR",
    ElectedFrom.ELR: "the ELR",
    ElectedFrom.LAST_KNOWN: "the last known ELR",
    ElectedFrom.UNCLEAN: "neither ISR nor ELR: unclean",
    ElectedFrom.UNKNOWN: "not known",
}
_NO_POSITIONS: Final[tuple[Positions, ...]] = ()
_NO_LEADERS: Final[tuple[Leadership, ...]] = ()
_NO_ENDS: Final[tuple[int, int] | None] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochLine:
    """A leader epoch with its begin. ends: where each log ended by the last report before it.

    from_s: seconds since the start of the buckets; below 0 = before it.
    """

    from_s: float
    at: str
    epoch: int
    leader: str
    isr: str
    elected_from: str
    unclean: bool
    ends: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLine:
    """The log of one replica after healing. epochs: leader epochs in it with their start offsets; () = not known."""

    broker: int
    log_start: int
    log_end: int
    epochs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition, as the evidence shows it.

    acked: by time. tracks: by offset, at each of `scales`: the whole log, then around each incident, by the stem of its
    name.
    """

    place: Place
    leaders: tuple[Leadership, ...]
    positions: Positions | None
    epochs: Epochs
    lines: tuple[EpochLine, ...]
    replicas: tuple[ReplicaLine, ...]
    high_watermark: int | None
    acked: tuple[Stretch, ...]
    scales: Mapping[str, Scale]
    tracks: tuple[Track, ...]
    missing: tuple[str, ...]


def partition_of(place: Place, incidents: Sequence[Incident], evidence: Evidence) -> Partition:
    """Reads everything about a partition, once for all of its incidents. `missing` names what cannot be read."""
    missing: list[str] = []
    buckets = evidence.buckets
    state = _last_state(evidence, place)
    if state is None and evidence.cluster is not None:
        missing.append("No snapshot after healing reports this partition, so the logs at the end are not shown.")
    replicas = () if state is None else tuple(_replicas(state, evidence))
    leaders, positions = ((), None) if buckets is None else _by_time(place, evidence, buckets, missing)
    epochs = _epochs(leaders, buckets)
    scales = _scales(place, incidents, evidence, replicas, missing)
    acked, tracks = _records(place, evidence, epochs, [*scales.values()], missing)
    return Partition(
        place=place,
        leaders=leaders,
        positions=positions,
        epochs=epochs,
        lines=() if buckets is None else tuple(_lines(place, evidence, buckets, leaders, positions)),
        replicas=replicas,
        high_watermark=None if state is None else state.high_watermark,
        acked=acked,
        scales=scales,
        tracks=tracks,
        missing=tuple(dict.fromkeys(missing)),
    )


def log_row(replica: ReplicaLine, scale: Scale) -> Row:
    """The log of a replica as a row of the picture, by leader epoch."""
    known = replica.epochs or ((None, replica.log_start),)
    ends = [start for _, start in known[1:]] + [replica.log_end]
    parts = []
    for (epoch, start), end in zip(known, ends, strict=True):
        low, high = max(start, replica.log_start, scale.first), min(end, replica.log_end, scale.end) - 1
        if low <= high:
            parts.append(Part(low=low, high=high, share=1.0, epoch=epoch))
    total = max(0, replica.log_end - replica.log_start)
    return Row(name=f"log of broker {replica.broker}", look="log", total=total, parts=tuple(parts))


def _last_state(evidence: Evidence, place: Place) -> PartitionState | None:
    """The partition in the last snapshot that reports it after healing."""
    snapshots = [one for one in evidence.cluster.snapshots if one.phase != "start"] if evidence.cluster else []
    states = (state for snapshot in reversed(snapshots) for state in snapshot.partitions if state.place == place)
    return next(states, None)


def _replicas(state: PartitionState, evidence: Evidence) -> Iterator[ReplicaLine]:
    lineages = evidence.cluster.lineages if evidence.cluster else ()
    known = {one.broker: one.epochs for one in lineages if (one.topic, one.partition) == state.place[::2]}
    for log in sorted(state.logs, key=lambda one: one.broker):
        yield ReplicaLine(
            broker=log.broker,
            log_start=log.log_start,
            log_end=log.log_end,
            epochs=tuple(sorted(known.get(log.broker, ()), key=lambda pair: pair[1])),
        )


def _by_time(
    place: Place, evidence: Evidence, buckets: Buckets, missing: list[str]
) -> tuple[tuple[Leadership, ...], Positions | None]:
    history = evidence.history
    leaders = (
        _NO_LEADERS if history is None else tuple(chain(*(of.spans for of in leaders_of(history, [place], buckets))))
    )
    if history is not None and not leaders:
        missing.append("history.json does not name this partition, so its leaders are not shown.")
    every = Buckets(start_ns=buckets.start_ns, width_ns=1, count=1)  # each report, as there are few of one partition
    found = tried(lambda: positions_of(evidence.bundle, history, every, place), _NO_POSITIONS, missing)
    if not found:
        missing.append("The table positions has no rows of this partition, so log ends by time are not shown.")
    return leaders, found[0] if found else None


def _epochs(leaders: Sequence[Leadership], buckets: Buckets | None) -> Epochs:
    begins = [one for i, one in enumerate(leaders) if i == 0 or one.epoch != leaders[i - 1].epoch]
    start_ns = 0 if buckets is None else buckets.start_ns
    from_ns = np.array([start_ns + round(one.from_s * 1e9) for one in begins], np.int64)
    return Epochs(from_ns=from_ns, numbers=tuple(one.epoch for one in begins))


def _lines(
    place: Place,
    evidence: Evidence,
    buckets: Buckets,
    leaders: Sequence[Leadership],
    positions: Positions | None,
) -> Iterator[EpochLine]:
    """One line for each leader epoch during the run."""
    _, topic_id, partition = place
    elections = evidence.history.elections(topic_id, partition) if evidence.history else ()
    elected = {one.after.leader_epoch: one for one in elections}
    known = (
        {state.leader_epoch: state for state in reversed(evidence.history.partition(topic_id, partition))}
        if (evidence.history)
        else {}
    )
    for epoch in dict.fromkeys(one.epoch for one in leaders):
        state, election = known[epoch], elected.get(epoch)
        ends = {} if positions is None else _ends_at(positions, seconds(state.time_ns, buckets))
        yield EpochLine(
            from_s=seconds(state.time_ns, buckets),
            at=clock(state.time_ns),
            epoch=epoch,
            leader="none" if state.leader == NO_LEADER else f"broker {state.leader}",
            isr=", ".join(map(str, state.isr)) or "empty",
            elected_from="" if election is None else ELECTED[election.elected_from],
            unclean=election is not None and election.unclean,
            ends=", ".join(f"{broker}: {end}" for broker, end in sorted(ends.items())),
        )


def _ends_at(positions: Positions, at_s: float) -> dict[int, int]:
    """The last reported log end of each replica before a time, by broker."""
    found: dict[int, int] = {}
    for broker, points in positions.ends.items():
        # A null comes after a value, so that one of the last two reports before that time is known.
        last = bisect_right(points, at_s, key=lambda point: point[0])
        before = [value for _, value in points[max(0, last - 2) : last] if value is not None]
        if before:
            found[broker] = before[-1]
    return found


def _scales(
    place: Place,
    incidents: Sequence[Incident],
    evidence: Evidence,
    replicas: Sequence[ReplicaLine],
    missing: list[str],
) -> dict[str, Scale]:
    """The scale of the whole log, and one around the offsets of each incident; none if no offset is known."""
    of_incidents = {one.stem: span for one in incidents if (span := offsets_of(one, place)) is not None}
    ends = [*of_incidents.values()]
    ends += [(one.log_start, one.log_end - 1) for one in replicas if one.log_start < one.log_end]
    read = [
        tried(lambda: span_of_offsets(offsets for offsets, _ in acked_in(evidence.bundle, place)), _NO_ENDS, missing),
        tried(lambda: span_of_offsets(found for *_, found in observed_in(evidence.bundle, place)), _NO_ENDS, missing),
    ]
    ends = [(low, high) for low, high in (*ends, *filter(None, read)) if 0 <= low <= high < _OFFSET_LIMIT]
    if not ends:
        return {}
    whole = min(low for low, _ in ends), max(high for _, high in ends)
    return {WHOLE: scale_of(*whole)} | {stem: scale_of(*near(*span, whole)) for stem, span in of_incidents.items()}


def offsets_of(incident: Incident, place: Place) -> tuple[int, int] | None:
    """The lowest and the highest offset of an incident in a partition; None if its findings name none."""
    topic, topic_id, _ = place
    own = [one for one in incident.members if one.topic == topic and one.topic_id in (topic_id, None)]
    known = [(one.offset_first, one.offset_last) for one in own]
    offsets = [offset for pair in known for offset in pair if offset is not None and 0 <= offset < _OFFSET_LIMIT]
    return (min(offsets), max(offsets)) if offsets else None


def _records(
    place: Place, evidence: Evidence, epochs: Epochs, scales: Sequence[Scale], missing: list[str]
) -> tuple[tuple[Stretch, ...], tuple[Track, ...]]:
    """Acknowledged records by time, and by offset together with what readers received."""
    acked = Track("acknowledged", "acked", scales, epochs)
    stretches = None if evidence.buckets is None else Stretches(evidence.buckets, epochs)

    def ledger() -> None:
        for offsets, times_ns in acked_in(evidence.bundle, place):
            acked.add(offsets, epochs.at(times_ns) if epochs.numbers else None)
            if stretches is not None:
                stretches.add(offsets, times_ns)

    def observations() -> None:
        for name, look, offsets in observed_in(evidence.bundle, place):
            if name not in found and len(found) == READERS_MAX:
                missing.append(f"The picture shows {READERS_MAX} readers; the table observations has more.")
            elif name not in found:
                found[name] = Track(name, look, scales, epochs)
            if name in found:
                found[name].add(offsets)

    found: dict[str, Track] = {}
    tried(ledger, None, missing)
    tried(observations, None, missing)
    if not acked.total:
        missing.append("The ledger has no acknowledged record of this partition with an offset.")
    in_order = sorted(found.values(), key=lambda one: (one.look, one.name))
    return () if stretches is None else stretches.made(), tuple(_of_records([acked], in_order))


def _of_records(*tracks: Iterable[Track]) -> Iterator[Track]:
    return (one for one in chain(*tracks) if one.total)

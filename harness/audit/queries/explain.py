"""All that the database knows about one partition, and what the partition would lose at the next failure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from harness.audit.alarms.alarm import Alarm
from harness.audit.alarms.event import plain, time_text
from harness.audit.alarms.incidents import alarm_from
from harness.audit.engine.cluster_state import ClusterState
from harness.audit.queries.next_failure import next_failure
from harness.audit.service.static import STATIC
from harness.audit.store.database import Database
from harness.audit.store.partitions import NEVER, UNKNOWN, Offsets
from harness.model.errors import BadInput
from harness.model.history.changes import NO_LEADER, PartitionChange

_SETTINGS: Final = (
    *("cleanup.policy", "retention.ms", "retention.bytes", "segment.ms", "segment.bytes"),
    *("min.insync.replicas", "unclean.leader.election.enable", "flush.messages", "flush.ms"),
    *("min.compaction.lag.ms", "delete.retention.ms", "message.timestamp.type"),
    *("remote.storage.enable", "local.retention.ms", "local.retention.bytes"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The knowledge about a partition. settings: key -> (value, whether the topic itself sets it)."""

    state: PartitionChange
    offsets: Offsets
    epochs: Sequence[tuple[int, int]]
    settings: dict[str, tuple[str, bool]]
    alarms: Sequence[Alarm]
    next_failure: Sequence[str]


def explain(text: str, folder: Path, *, as_json: bool) -> list[str]:
    """The lines of the answer. BadInput for a partition that the database does not have."""
    topic, partition = _place(text)
    database = Database(folder, read_only=True)
    try:
        known = _known(database, topic, partition)
    finally:
        database.close()
    return [json.dumps(_plain(known), indent=1)] if as_json else [*_lines(known)]


def _place(text: str) -> tuple[str, int]:
    topic, _, partition = text.rpartition("-")
    if not topic or not partition.isdigit() or len(partition) > 9:
        raise BadInput(f"{text!r} is no partition; give it as TOPIC-PARTITION, such as orders-0")
    return topic, int(partition)


def _known(database: Database, topic: str, partition: int) -> Known:
    state = ClusterState(lambda _after, _before: None)
    state.restore(database)
    state.static = json.loads(database.fact(STATIC) or "{}")
    topic_id = state.topic_id(topic)
    if topic_id is None:
        raise BadInput(f"{database.path} has no topic {topic}; `durability audit status` shows what is watched")
    found = state.partition(topic_id, partition)
    if found is None:
        count = sum(1 for _ in state.partitions(topic))
        raise BadInput(f"{topic} has {count} partitions, and no partition {partition}")
    settings = {
        key: (value, state.own_setting(topic, key) is not None)
        for key in _SETTINGS
        if (value := state.setting(topic, key)) is not None
    }
    return Known(
        state=found,
        offsets=state.offsets(topic_id, partition),
        epochs=state.epochs(topic_id, partition),
        settings=settings,
        alarms=_alarms(database, topic_id, partition),
        next_failure=[*next_failure(found, state)],
    )


def _alarms(database: Database, topic_id: str, partition: int) -> list[Alarm]:
    """The alarms that name the partition, or its whole topic; the newest first."""
    alarms = [alarm_from(text) for _, _, text in database.alarms()]
    return [a for a in alarms if any(s.topic_id == topic_id and s.partition in (None, partition) for s in a.suspicions)]


def _plain(of: Known) -> dict[str, object]:
    state = asdict(of.state)
    time_ns = state.pop("time_ns")
    return {
        "partition": {key: state[key] for key in state if key not in ("from_snapshot", "created")},
        "changed": time_text(time_ns),
        "offsets": None if of.offsets == NEVER else asdict(of.offsets),
        "epochs": [{"epoch": epoch, "first_offset": offset} for epoch, offset in of.epochs],
        "settings": {key: {"value": value, "of_topic": own} for key, (value, own) in of.settings.items()},
        "alarms": [plain(alarm) for alarm in of.alarms],
        "next_failure": list(of.next_failure),
    }


def _lines(of: Known) -> Iterator[str]:
    state = of.state
    leader = "no leader" if state.leader == NO_LEADER else f"leader {state.leader}"
    yield f"{state.topic}-{state.partition} (topic id {state.topic_id}): {leader} in epoch {state.leader_epoch}"
    yield f"  replicas {_ids(state.replicas)}; ISR {_ids(state.isr)}; ELR {_ids(state.elr)}"
    if state.last_known_elr:
        yield f"  last known ELR {_ids(state.last_known_elr)}"
    if state.recovering:
        yield "  its leader was elected uncleanly and recovers"
    if state.adding or state.removing:
        yield f"  a reassignment adds {_ids(state.adding)} and removes {_ids(state.removing)}"
    yield (
        f"  last changed at {time_text(state.time_ns)}, by record {state.offset:,} of the metadata log "
        f"(partition epoch {state.partition_epoch})"
    )
    yield f"  {_offsets(of.offsets)}"
    if of.epochs:
        yield f"  epochs: {', '.join(f'{epoch} from offset {offset:,}' for epoch, offset in of.epochs)}"
    yield "settings (* = of the topic itself):"
    for key, (value, own) in of.settings.items():
        yield f"  {key}={value}{'*' if own else ''}"
    yield "at the next failure:"
    for line in of.next_failure:
        yield f"  {line}"
    yield f"alarms: {len(of.alarms)}"
    for alarm in of.alarms:
        yield from _alarm(alarm)


def _offsets(of: Offsets) -> str:
    if of == NEVER:
        return "no look at its offsets was answered yet"
    tier = ""
    if of.local_log_start != UNKNOWN or of.highest_tiered != UNKNOWN:
        tier = f", local log start {of.local_log_start:,}, highest tiered {of.highest_tiered:,}"
    return (
        f"last look, in epoch {of.leader_epoch}: log start {of.log_start:,}, high watermark {of.high_watermark:,}, "
        f"log end {of.log_end:,}{tier}"
    )


def _alarm(alarm: Alarm) -> Iterator[str]:
    until = "open" if alarm.ended_ns is None else f"until {time_text(alarm.ended_ns)}, {alarm.ended_why}"
    yield f"  {alarm.severity.value.upper()} {alarm.rule} since {time_text(alarm.opened_ns)}, {until}: {alarm.what}"
    yield f"    {alarm.explanation}"
    yield f"    To do: {alarm.remedy}"
    yield f"    Source: {alarm.source}"


def _ids(nodes: Sequence[int]) -> str:
    return ", ".join(map(str, nodes)) or "none"

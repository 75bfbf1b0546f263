"""Which ends of which brokers permit that deleted records return, and which do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypedDict, cast

import pytest

from harness.evidence.parsing import parse
from harness.model.documents.cluster import Snapshot
from harness.model.documents.steps import Event
from harness.verify.checks.log_start.delete_records import deleted_records_returned, returned, returned_by_design
from suites.verify.judging import steps_of
from suites.verify.metadata import Metadata

S = 10**9
AT_NS = 100 * S  # when the deletion was acknowledged


def step(do: str, *, from_s: int = 5, to_s: int = 6, nodes: tuple[int, ...] = (1,), **args: Any) -> dict[str, Any]:
    """A fault this long after the deletion, healed one second after its end."""
    times = {"started_ns": AT_NS + from_s * S, "ended_ns": AT_NS + to_s * S, "healed_ns": AT_NS + (to_s + 1) * S}
    return {
        "name": do,
        "do": do,
        "args": args,
        "resolved": {"nodes": list(nodes)},
        "events": [],
        "is_fault": True,
        **times,
    }


def killed(node: int, from_s: int, to_s: int) -> dict[str, Any]:
    """The fact that a broker was killed between these seconds after the deletion."""
    times = {"from_ns": AT_NS + from_s * S, "to_ns": AT_NS + to_s * S}
    return {"kind": "stopped", "how": "killed", "nodes": [node], **times}


STEP = SimpleNamespace(name="step")


def led(by: int, at_s: int, before: int = -1) -> dict[str, Any]:
    """The leader changed this long after the deletion."""
    change = {"kind": "leader_change", "topic": "t", "partition": 0, "at_ns": AT_NS + at_s * S}
    return change | {"old_leader": before, "new_leader": by, "leader_epoch": 1, "clean": None}


def case(
    *steps: dict[str, Any],
    starts: dict[int, int] | None = None,
    isr: tuple[int, ...] = (1,),
    replicas: tuple[int, ...] = (1,),
    events: tuple[dict[str, Any], ...] = (),
    metadata: Metadata | None = None,
    **contract: Any,
) -> Any:
    """A run in which the records below 2 were deleted. At its end the log of broker 1 starts at 0."""
    logs = [{"broker": broker, "log_start": start, "log_end": 9} for broker, start in (starts or {1: 0}).items()]
    place = {"topic": "t", "topic_id": "i", "partition": 0, "isr": isr, "replicas": replicas, "logs": logs}
    place |= {"leader": contract.get("leader", -1), "high_watermark": 9, "last_stable_offset": 9}
    last = {"phase": "drained", "at_ns": AT_NS + 900 * S, "partitions": [place], "groups": []}
    deleted = {"kind": "delete_records", "topic": "t", "partition": 0, "at_ns": AT_NS, "before_offset": 2}
    happened = parse(Path("steps.json"), [deleted, *events], tuple[Event, ...])
    topic = SimpleNamespace(unclean_election=contract.get("unclean", False))
    return cast(
        Any,
        _Documents(
            steps=steps_of(steps),
            contract=SimpleNamespace(topics={"t": topic}, start_checkpoint_ms=contract.get("every_ms", 60_000)),
            last_snapshot=parse(Path("cluster.json"), last, Snapshot),
            history=metadata and metadata.history(),
            run=SimpleNamespace(started_ns=None),
            events=lambda kind: [(event, STEP) for event in happened if isinstance(event, kind)],
        ),
    )


class _Documents(SimpleNamespace):
    """The documents that these findings need, as a case has them."""

    def once(self, compute: Callable[[Any], Any]) -> Any:
        return compute(self)


class Placement(TypedDict):
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


THREE: Placement = {"replicas": (1, 2, 3), "isr": (1, 2, 3)}
BOTH: Placement = {"replicas": (1, 2), "isr": (1, 2)}
# A fault of tomorrow: the judge knows no such word, and reads what it did.
NEW_FAULT = {"kind": "stopped", "how": "crashed", "nodes": [1], "from_ns": AT_NS + 5 * S, "to_ns": AT_NS + 6 * S}
NOT_AT_ONCE = ("crash_loop", "disk_full", "power_loss", "out_of_memory", "oom_killed", "damage", "lose_tail")

# By design, with a note: brokers that knew of the deletion had no time to write it to disk.
BY_DESIGN: dict[str, Any] = {
    **{do: case(step(do)) for do in ("kill", "kill_cleaning", "kill_deleting", *NOT_AT_ONCE)},
    "a disk changed after a kill": case(step("damage", how="killed")),
    "metadata on a disk changed after a kill": case(step("damage_metadata", how="killed")),
    "brokers killed in turn": case(step("rolling_restart", how="kill")),
    "killed after a downgrade was refused": case(step("downgrade_refused")),
    "a fault that the judge knows only by its facts": case(step("meteorite") | {"facts": [NEW_FAULT]}),
    "killed in turn, this one early": case(
        step("rolling_restart", from_s=5, to_s=300) | {"facts": [killed(1, 5, 6), killed(2, 280, 290)]}
    ),
    "the killed brokers are unknown": case(step("kill") | {"resolved": {}}),
    "killed just before the latest checkpoint": case(step("kill", from_s=89, to_s=91)),
    "a longer checkpoint interval": case(step("kill", from_s=500, to_s=501), every_ms=600_000),
    "ended at some time while the fault was active": case(
        step("oom_killed", from_s=-5, to_s=-3) | {"healed_ns": AT_NS + S}
    ),
    "all three killed": case(step("kill", nodes=(1, 2, 3)), events=(led(1, 9),), **THREE),
    "the leader was killed, too": case(
        step("kill"), step("kill", from_s=10, to_s=11, nodes=(2,)), events=(led(2, 7), led(1, 12)), **THREE
    ),
    "no other leader was seen": case(step("kill"), **THREE),
    "another leader before, and killed with it": case(
        step("kill", nodes=(1, 2)), events=(led(2, 1), led(1, 9)), leader=1, **BOTH
    ),
    "the leader throughout": case(step("kill"), leader=1, **THREE),
    "the leader before another one": case(step("kill"), events=(led(1, 1, before=2),), leader=1, **THREE),
    "in a history, no other leader": case(step("kill"), leader=1, metadata=Metadata(topic_id="i"), **THREE),
    "in a history, a leader of a deleted topic": case(
        step("kill"), leader=1, metadata=Metadata(topic_id="old").led(2, AT_NS + 7 * S), **THREE
    ),
    "an unclean election may have made it the leader": case(step("kill"), events=(led(2, 7),), unclean=True, **THREE),
}
# A finding: some broker knew of the deletion.
DEFECTS: dict[str, Any] = {
    "a controlled restart": case(step("terminate")),
    "a disk changed after a clean end": case(step("damage", how="cleanly")),
    "metadata on a disk changed after a clean end": case(step("damage_metadata", how="cleanly")),
    "brokers shut down in turn": case(step("rolling_restart", how="terminate")),
    "brokers upgraded in turn": case(step("roll")),
    "killed in turn, this one after the checkpoint": case(
        step("rolling_restart", from_s=5, to_s=300) | {"facts": [killed(2, 5, 6), killed(1, 280, 290)]}
    ),
    "controllers killed, and their ids are not known": case(step("quorum_lost") | {"resolved": {}}),
    "a step that states no facts": case(step("kill") | {"facts": []}),
    "a new fault of another broker": case(step("meteorite") | {"facts": [NEW_FAULT | {"nodes": [2]}]}),
    "a new fault that shut the broker down": case(step("meteorite") | {"facts": [NEW_FAULT | {"how": "cleanly"}]}),
    "cut off from the network": case(step("cut")),
    "nothing happened": case(),
    "killed before the deletion": case(step("kill", from_s=-5, to_s=-4)),
    "killed after the checkpoint": case(step("kill", from_s=91, to_s=92)),
    "killed after a frequent checkpoint": case(step("kill", from_s=40, to_s=41), every_ms=1000),
    "another broker was killed": case(step("kill", nodes=(2,))),
    "it followed a leader that knew": case(step("kill"), events=(led(2, 7),), **THREE),
    "in a history, it followed a leader that knew for a moment": case(
        step("kill"),
        leader=1,
        metadata=Metadata(topic_id="i").led(2, AT_NS + 7 * S).led(1, AT_NS + 7 * S + 1),
        **THREE,
    ),
    "another leader before": case(step("kill"), events=(led(2, 1),), **THREE),
    "another leader throughout": case(step("kill"), leader=2, **THREE),
    "another leader until then": case(step("kill"), events=(led(1, 9, before=2),), leader=1, **THREE),
    "a follower that was never killed has the records": case(step("kill", nodes=(2,)), **THREE),
}


@pytest.mark.parametrize("name", BY_DESIGN)
def test_deleted_records_may_return_if_every_broker_that_knew_was_killed(name: str) -> None:
    found = BY_DESIGN[name]
    assert list(deleted_records_returned(found)) == []
    (note,) = returned_by_design(found)
    assert note.startswith(
        "t/0: DeleteRecords up to 2 was acknowledged, and after a SIGKILL the log of brokers 1 starts at 0"
    )
    assert returned(found) == {"t/0": 2}


@pytest.mark.parametrize("name", DEFECTS)
def test_deleted_records_may_not_return_otherwise(name: str) -> None:
    (finding,) = deleted_records_returned(DEFECTS[name])
    assert (finding.offset_first, finding.offset_last, finding.count, finding.reader) == (0, 1, 2, "brokers 1")
    assert (returned_by_design(DEFECTS[name]), returned(DEFECTS[name])) == ([], {})


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_records_that_stay_deleted_are_neither_a_finding_nor_a_note(end: str) -> None:
    kept = case(step(end), starts={1: 2})
    assert (list(deleted_records_returned(kept)), returned_by_design(kept), returned(kept)) == ([], [], {})
    behind = case(step(end), starts={1: 0, 2: 2}, isr=(2,))  # a replica that is not in sync does not count
    assert (list(deleted_records_returned(behind)), returned_by_design(behind)) == ([], [])

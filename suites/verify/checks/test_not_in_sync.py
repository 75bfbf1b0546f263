"""Members of the ISR that lack records below a high watermark which a leader had reported; each with near misses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.model.contract.contract import MIN_INSYNC
from harness.model.finding import Finding, Kind
from harness.model.history.changes import BrokerChange, BrokerEvent, ConfigChange, ResourceKind
from harness.verify.checks.not_in_sync import replicas_not_in_sync
from harness.verify.checks.not_in_sync.eligible import eligible_after_a_sudden_end
from harness.verify.checks.not_in_sync.fenced import fenced_members
from harness.verify.checks.not_in_sync.reassigned import ended_out_of_sync
from harness.verify.engine.elections import Clocks
from suites.verify.history import BROKERS, START_NS, Built, Row
from suites.verify.judging import case_of_history
from suites.verify.metadata import CONTROLLER, Metadata, Place
from suites.verify.samples import LATENCY_NS, S, sample, sampled, with_fact


def at(second: float) -> int:
    return START_NS + int(second * S)


def behind(*more: Row, metadata: Metadata | None = None, second: float = 60) -> Built:
    """Broker 1, the leader, reports the high watermark 9 at 50 s; the log of broker 2 ends at 7 later."""
    return sampled(sample(1, 50, 9), sample(2, second, 7), *more, metadata=metadata)


def away(since_s: float, until_s: float) -> Metadata:
    """Broker 2 is not in the ISR for a while."""
    return Metadata().in_sync(at(since_s), 1, 3).in_sync(at(until_s), *BROKERS)


def led(*isr: int, elr: tuple[int, ...] = (), to: int = 3, second: float = 55) -> Metadata:
    """Another leader, after these were in sync."""
    return Metadata().in_sync(at(30), *isr, elr=elr).led(to, at(second), isr=(to,)).in_sync(at(second + 1), *BROKERS)


def eligible(since_s: float = 20, until_s: float = 70) -> Metadata:
    """Broker 2 is in the ELR for a while."""
    return Metadata().in_sync(at(since_s), 1, elr=(2,)).in_sync(at(until_s), *BROKERS)


def least_changed(of: Metadata) -> Metadata:
    """min.insync.replicas changes."""
    place = Place(time_ns=at(19), offset=len(of.rows), controller_epoch=1)
    of.rows.append(ConfigChange(kind=ResourceKind.TOPIC, name="t", key=MIN_INSYNC, value="1", **place))
    return of


def returned(*elr: int, isr: tuple[int, ...] = (1,), how: str = "killed", to_s: float = 31) -> Built:
    """Broker 2 is in the ELR and ends at 30 s; its next process registers at 40 s, with this ELR just before."""
    of = Metadata().in_sync(at(20), 1, elr=(2,)).in_sync(at(40), *isr, elr=elr).registered(2, at(40))
    return stopped(sampled(metadata=of), 2, 30, to_s, how)


def stopped(built: Built, node: int, from_s: float, to_s: float, how: str = "killed") -> Built:
    return with_fact(built, "stopped", node, from_s, to_s, how=how)


DEFECTS: dict[str, Built] = {
    "in sync all the time": behind(),
    "it joined while it lacked records": behind(metadata=away(20, 58)),
    "a second after the mark": behind(second=51.1),
    "it was restarted before the mark": stopped(behind(), 2, 20, 30),
    "it was away, and restarted meanwhile": stopped(behind(metadata=away(20, 58)), 2, 19, 40),
    "its disk was lost long before": with_fact(behind(), "data_lost", 2, 10, 20, what="all"),
    "the leader is frozen": with_fact(behind(), "frozen", 1, 52, 61),
    "cut off": with_fact(behind(), "links_cut", 2, 52, 61),
    "killed after that": stopped(behind(), 2, 62, 63),
    "the next leader itself": sampled(sample(1, 50, 9), sample(3, 60, 7, epoch=1), metadata=led(*BROKERS)),
    "a follower of the next leader": behind(metadata=led(*BROKERS)),
    "the leader came from the ELR": behind(metadata=led(1, elr=(3,))),
    "it has not changed since, and the mark has": sampled(
        sample(2, 40, 7), sample(1, 50, 9), sample(2, 60, 9), metadata=Metadata()
    ),
    "a topic of the name was deleted before": behind(
        metadata=Metadata(topic_id="old").deleted(START_NS - 1).created("T")
    ),
}
LEGAL: dict[str, Built] = {
    "it has everything": sampled(sample(1, 50, 9), sample(2, 60, 9)),
    "the mark was reported just before": behind(second=50.9),
    "the mark was reported after that": behind(second=49),
    "the mark is one of a follower": sampled(sample(3, 50, 9), sample(2, 60, 7)),
    "outside the ISR": behind(metadata=away(20, 70)),
    "it joined just after that": behind(metadata=away(20, 60.3)),
    "it left just before that": behind(metadata=away(59.8, 70)),
    "an election just then": behind(metadata=led(*BROKERS, second=60.3)),
    "its disk was lost meanwhile": with_fact(behind(), "data_lost", 2, 52, 55, what="all"),
    "the disk of the next leader was damaged": with_fact(
        behind(metadata=led(*BROKERS)), "disk_damaged", 3, 40, 58, what="all"
    ),
    "its machine lost its power": stopped(behind(), 2, 52, 55, "power"),
    "it was restarted meanwhile": stopped(behind(), 2, 52, 55),
    "another process of it registered meanwhile": behind(metadata=Metadata().registered(2, at(55))),
    "an unclean election": behind(metadata=led(1, 2)),
    "the last known leader": behind(
        metadata=Metadata()
        .in_sync(at(30), 1, last_known=(3,))
        .in_sync(at(31), last_known=(3,))
        .led(3, at(55), isr=(3,))
    ),
    "a mark of the epoch before an unclean election": sampled(
        sample(1, 58, 9), sample(2, 60, 7), metadata=led(1, 2, second=55)
    ),
    "silence since then": sampled(sample(2, 40, 7), sample(1, 50, 9), sample(2, 60, 9, after_silence=True)),
    "the mark rose just before it answered again": sampled(sample(2, 40, 7), sample(1, 58, 9), sample(2, 60, 9)),
    "the topic is deleted just then": behind(metadata=Metadata().deleted(at(60.2))),
    "another topic of the name": behind(metadata=Metadata(topic_id="old")),
    "several clocks": sampled(sample(1, 50, 9), sample(2, 60, 7), timestamps=None),
    "a controller had a wrong clock": with_fact(behind(), "clock_changed", CONTROLLER, 1, 2),
    "a record of an unknown type": behind(metadata=Metadata().unknown()),
    "a snapshot hides changes": behind(metadata=Metadata().from_snapshot(START_NS - 1)),
    "the leader has no records yet": sampled(sample(1, 50, 9) | {"high_watermark": None}, sample(2, 60, 7)),
    "no samples": sampled(),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_member_of_the_isr_that_lacks_committed_records_is_a_finding(name: str) -> None:
    (found,) = replicas_not_in_sync(case_of_history(DEFECTS[name]))
    assert (found.kind, found.topic, found.topic_id, found.partition) == (Kind.NOT_IN_SYNC, "t", "T", 0)
    assert (found.offset_first, found.offset_last, found.count) == (7, 8, 2)
    assert found.condemns


@pytest.mark.parametrize("name", LEGAL)
def test_no_correct_replica_is_a_finding(name: str) -> None:
    assert list(replicas_not_in_sync(case_of_history(LEGAL[name]))) == []


ELIGIBLE: dict[str, Built] = {
    "in the ELR": behind(metadata=eligible()),
    "in the ELR without a leader": behind(
        metadata=Metadata().in_sync(at(20), 1, elr=(2,)).led(-1, at(55), isr=(), elr=(2,))
    ),
}
STAYED: dict[str, Built] = {
    "killed": returned(2),
    "its machine lost its power": returned(2, how="power"),
}
LEFT: dict[str, Built] = {
    "it left the ELR as it registered": returned(),
    "it left it for the ISR": returned(isr=(1, 2)),
    "another broker is in the ELR": returned(3),
    "a controlled shutdown": returned(2, how="cleanly"),
    "it may not have ended": returned(2, how="crashed"),
    "it ended when it had registered": returned(2, to_s=45),
    "shut down before that": stopped(returned(2), 2, 25, 26, "cleanly"),
    "a fault of all brokers": with_fact(returned(2), "stopped", 2, 30, 31, how="killed", nodes=None),
}


@pytest.mark.parametrize("name", ELIGIBLE)
def test_a_member_of_the_elr_that_lacks_committed_records_is_a_finding(name: str) -> None:
    (found,) = replicas_not_in_sync(case_of_history(ELIGIBLE[name]))
    assert (found.kind, found.offset_first, found.offset_last) == (Kind.WRONGLY_ELIGIBLE, 7, 8)
    assert found.detail.startswith("broker 2 was in the ELR [2], and its log ended at 7")


def test_the_elr_is_not_judged_where_min_insync_replicas_changed() -> None:
    of = least_changed(Metadata()).in_sync(at(20), 1, elr=(2,)).in_sync(at(70), *BROKERS)
    assert list(replicas_not_in_sync(case_of_history(behind(metadata=of)))) == []


@pytest.mark.parametrize("name", STAYED)
def test_a_broker_that_stays_in_the_elr_after_a_sudden_end_is_a_finding(name: str) -> None:
    (found,) = sudden(STAYED[name])
    assert (found.kind, found.topic, found.partition, found.offset_first) == (Kind.WRONGLY_ELIGIBLE, "t", 0, None)
    assert (found.reader, found.first_ns) == ("broker 2", at(40))


@pytest.mark.parametrize("name", LEFT)
def test_no_correct_member_of_the_elr_is_a_finding(name: str) -> None:
    assert list(sudden(LEFT[name])) == []


def sudden(built: Built) -> Iterator[Finding]:
    case = case_of_history(built)
    assert case.history is not None
    return eligible_after_a_sudden_end(case, case.history, Clocks(case, case.history))


def test_a_bundle_without_a_history_of_its_cluster_shows_nothing() -> None:
    assert list(replicas_not_in_sync(replace(case_of_history(behind()), history=None))) == []


def test_the_sample_that_lacks_most_is_reported() -> None:
    built = behind(sample(2, 61, 5), sample(2, 62, 8))
    (found,) = replicas_not_in_sync(case_of_history(with_fact(built, "links_cut", 2, 60.5, 70)))
    assert (found.offset_first, found.offset_last, found.step, found.reader) == (5, 8, "fault", "broker 2")
    assert found.first_ns == at(61) - LATENCY_NS
    assert found.detail == (
        "broker 2 was in the ISR [1, 2, 3], and its log ended at 5; broker 1, the leader of epoch 0, had reported the "
        "high watermark 9 11.0 s before"
    )
    assert found.contract.startswith("a replica is in the ISR only while")


def fenced(of: Metadata, at_s: float, broker: int = 2, *, fenced: bool = True) -> Metadata:
    """The controllers fence a broker, or no longer."""
    last = [row for row in of.rows if isinstance(row, BrokerChange) and row.broker == broker][-1]
    event = BrokerEvent.FENCED if fenced else BrokerEvent.UNFENCED
    place = Place(time_ns=at(at_s), offset=len(of.rows), controller_epoch=1)
    of.rows.append(replace(last, event=event, fenced=fenced, **place))
    return of


FENCED_MEMBERS: dict[str, Metadata] = {
    "left in the ISR": fenced(Metadata(), 40),
    "joined": fenced(Metadata().in_sync(at(39), 1, 3), 40).in_sync(at(50), *BROKERS),
    "elected": fenced(Metadata().in_sync(at(39), 1, 3), 40).led(2, at(50), isr=(1, 3)),
    "created with it": fenced(Metadata(topic_id="old").deleted(at(39)), 40).created("T", at(41)),
    "left as the leader": fenced(Metadata().led(2, at(38), isr=(2,)), 40),
}
UNFENCED_MEMBERS: dict[str, Metadata] = {
    "it left before": fenced(Metadata().in_sync(at(39), 1, 3), 40),
    "it is back": fenced(fenced(Metadata().in_sync(at(39), 1, 3), 40), 50, fenced=False).in_sync(at(51), *BROKERS),
    "the last one, without a leader": fenced(Metadata().led(-1, at(39), isr=(2,)), 40),
    "its topic was deleted": fenced(Metadata().deleted(at(39)), 40),
    "another broker": fenced(Metadata().in_sync(at(39), 1, 3), 40).led(3, at(41), isr=(1, 3)),
}


@pytest.mark.parametrize("name", FENCED_MEMBERS)
def test_a_fenced_broker_in_an_isr_or_as_a_leader_is_a_finding(name: str) -> None:
    case = case_of_history(sampled(metadata=FENCED_MEMBERS[name]))
    assert case.history is not None
    (found,) = fenced_members(case, case.history)
    assert (found.kind, found.reader) == (Kind.NOT_IN_SYNC, "broker 2")


@pytest.mark.parametrize("name", UNFENCED_MEMBERS)
def test_a_broker_that_left_the_isr_before_it_was_fenced_is_none(name: str) -> None:
    case = case_of_history(sampled(metadata=UNFENCED_MEMBERS[name]))
    assert case.history is not None
    assert list(fenced_members(case, case.history)) == []


def reassigned(
    *, adding: tuple[int, ...], removing: tuple[int, ...], left: tuple[int, ...], isr: tuple[int, ...]
) -> Metadata:
    """A reassignment of a partition of brokers 1 and 2 begins, and ends with these replicas and this ISR."""
    before = Metadata().moved(at(39), (1, 2), (1, 2))
    begun = before.moved(at(40), (1, 2, *adding), (1, 2), adding=adding, removing=removing)
    return begun.moved(at(41), left, isr)


ENDED_EARLY: dict[str, tuple[Metadata, str]] = {
    "an added one": (reassigned(adding=(3,), removing=(2,), left=(1, 3), isr=(1,)), "broker 3"),
    "an added one of two": (reassigned(adding=(3, 4), removing=(), left=(1, 2, 3, 4), isr=(1, 2, 4)), "broker 3"),
    "one that stays, and none is added": (reassigned(adding=(), removing=(2,), left=(1,), isr=(2,)), "broker 1"),
}
ENDED_IN_SYNC: dict[str, Metadata] = {
    "all in sync": reassigned(adding=(3,), removing=(2,), left=(1, 3), isr=(1, 3)),
    "only one that stays is not": reassigned(adding=(3,), removing=(2,), left=(1, 3), isr=(3,)),
    "cancelled": reassigned(adding=(3,), removing=(2,), left=(1, 2), isr=(1,)),
}


@pytest.mark.parametrize("name", ENDED_EARLY)
def test_a_reassignment_that_ends_without_its_replicas_in_sync_is_a_finding(name: str) -> None:
    of, broker = ENDED_EARLY[name]
    case = case_of_history(sampled(metadata=of))
    assert case.history is not None
    (found,) = ended_out_of_sync(case, case.history)
    assert (found.kind, found.reader) == (Kind.NOT_IN_SYNC, broker)


@pytest.mark.parametrize("name", ENDED_IN_SYNC)
def test_a_reassignment_that_ends_in_sync_or_is_cancelled_is_none(name: str) -> None:
    case = case_of_history(sampled(metadata=ENDED_IN_SYNC[name]))
    assert case.history is not None
    assert list(ended_out_of_sync(case, case.history)) == []

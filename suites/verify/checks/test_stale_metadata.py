"""Brokers that serve other partitions or settings than the metadata log has; each with near misses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.model.finding import Kind
from harness.model.history.changes import HIDDEN, ConfigChange, FeatureChange, ResourceKind
from harness.verify.checks.stale_metadata import settings_kept, stale_brokers
from harness.verify.engine.case import Case
from suites.verify.history import BROKERS, START_NS
from suites.verify.judging import case_of_history
from suites.verify.metadata import Metadata, Place
from suites.verify.samples import S, sampled, with_fact

KEY = "retention.ms"
FEATURE = "transaction.version"
ASKED_NS = START_NS + 180 * S


def log(*values: str | None) -> Metadata:
    """Broker 1 leads, and broker 2 from 100 s on. A setting has these values, one after another, from 50 s on."""
    of = Metadata()
    for nth, value in enumerate(values):
        configured(of, value, START_NS + (50 + nth) * S)
    return of.led(2, START_NS + 100 * S)


def configured(
    of: Metadata, value: str | None, at_ns: int, kind: ResourceKind = ResourceKind.TOPIC, name: str = "t"
) -> Metadata:
    place = Place(time_ns=at_ns, offset=len(of.rows), controller_epoch=1)
    of.rows.append(ConfigChange(kind=kind, name=name, key=KEY, value=value, **place))
    return of


def dynamic(name: str, *values: str | None) -> Metadata:
    """A setting of this broker, or of all brokers, has these values, one after another."""
    of = log()
    for nth, value in enumerate(values):
        configured(of, value, START_NS + (110 + nth) * S, ResourceKind.BROKER, name)
    return of


def levelled(*levels: int) -> Metadata:
    """A feature has these levels, one after another."""
    of = log()
    for nth, level in enumerate(levels):
        place = Place(time_ns=START_NS + (110 + nth) * S, offset=len(of.rows), controller_epoch=1)
        of.rows.append(FeatureChange(feature=FEATURE, level=level, **place))
    return of


def recreated() -> Metadata:
    """A topic of the name had the setting, and was deleted with it."""
    of = configured(Metadata(topic_id="old"), "7", START_NS)
    place = Place(time_ns=START_NS + S, offset=len(of.rows), controller_epoch=1)
    of.deleted(START_NS + S)
    of.rows.append(ConfigChange(kind=ResourceKind.TOPIC, name="t", key=KEY, value=None, **place))
    return of.created("T", START_NS + 2 * S)


def served(
    of: Metadata,
    *,
    behind: int = 0,
    settings: dict[str, Any] | None = None,
    hides: bool = False,
    lacks: bool = False,
    beside: dict[str, Any] | None = None,
    described: dict[str, Any] | None = None,
    **row: Any,
) -> Case:
    """Broker 3 serves the last state, or one with these changes. behind: records that it has not applied yet.
    hides: broker 1 serves the partition. lacks: broker 1 serves the setting. beside: more of its answer. described: it
    describes the partition, too, with these changes; empty = a page lacks it."""
    built = sampled(metadata=of)
    last: Any = [one for one in of.rows if type(one).__name__ == "PartitionChange"][-1]
    state: dict[str, Any] = {
        "topic": "t",
        "topic_id": "T",
        "partition": 0,
        "leader": last.leader,
        "leader_epoch": last.leader_epoch,
    }
    state |= {"isr": list(last.isr), "replicas": list(BROKERS)} | row
    view: dict[str, Any] = {"asked_ns": ASKED_NS, "at_ns": ASKED_NS + S, "metadata_offset": len(of.rows) - 1 - behind}
    view |= {"partitions": [] if hides else [state], "settings": {"t": settings or {}}, "broker": 3}
    view |= beside or {}
    if described is not None:
        page = state | {"elr": [], "last_known_elr": []} | described
        view["described"] = [page] if described else []
    other = view | {"broker": 1, "partitions": [state], "settings": {"t": {KEY: "7"}} if lacks else view["settings"]}
    built.cluster["brokers"] = [view, other] if hides or lacks else [view]
    return case_of_history(built)


def faulty(of: Metadata, **row: Any) -> Case:
    """A fault ends shortly before that, and the broker has not applied the last record."""
    built = sampled(metadata=of)
    with_fact(built, "links_cut", 3, 90, 170)
    return replace(served(of, behind=1, **row), steps=case_of_history(built).steps)


STALE: dict[str, Case] = {
    "an earlier leader": served(log(), leader=1, leader_epoch=0),
    "another ISR": served(log(), isr=[1, 2]),
    "other replicas": served(log(), replicas=[1, 2]),
    "an earlier epoch of the same leader": served(log(), leader_epoch=0),
    "a state that was replaced long before": served(log(), behind=1, leader=1, leader_epoch=0),
    "a deleted topic": served(Metadata().deleted(START_NS + S)),
    "no partition": served(log(), hides=True),
    "an earlier value": served(log("7", "8"), settings={KEY: "7"}),
    "a value that was removed": served(log("7", None), settings={KEY: "7"}),
    "no value": served(log("7"), lacks=True),
    "a value that was never set": served(log(), settings={KEY: "7"}),
    "another ELR": served(log(), described={"elr": [2]}),
    "a last known ELR": served(log(), described={"last_known_elr": [2]}),
    "another leader in a page": served(log(), described={"leader": 1}),
    "a page without the partition": served(log(), described={}),
    "an earlier default of all brokers": served(dynamic("", "7", "8"), beside={"dynamic": {"": {KEY: "7"}}}),
    "a default of all brokers that it never got": served(dynamic("", "7"), beside={"dynamic": {"": {}}}),
    "its own setting, which was removed": served(dynamic("3", "7", None), beside={"dynamic": {"3": {KEY: "7"}}}),
    "the setting of another broker": served(dynamic("1", "7"), beside={"dynamic": {"3": {KEY: "7"}}}),
    "another level of a feature": served(levelled(1, 2), beside={"features": {FEATURE: 1}}),
    "no level of a feature": served(levelled(1), beside={"features": {"metadata.version": 0}}),
    "the next level of a feature": served(levelled(1, 2), behind=1, beside={"features": {FEATURE: 2}}),
}
RIGHT: dict[str, Case] = {
    "the last state": served(log()),
    "an ISR in another order": served(log(), isr=[3, 1, 2]),
    "it takes the leader for unavailable": served(log(), leader=-1),
    "it has not applied the election since a fault": faulty(log(), leader=1, leader_epoch=0),
    "it has applied more than it reports": faulty(log()),
    "the value": served(log("7"), settings={KEY: "7"}),
    "a removed value": served(log("7", None)),
    "no broker knows the setting": served(log("7")),
    "a value as the broker writes it": served(log("0.50"), settings={KEY: "0.5"}),
    "a list": served(log("compact, delete"), settings={KEY: "compact,delete"}),
    "a hidden value": served(log(HIDDEN), settings={KEY: None}),
    "another topic id": served(log(), topic_id="other"),
    "a history with a gap": served(log().unknown(), leader=1, leader_epoch=0),
    "the ELR in a page": served(log(), described={"isr": [3, 2, 1]}),
    "the default of all brokers": served(dynamic("", "7"), beside={"dynamic": {"": {KEY: "7"}, "3": {}}}),
    "its own setting": served(dynamic("3", "0.50"), beside={"dynamic": {"": {}, "3": {KEY: "0.5"}}}),
    "a hidden setting of its own": served(dynamic("3", HIDDEN), beside={"dynamic": {"3": {KEY: None}}}),
    "the default that comes next": served(dynamic("", "7", "8"), behind=1, beside={"dynamic": {"": {KEY: "8"}}}),
    "the level of a feature": served(levelled(1, 2), beside={"features": {FEATURE: 2}}),
    "the level of its offset": served(levelled(1, 2), behind=1, beside={"features": {FEATURE: 1}}),
    "a feature that is off": served(levelled(1, 0), beside={"features": {"metadata.version": 0}}),
    "it names no feature at all": served(levelled(1), beside={"features": {}}),
    "the version of the quorum": served(levelled(1), beside={"features": {FEATURE: 1, "kraft.version": 1}}),
    "the setting of an earlier topic": served(recreated(), settings={KEY: "7"}),
}


@pytest.mark.parametrize("name", STALE)
def test_a_broker_that_serves_something_else_is_a_finding(name: str) -> None:
    (found,) = stale_brokers(STALE[name])
    assert (found.kind, found.reader, found.count) == (Kind.STALE_METADATA, "broker 3", 1)


@pytest.mark.parametrize("name", RIGHT)
def test_no_correct_broker_is_a_finding(name: str) -> None:
    assert list(stale_brokers(RIGHT[name])) == []


def test_settings_of_an_earlier_topic_of_the_name_are_a_note() -> None:
    (note,) = settings_kept(RIGHT["the setting of an earlier topic"])
    assert "broker 3 serves 1 settings of deleted topics" in note
    assert list(settings_kept(STALE["a value that was removed"])) == []


def test_the_finding_says_what_is_served_and_what_the_log_has() -> None:
    (found,) = stale_brokers(STALE["an earlier value"])
    assert found.detail.endswith("and serves the setting retention.ms of t with 7, and the log has 8")
    (found,) = stale_brokers(STALE["an earlier leader"])
    assert "partition t/0 with leader 1 in epoch 0, the ISR [1, 2, 3]" in found.detail

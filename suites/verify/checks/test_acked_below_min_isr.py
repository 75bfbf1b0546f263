"""Records that were acknowledged with acks=all while too few replicas were in sync; each with near misses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.contract.contract import MIN_INSYNC
from harness.model.history.changes import ConfigChange, PartitionChange, ResourceKind
from harness.model.verdict import Verdict
from suites.verify.history import BROKERS, MS, START_NS, Built, History
from suites.verify.judging import HistoryBatch, reported
from suites.verify.metadata import CONTROLLER, Metadata, Place

S = 1000 * MS
# The third and fourth record of four are sent and acknowledged within this time.
SHRUNK_NS, GROWN_NS = START_NS + 100 * S, START_NS + 110 * S
FOUND = ["acked_below_min_isr 2"]


def metadata(*alone: int, elr: tuple[int, ...] = ()) -> Metadata:
    """These brokers, or the leader alone, are in sync for a while."""
    return Metadata().in_sync(SHRUNK_NS, *(alone or (1,)), elr=elr).in_sync(GROWN_NS, *BROKERS)


def told(
    of: Metadata | None = None,
    *,
    called_s: float = 103,
    took_s: float = 1,
    acks: str = "all",
    least: str | None = "2",
    version: str | None = "4.4.0",
    **run: Any,
) -> Built:
    """The last two records of four are sent at that second and acknowledged then."""
    built = History("AAAA", acks=acks, idempotent=acks == "all").build()
    called_ns = START_NS + int(called_s * S)
    for seq in (2, 3):
        built.change("ledger", {"called_ns": called_ns, "returned_ns": called_ns + int(took_s * S)}, seq=seq)
        built.change("observations", {"timestamp_ms": called_ns // MS}, seq=seq)
    built.metadata = (of or metadata()).history()
    built.steps[0] |= {"name": "hold", "do": "hold", "is_fault": False, "facts": []}
    built.run |= {"timestamps": "send", "ended_ns": START_NS + 200 * S} | run
    built.drained["at_ns"] = START_NS + 201 * S
    built.cluster["snapshots"][0]["topic_configs"]["t"] = {MIN_INSYNC: least} if least else {}
    built.manifest["release"] = None if version is None else {"version": version}
    return built


def fact(built: Built, node: int, from_s: int, to_s: int, kind: str = "frozen") -> Built:
    """A fault of a node."""
    times = {"from_ns": START_NS + from_s * S, "to_ns": START_NS + to_s * S}
    row = {"started_ns": times["from_ns"], "ended_ns": times["to_ns"], "healed_ns": times["to_ns"]}
    facts = [{"kind": kind, "nodes": [node], **times}]
    built.steps.append(built.steps[0] | {"name": "fault", "is_fault": True, "facts": facts, **row})
    return built


def starts_on(built: Built, version: str) -> Built:
    built.manifest["starts_on"] = {"version": version}
    return built


def configured(of: Metadata, value: str | None, at_ns: int) -> Metadata:
    """A setting of the topic in the metadata log."""
    place = Place(time_ns=at_ns, offset=0, controller_epoch=1)
    of.rows.append(ConfigChange(kind=ResourceKind.TOPIC, name="t", key=MIN_INSYNC, value=value, **place))
    return of


def elected(*isr: int) -> Metadata:
    """Broker 2 is elected, alone in the ISR; it was in sync before if it is one of these."""
    return Metadata().in_sync(SHRUNK_NS - 1, *isr).led(2, SHRUNK_NS, isr=(2,)).in_sync(GROWN_NS, *BROKERS)


def one_replica(of: Metadata) -> Metadata:
    of.rows = [replace(row, replicas=(1,)) if isinstance(row, PartitionChange) else row for row in of.rows]
    return of


def led_by_another(of: Metadata) -> Metadata:
    """Another controller is active when the ISR grows."""
    of.rows[-1] = replace(of.rows[-1], controller_epoch=of.rows[-1].controller_epoch + 1)
    return of


# name -> (history, what condemns)
CASES: dict[str, tuple[Built, list[str]]] = {
    "the leader alone": (told(), FOUND),
    "two of three that have to be in sync": (told(metadata(1, 2), least="3"), FOUND),
    "the setting was lowered afterwards": (told(configured(metadata(), "1", GROWN_NS + S)), FOUND),
    "the setting was raised before": (told(configured(metadata(), "2", START_NS), least="1"), FOUND),
    "a leader from the ISR": (told(elected(1, 2)), FOUND),
    "a follower is frozen": (fact(told(), 2, 90, 120), FOUND),
    "the leader was frozen long before": (fact(told(), 1, 20, 60), FOUND),
    "the leader was frozen afterwards": (fact(told(), 1, 105, 108), FOUND),
    "before and after the leader was frozen": (fact(told(called_s=107.5, took_s=0.5), 1, 103, 105), FOUND),
    "the first release that refuses it": (told(version="3.7.0"), FOUND),
    # --- legal, or not certain
    "enough in sync": (told(metadata(1, 2)), []),
    "one has to be in sync": (told(least="1"), []),
    "one replica": (told(one_replica(metadata())), []),
    "acks=1": (told(acks="1"), []),
    "sent before the leader certainly knew": (told(called_s=101.9), []),
    "sent before the ISR shrank": (told(called_s=99), []),
    "acknowledged when the ISR had grown": (told(called_s=109, took_s=2), []),
    "acknowledged as the ISR grew": (told(called_s=108, took_s=1.8), []),
    "the setting was lowered just before": (told(configured(metadata(), "1", SHRUNK_NS - S)), []),
    "the setting was lowered meanwhile": (told(configured(metadata(), "1", SHRUNK_NS + 2 * S)), []),
    "the setting was removed": (told(configured(metadata(), None, SHRUNK_NS - 50 * S)), []),
    "the setting is unknown": (told(least=None), []),
    "the leader is frozen": (fact(told(), 1, 99, 105), []),
    "the leader was frozen until just before": (fact(told(), 1, 99, 102), []),
    "the leader was frozen before the acknowledgement": (fact(told(), 1, 103, 108), []),
    "a controller is cut off": (fact(told(), CONTROLLER, 99, 105, "links_cut"), []),
    "another controller was elected meanwhile": (told(led_by_another(metadata())), []),
    "a controller had a wrong clock": (fact(told(), CONTROLLER, 1, 2, "clock_changed"), []),
    "an earlier release": (told(version="3.6.2"), []),
    "upgraded from an earlier release": (starts_on(told(), "3.6.2"), []),
    "an unknown release": (told(version=None), []),
    "several clocks": (told(timestamps=None), []),
    "an unknown record": (told(metadata().unknown()), []),
}
UNCLEAN = {"a leader from outside": (told(elected(1)), ["unclean_election 1"])}

BATCH = HistoryBatch(history for history, _ in (CASES | UNCLEAN).values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES | UNCLEAN, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES | UNCLEAN)
def test_an_acknowledgement_below_min_insync_replicas_is_a_finding(name: str, judged: dict[str, Verdict]) -> None:
    assert reported(judged[name]) == (CASES | UNCLEAN)[name][1]


def test_the_finding_names_the_records_and_how_many_were_in_sync(judged: dict[str, Verdict]) -> None:
    (one,) = judged["the leader alone"].findings
    assert (one.topic, one.partition, one.offset_first, one.offset_last, one.stream) == ("t", 0, 2, 3, 1)
    assert one.detail == "the record was sent and acknowledged with acks=all while the size of the ISR was 1"
    assert one.contract == (
        "with acks=all nothing is acknowledged while fewer than min.insync.replicas=2 are in sync (KAFKA-15583)"
    )

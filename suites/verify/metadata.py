"""Histories of clusters by hand: the leaders and the ISR of one partition, row by row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypedDict

from harness.model.history.changes import (
    AnyChange,
    BrokerChange,
    BrokerEvent,
    ControllerChange,
    ControllerEvent,
    PartitionChange,
    Problem,
    TopicChange,
    TopicEvent,
    UnknownChange,
)
from harness.model.history.history import History as ClusterHistory
from suites.verify.history import BROKERS, START_NS

CONTROLLER = 101


class Place(TypedDict):
    """The fields of a change that say where it is in the log."""

    time_ns: int
    offset: int
    controller_epoch: int


@dataclass
class Metadata:
    """The metadata log of a cluster with one partition. Its first leader is broker 1, in epoch 0, with a full ISR."""

    topic: str = "t"
    topic_id: str = "T"
    partition: int = 0
    rows: list[AnyChange] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    high_watermark: int | None = None

    def __post_init__(self) -> None:
        leads = ControllerEvent.LEADS
        self.rows.append(ControllerChange(event=leads, controller=CONTROLLER, **self._place(START_NS - 2)))
        for broker in BROKERS:
            self.registered(broker, START_NS - 2)
        self.created(self.topic_id)

    def created(self, topic_id: str, at_ns: int = START_NS - 1) -> Metadata:
        """A topic of this name begins, with the first state of its partition."""
        self.topic_id = topic_id
        created = TopicEvent.CREATED
        self.rows.append(TopicChange(event=created, topic=self.topic, topic_id=topic_id, **self._place(at_ns)))
        self.rows.append(
            PartitionChange(
                topic=self.topic,
                topic_id=topic_id,
                partition=self.partition,
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                isr=BROKERS,
                elr=(),
                last_known_elr=(),
                recovering=False,
                replicas=BROKERS,
                adding=(),
                removing=(),
                directories=(),
                created=True,
                **self._place(at_ns),
            )
        )
        return self

    def deleted(self, at_ns: int) -> Metadata:
        """The topic is deleted."""
        gone = TopicEvent.DELETED
        self.rows.append(TopicChange(event=gone, topic=self.topic, topic_id=self.topic_id, **self._place(at_ns)))
        return self

    def led(
        self, leader: int, at_ns: int, *, isr: tuple[int, ...] | None = None, elr: tuple[int, ...] = ()
    ) -> Metadata:
        """The next leader epoch begins; leader -1 = the partition has none. Without `isr` it stays as it is."""
        before = self._last()
        epoch, isr = before.leader_epoch + 1, before.isr if isr is None else isr
        return self._state(replace(before, leader=leader, leader_epoch=epoch, isr=isr, elr=elr), at_ns)

    def in_sync(self, at_ns: int, *isr: int, elr: tuple[int, ...] = (), last_known: tuple[int, ...] = ()) -> Metadata:
        """The ISR changes, in the same leader epoch."""
        return self._state(replace(self._last(), isr=isr, elr=elr, last_known_elr=last_known), at_ns)

    def moved(
        self,
        at_ns: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        *,
        adding: tuple[int, ...] = (),
        removing: tuple[int, ...] = (),
    ) -> Metadata:
        """The replicas change; a reassignment is on its way while it adds or removes some."""
        state = replace(self._last(), replicas=replicas, isr=isr, adding=adding, removing=removing)
        return self._state(state, at_ns)

    def registered(self, broker: int, at_ns: int) -> Metadata:
        """Another process of a broker registers."""
        self.rows.append(
            BrokerChange(
                event=BrokerEvent.REGISTERED,
                broker=broker,
                broker_epoch=len(self.rows),
                incarnation=f"process-{len(self.rows)}",
                fenced=False,
                shutting_down=False,
                rack=None,
                directories=(),
                **self._place(at_ns),
            )
        )
        return self

    def unknown(self, at_ns: int = START_NS) -> Metadata:
        """A record of a type that the harness does not know."""
        why = "no message has the number 99"
        self.rows.append(UnknownChange(frame=1, key=99, version=0, why=why, **self._place(at_ns)))
        return self

    def from_snapshot(self, at_ns: int) -> Metadata:
        """All rows so far come from a snapshot of that time."""
        self.rows = [replace(row, from_snapshot=True, time_ns=at_ns) for row in self.rows]
        return self

    def history(self) -> ClusterHistory:
        """All of it."""
        return ClusterHistory(
            nodes=(*BROKERS, CONTROLLER),
            voters=(CONTROLLER,),
            start=0,
            end=len(self.rows),
            high_watermark=self.high_watermark,
            changes=self.rows,
            problems=self.problems,
        )

    def _last(self) -> PartitionChange:
        return [row for row in self.rows if isinstance(row, PartitionChange)][-1]

    def _state(self, state: PartitionChange, at_ns: int) -> Metadata:
        epoch = state.partition_epoch + 1
        self.rows.append(replace(state, created=False, partition_epoch=epoch, **self._place(at_ns)))
        return self

    def _place(self, at_ns: int) -> Place:
        return Place(time_ns=at_ns, offset=len(self.rows), controller_epoch=1)

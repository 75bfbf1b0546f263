"""Requests that the network delivers late: after their client gave up, connected anew, and went on.

What a broker has to make of them is told by the protocol. A produce request of an idempotent producer that arrives
twice is told by its sequence numbers (KIP-98). One of a transaction that is over must not open it again (KIP-890, its
first part, 3.6 and later: the leader asks the coordinator before the first record of a transaction). An EndTxn that
comes when its transaction is over changes nothing, as long as no other is open: which of the two it means, a broker can
tell only from clients with an epoch for each transaction (KIP-890, its second part: EndTxn 5, transaction.version 2).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.clusters.base import party
from harness.clusters.network.frame_proxy import FrameProxy, HeldFrame, Holding, addresses
from harness.faults.network.links import CLIENT, broken
from harness.faults.steps.effect import Probe
from harness.faults.steps.produce import EndTransaction, Produce
from harness.faults.steps.step import BrokersExpr, EffectProof, Fault, Injection, ProducerRef
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.scenario.scenario import Deadline
from harness.model.scenario.toml import hint
from harness.model.waiting import wait_for

# Of those, what a producer sends.
OF_PRODUCERS: Final = frozenset(
    {"Produce", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit"}
)
OF_TRANSACTIONS: Final = OF_PRODUCERS - {"Produce", "InitProducerId"}
END: Final = "EndTxn"
_BETWEEN: Final = (
    "only clients that speak version 5 of it are safe from that (KIP-890), and librdkafka does not: name a producer "
    'with when = "steps", and heal this behind its end_transaction'
)
OF_GROUPS: Final = frozenset({"OffsetCommit", "OffsetFetch", "Heartbeat", "JoinGroup", "SyncGroup", "LeaveGroup"})


@dataclass(frozen=True, kw_only=True)
class HoldFrames(Fault):
    """Holds requests of a kind (`apis`) back on their way to brokers; healing delivers them, late and all the same.

    Of each client, or of `producer` alone, those on the first connection that brings one; what the client sends again
    by another connection passes, or with `again` is held, too. `late` = they are to come after their client gave that
    connection up, which healing waits for: else they did not come late, only slowly. `answers` holds what brokers
    answer to them instead, by which nobody is reached any more once the client has gone. An EndTxn is to come between
    two transactions of its producer, or with `amid` in the middle of the next.
    """

    do: ClassVar[str] = "hold_frames"
    needs: ClassVar[frozenset[str]] = frozenset({"links", "links.frames"})
    node: BrokersExpr
    apis: tuple[str, ...]
    producer: ProducerRef = ""
    answers: bool = False
    again: bool = False
    late: bool = True
    amid: bool = False
    patience_s: Deadline = 15.0  # how long healing waits for clients to give up

    def __post_init__(self) -> None:
        if not self.apis:
            raise BadInput('apis: names no request; write for example ["EndTxn"]')
        for api in self.apis:
            if api not in OF_PRODUCERS | OF_GROUPS:
                raise BadInput(f"apis: no request to hold is called {api!r}{hint(api, OF_PRODUCERS | OF_GROUPS)}")
            if self.producer and api not in OF_PRODUCERS:
                raise BadInput(f"producer: {api} is sent by groups of readers; leave out producer")

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        if plan.scenario.shape.secure:
            raise BadInput("what clients send by TLS nobody else can read; leave secure away in [shape]")
        producers = plan.scenario.producers
        if self.producer:
            producers = (plan.producer(self.producer),)
        asked = set(self.apis)
        if asked <= OF_TRANSACTIONS and not any(p.transactions for p in producers):
            raise BadInput(f"apis: {self._named()} is never sent without transactions; name a transactional producer")
        if asked <= OF_GROUPS and not any(r.group for r in plan.scenario.readers):
            raise BadInput(f"apis: {self._named()} is sent by groups, and no reader is one; give a reader a group")

        told_apart = END not in asked or self.answers
        exposed = [p for p in producers if p.transactions]
        if self.amid and (told_apart or not self.producer or exposed[0].when != "steps"):
            raise BadInput(f'amid: say apis = ["{END}"], and a transactional producer with when = "steps"')
        if not told_apart and (any(p.when != "steps" for p in exposed) or (exposed and self.for_s > 0)):
            raise BadInput(f"apis: {END} has to come between two transactions; {_BETWEEN}")

    def validate_heal(self, plan: StepValidation) -> None:
        """See `Fault`."""
        if END not in self.apis or self.answers:
            return
        steps = [s for s in plan.earlier.values() if isinstance(s, Produce | EndTransaction)]
        last = {step.producer: step for step in steps if self.producer in ("", step.producer)}
        for producer, step in last.items():
            if self.amid and not isinstance(step, Produce):
                raise BadInput(f"fault: no transaction of {producer} is open here, amid which {END} could come")
            if not self.amid and isinstance(step, Produce) and plan.producer(producer).transactions:
                raise BadInput(f"fault: a transaction of {producer} is open here, and {END} would end it; {_BETWEEN}")

    def _named(self) -> str:
        return ", ".join(self.apis)

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        nodes, links = stage.nodes(self.node), stage.cluster.links
        which = [(CLIENT, party(node)) for node in nodes]
        frame_proxies = addresses([(f"{src} > {dst}", *links.frame_proxy(src, dst)) for src, dst in which])
        client = f"{self.producer}-" if self.producer else ""
        holding = Holding(apis=frozenset(self.apis), client=client, answers=self.answers, again=self.again)
        with FrameProxy(frame_proxies, holding) as frame_proxy, broken(links, which, links.divert, "diverted"):
            yield Injection(
                resolved={"nodes": list(nodes), "apis": list(self.apis)},
                probe=self._probe(frame_proxy.frames),
                nodes=nodes,
                after_heal=True,
                deadline_s=1.0,  # by then all has been waited for
            )
            self._await_late(frame_proxy.frames)
            frame_proxy.release()
            for frame in frame_proxy.frames:
                stage.record_event("held_frame", **frame.as_dict())

    def _await_late(self, frames: list[HeldFrame]) -> None:
        if not self.late or not frames:
            return
        with suppress(HarnessTimeout):  # the bite says so
            wait_for(
                lambda: [f.link for f in frames if f.left_ns is None],
                until=lambda waiting: not waiting,
                deadline_s=self.patience_s,
                what="clients to give up what is held",
            )

    def _probe(self, frames: list[HeldFrame]) -> Probe:
        def asked() -> EffectProof:
            return effect_of(frames, self._named() + (f" of {self.producer}" if self.producer else ""), self)

        return asked


def effect_of(frames: list[HeldFrame], what: str, how: HoldFrames) -> EffectProof:
    """Some were held, their clients had gone on when they were let go, and the broker answered to each of them."""
    seen = {"held": [frame.as_dict() for frame in frames]}
    if not frames:
        return EffectProof(False, f"no such frame came: {what}", seen)
    waiting = [f for f in frames if f.left_ns is None or (f.released_ns or 0) < f.left_ns]
    if how.late and waiting:
        return EffectProof(
            False, f"of {len(frames)} held frames ({what}) the clients of {len(waiting)} still waited", seen
        )
    if silent := [f for f in frames if f.answered_ns is None]:
        return EffectProof(False, f"{len(silent)} of {len(frames)} held frames ({what}) were never answered", seen)
    again = sum(f.again_ns is not None for f in frames)
    reported = sorted({error for f in frames for error in f.errors or ("no error",)})
    came = "after their clients had gone on" if how.late else "late"
    because = f"{len(frames)} frames ({what}) came {came}, {again} of them sent again meanwhile; answered: "
    return EffectProof(True, because + ", ".join(reported), seen)

"""Requests that arrive late: after their client gave up, reconnected, and continued.

The protocol says how a broker must treat them. A produce request of an idempotent producer that arrives twice is
recognized by its sequence numbers (KIP-98). One of a transaction that has ended must not reopen it (KIP-890, its first
part, 3.6 and later: the leader asks the coordinator before the first record of a transaction). An EndTxn that arrives
after its transaction has ended changes nothing while no other transaction is open. When one is open, a broker can tell
the two apart only for clients with an epoch for each transaction (KIP-890, its second part: EndTxn 5,
transaction.version 2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import ClassVar, Final

from harness.clusters.base import party
from harness.clusters.network.frame_proxy import FrameProxy, HeldFrame, Holding, addresses
from harness.faults.network.links import broken
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import Probe
from harness.faults.steps.produce import EndTransaction, Produce
from harness.faults.steps.step import BrokersExpr, EffectProof, Fault, Injection, ProducerRef
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.targets import CLIENT, fed_leaders
from harness.model.clock import now_ns
from harness.model.documents import steps
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.facts import FactKind
from harness.model.hints import hint
from harness.model.scenario.scenario import CLIENTS_OF_READERS, Deadline, Scenario
from harness.model.waiting import wait_for

# The requests to hold that producers send.
OF_PRODUCERS: Final = frozenset(
    {"Produce", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit"}
)
OF_TRANSACTIONS: Final = OF_PRODUCERS - {"Produce", "InitProducerId"}
END: Final = "EndTxn"
_BETWEEN: Final = (
    "librdkafka has no EndTxn of version 5 (KIP-890), so this one would end any transaction that is open; "
    'name a producer with when = "steps", and heal this fault after its end_transaction'
)
OF_GROUPS: Final = frozenset({"OffsetCommit", "OffsetFetch", "Heartbeat", "JoinGroup", "SyncGroup", "LeaveGroup"})


@dataclass(frozen=True, kw_only=True)
class HoldFrames(Fault):
    """Holds the requests of each client, or only of `producer`, on the first connection that carries one.

    again: also holds what the client retries on another connection; else retries pass.
    late: the requests arrive after their client has closed the connection, which the healing waits for; else they are
    only slow.
    answers: holds the answers of brokers instead of the requests; a client that has closed the connection never gets
    them.
    amid: an EndTxn arrives in the middle of the next transaction of its producer; else between two transactions.
    """

    do: ClassVar[str] = "hold_frames"
    # Frames that each leader gets; those of transactions and groups arrive at one coordinator only.
    drawn: ClassVar[Mapping[str, tuple[object, ...]]] = {"apis": (("Produce",),), "producer": ("",)}
    diverts: ClassVar[bool] = True
    proven_late: ClassVar[bool] = True
    facts: ClassVar[Declares] = (Declared(FactKind.FRAMES_HELD),)
    summary: ClassVar[str] = (
        "Holds requests of a kind (`apis`) on their way to brokers; healing delivers them, late but unchanged."
    )
    proof: ClassVar[str] = (
        "some requests were held, their clients had continued before they were delivered, and brokers answered each"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"links", "links.frames"})
    node: BrokersExpr
    apis: tuple[str, ...]
    producer: ProducerRef = ""
    answers: bool = False
    again: bool = False
    late: bool = True
    amid: bool = False
    patience_s: Deadline = 15.0  # how long healing waits for clients to give up

    @classmethod
    def drawn_in(cls, scenario: Scenario, chosen: Mapping[str, object]) -> Mapping[str, tuple[object, ...]]:  # noqa: ARG003
        # Another broker may lead nothing by then.
        return {**cls.drawn, "node": fed_leaders(scenario, *CLIENTS_OF_READERS)}

    def __post_init__(self) -> None:
        if not self.apis:
            raise BadInput('apis: names no request; write for example ["EndTxn"]')
        for api in self.apis:
            if api not in OF_PRODUCERS | OF_GROUPS:
                raise BadInput(f"apis: {api!r} is no request that can be held{hint(api, OF_PRODUCERS | OF_GROUPS)}")
            if self.producer and api not in OF_PRODUCERS:
                raise BadInput(f"producer: only groups of readers send {api}; leave out producer")

    def validate(self, plan: StepValidation) -> None:
        if plan.scenario.shape.secure:
            raise BadInput("requests sent by TLS cannot be read on their way; leave out secure in [shape]")
        producers = plan.scenario.producers
        if self.producer:
            producers = (plan.producer(self.producer),)
        asked = set(self.apis)
        if asked <= OF_TRANSACTIONS and not any(p.transactions for p in producers):
            raise BadInput(
                f"apis: a producer sends {self._named()} only with transactions; name a transactional producer"
            )
        if asked <= OF_GROUPS and not any(r.group for r in plan.scenario.readers):
            raise BadInput(f"apis: only groups send {self._named()}, and no reader is in one; give a reader a group")

        harmless = END not in asked or self.answers
        exposed = [p for p in producers if p.transactions]
        if self.amid and (harmless or not self.producer or exposed[0].when != "steps"):
            raise BadInput(f'amid: set apis = ["{END}"], and name a transactional producer with when = "steps"')
        if not harmless and (any(p.when != "steps" for p in exposed) or (exposed and self.for_s > 0)):
            raise BadInput(f"apis: a held {END} must arrive between two transactions; {_BETWEEN}")

    def validate_heal(self, plan: StepValidation) -> None:
        if END not in self.apis or self.answers:
            return
        sends = [s for s in plan.earlier.values() if isinstance(s, Produce | EndTransaction)]
        last = {step.producer: step for step in sends if self.producer in ("", step.producer)}
        for producer, step in last.items():
            if self.amid and not isinstance(step, Produce):
                raise BadInput(
                    f"fault: {END} would arrive while no transaction of {producer} is open; "
                    "heal this fault after a produce of it"
                )
            if not self.amid and isinstance(step, Produce) and plan.producer(producer).transactions:
                raise BadInput(f"fault: {END} would arrive while a transaction of {producer} is open; {_BETWEEN}")

    def _named(self) -> str:
        return ", ".join(self.apis)

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        nodes, links = context.nodes(self.node), context.cluster.links
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
                deadline_s=1.0,  # the healing has already waited for all frames
            )
            self._await_late(frame_proxy.frames)
            groups = {frame.group for frame in frame_proxy.frames if frame.group}
            types = {group: context.admin.group_type(group) for group in groups}
            frame_proxy.release()
            for frame in frame_proxy.frames:
                of = types.get(frame.group or "")
                context.record_event(steps.HeldFrame(at_ns=now_ns(), group_type=of, **asdict(frame)))

    def _await_late(self, frames: list[HeldFrame]) -> None:
        if not self.late or not frames:
            return
        with suppress(HarnessTimeout):  # the effect proof reports it
            wait_for(
                lambda: [f.link for f in frames if f.left_ns is None],
                until=lambda waiting: not waiting,
                deadline_s=self.patience_s,
                what="clients to give up the held frames",
            )

    def _probe(self, frames: list[HeldFrame]) -> Probe:
        def asked() -> EffectProof:
            return effect_of(frames, self._named() + (f" of {self.producer}" if self.producer else ""), self)

        return asked


def effect_of(frames: list[HeldFrame], what: str, how: HoldFrames) -> EffectProof:
    """Proof: frames were held, their clients had continued before the release, and the broker answered each of them."""
    seen = {"held": [asdict(frame) for frame in frames]}
    if not frames:
        return EffectProof(False, f"no such frame arrived: {what}", seen)
    waiting = [f for f in frames if f.left_ns is None or (f.released_ns or 0) < f.left_ns]
    if how.late and waiting:
        because = f"the clients of {len(waiting)} of {len(frames)} held frames ({what}) still waited for them"
        return EffectProof(False, because, seen)
    if silent := [f for f in frames if f.answered_ns is None]:
        return EffectProof(False, f"{len(silent)} of {len(frames)} held frames ({what}) were never answered", seen)
    retried = sum(f.again_ns is not None for f in frames)
    reported = sorted({error for f in frames for error in f.errors or ("no error",)})
    when = "after their clients had continued" if how.late else "late"
    because = f"{len(frames)} frames ({what}) arrived {when}, {retried} of them had been retried; answers: "
    return EffectProof(True, because + ", ".join(reported), seen)

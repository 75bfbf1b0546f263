"""One bundle to be judged: its documents, read once, as plain facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar, cast

from harness.evidence import Bundle
from harness.model.documents.cluster import ClusterReports, PartitionState, Phase, Snapshot
from harness.model.documents.contract import Contract
from harness.model.documents.manifest import Manifest
from harness.model.documents.reads import Read
from harness.model.documents.record import Record
from harness.model.documents.run import Run, Settled
from harness.model.documents.scenario import PlayedScenario
from harness.model.documents.steps import Step
from harness.model.errors import BadEvidence
from harness.model.history.history import History
from harness.model.pending import Pending
from harness.model.sample import Sample

COMMITTED: Final = "read_committed"
UNCOMMITTED: Final = "read_uncommitted"
# The snapshots after healing, the last one first.
FINAL_PHASES: Final[tuple[Phase, ...]] = ("drained", "healed")
NO_BROKER: Final = -1  # in place of a broker's id, as in Kafka: a partition without leader, a copy without disk

_Event = TypeVar("_Event", bound=Record)
_Result = TypeVar("_Result")
Place = tuple[str, str, int]  # topic, topic id, partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The documents of one bundle. `complete`: the run finished, so that missing records count. history: of the
    cluster; None if the bundle has none. samples: reads the samples of replicas' offsets, in no order."""

    name: str
    complete: bool
    manifest: Manifest
    scenario: PlayedScenario
    run: Run
    steps: Sequence[Step]
    cluster: ClusterReports
    reads: Sequence[Read]
    history: History | None = None
    samples: Callable[[], Sequence[Sample]] = tuple
    _results: dict[Callable[[Case], object], object] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def contract(self) -> Contract:
        """The promises of the run."""
        return self.run.contract

    @property
    def last_snapshot(self) -> Snapshot | None:
        """The last report of the brokers after healing; None when they were not asked."""
        by_phase = {snapshot.phase: snapshot for snapshot in self.cluster.snapshots}
        return next((by_phase[phase] for phase in FINAL_PHASES if phase in by_phase), None)

    @property
    def of_harness(self) -> bool:
        """Whether the harness ran the scenario, whoever sealed the evidence since: only it counts its load."""
        return self.manifest.by_harness or (isinstance(self.run.load, Mapping) and "acked" in self.run.load)

    @property
    def nodes_were_up(self) -> bool:
        """Whether the run says that every node ran when it waited for the cluster to recover."""
        waited = self.run.recovered
        return waited is not None and (waited.ok is True or waited.pending not in (None, Pending.NODES_DOWN))

    def in_vain(self, waited: Settled) -> bool:
        """Whether a wait did not end well, as far as the run came. What it had shown stands if the run broke off later;
        a whole run in which it is not known is in doubt."""
        return waited.ok is False or (waited.ok is None and self.complete)

    @property
    def last_partitions(self) -> Sequence[PartitionState]:
        """The partitions of that report; none without one."""
        last = self.last_snapshot
        return last.partitions if last else ()

    @property
    def transactional_topics(self) -> set[str]:
        """Topics that a transactional producer of the scenario writes to."""
        producers = self.scenario.producers or ()
        return {topic for p in producers if p.transactions is not None for topic in p.topics}

    def counted_by_load(self, figure: str) -> Mapping[str, object]:
        """A figure of the load that has parts, as run.json has it: "transactions" by producer, "operations" by
        admin. Empty without it."""
        counted = self.run.load.get(figure) if isinstance(self.run.load, Mapping) else None
        return counted if isinstance(counted, Mapping) else {}

    def events(self, kind: type[_Event]) -> list[tuple[_Event, Step]]:
        """Events of one kind, each with the step in which it happened."""
        return [(event, step) for step in self.steps for event in step.events if isinstance(event, kind)]

    def once(self, compute: Callable[[Case], _Result]) -> _Result:
        """What follows from the documents, computed when it is asked for first. No caller may change it."""
        if compute not in self._results:
            self._results[compute] = compute(self)
        return cast(_Result, self._results[compute])


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceFacts:
    """A topic-partition after healing. Positions are the next offset that the drain would have read.

    `log_end`: the highest of all replicas; None unless every replica reported its own. `as_of_ns`: when they were
    asked.
    """

    place: Place
    log_start: int
    log_end: int | None
    as_of_ns: int | None
    committed: int | None  # position of the read_committed drain
    committed_reached: bool
    uncommitted: int | None
    uncommitted_reached: bool


def case_of(bundle: Bundle) -> Case:
    """The case of a bundle. Raises BadEvidence, naming the document, when a document lacks something that FORMAT.md
    requires."""
    documents = bundle.documents
    try:
        case = Case(
            name=bundle.path.name,
            complete=bundle.complete,
            manifest=bundle.manifest,
            scenario=documents.scenario,
            run=documents.run,
            steps=documents.steps,
            cluster=documents.cluster,
            reads=documents.reads,
            history=bundle.history,
            samples=bundle.samples,
        )
        places_of(case)
        _check_readers(bundle, case.reads)
    except (KeyError, TypeError, AttributeError, ValueError) as foreign:
        raise BadEvidence(f"{bundle.path}: {lacking(foreign)}") from None
    return case


def _check_readers(bundle: Bundle, reads: Sequence[Read]) -> None:
    """BadEvidence for two reads of one place whose records nothing tells apart."""
    seen: set[tuple[str, str, Place]] = set()
    for read in reads:
        who = (read.reader, read.isolation, read.place)
        if who in seen:
            where = f"{read.reader} of {read.topic}/{read.partition}"
            raise BadEvidence(f"{bundle.path}: reads.json has two reads {where}; give each a name and seal again")
        seen.add(who)


def lacking(foreign: Exception) -> str:
    """The end of a sentence about documents that lack a key or have a value of a wrong type."""
    what = f"{foreign.args[0]!r}" if isinstance(foreign, KeyError) else "a value of the right type"
    return f"a document lacks {what}; write all documents as FORMAT.md describes and seal the bundle again"


def drains_of(case: Case) -> dict[tuple[Place, str], Read]:
    """The drain of each place and isolation: of several reads the last one. All others are compared with it."""
    return {(read.place, read.isolation): read for read in case.reads if read.kind == "drain"}


def other_drains(case: Case) -> list[Read]:
    """Reads of leaders after healing that are not the drain of their place."""
    drains = drains_of(case)
    return [r for r in case.reads if r.kind == "drain" and drains[r.place, r.isolation].reader != r.reader]


def places_of(case: Case) -> list[PlaceFacts]:
    """Every topic-partition in the last snapshot or in a drain."""
    snapshot = case.last_snapshot
    rows = {row.place: row for row in case.last_partitions}
    drains = drains_of(case)
    known = dict.fromkeys([*rows, *(place for place, _ in drains)])
    return [_facts(place, rows.get(place), drains, snapshot.at_ns if snapshot else None) for place in known]


def _facts(
    place: Place,
    row: PartitionState | None,
    drains: Mapping[tuple[Place, str], Read],
    as_of_ns: int | None,
) -> PlaceFacts:
    committed, uncommitted = drains.get((place, COMMITTED)), drains.get((place, UNCOMMITTED))
    logs = {log.broker: log for log in row.logs} if row else {}
    whole = row is not None and set(row.replicas) <= logs.keys() and bool(logs)
    starts = [read.start for read in (committed,) if read]
    if row and row.leader in logs:
        starts.append(logs[row.leader].log_start)
    return PlaceFacts(
        place=place,
        log_start=max(starts, default=0),
        log_end=max(log.log_end for log in logs.values()) if whole else None,
        as_of_ns=as_of_ns if row else None,
        committed=committed.position if committed else None,
        committed_reached=_reached(committed),
        uncommitted=uncommitted.position if uncommitted else None,
        uncommitted_reached=_reached(uncommitted),
    )


def _reached(read: Read | None) -> bool:
    return read is not None and read.reached and read.position >= read.target

"""The drain: after healing, it reads every partition again from the start, from the leader and from every follower.

A read is complete when its *position* reaches the target, since the last offsets may be aborted, compacted or control
records, which no consumer gets. The target of a partition is the highest log end of any replica, or the offset after a
sentinel record that is written after those log ends were read. Acked records above every log end are lost: the verifier
reports them, and no read waits for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.evidence.parts import write_parquet
from harness.evidence.writer import BundleWriter
from harness.model.contract.contract import SENTINEL
from harness.model.documents.reads import Read
from harness.model.documents.record import Isolation
from harness.model.place import Place
from harness.model.scenario.scenario import Producer
from harness.model.secured import producer_name
from harness.model.wait_budget import WaitBudget
from harness.workload.access import Access
from harness.workload.consumers.live_readers import ReadContext
from harness.workload.drain.fetch_reads import DirectFetch, FetchReader
from harness.workload.drain.replica_reads import COMMITTED, Copy, CopyReader, ReadProgress, ReadTimeouts
from harness.workload.meters import Meters
from harness.workload.producers.recording_producer import ProducerContext, RecordingProducer, Target
from harness.workload.producers.streams import Numbers

UNCOMMITTED: Final = "read_uncommitted"
PROTOCOL_S: Final = 5.0
SENTINEL_DEADLINE_S: Final = 30.0
SENTINEL_LEAST_S: Final = 10.0
_PARALLEL_READS: Final = 8  # of three replicas and their leaders, with both isolations: reads mostly wait
_RETRIES_MAX: Final = 5
_RETRIES_DEADLINE_S: Final = 180.0  # no attempt begins later, since each one at a read that hangs costs its timeout
AnyReader = CopyReader | FetchReader


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPlan:
    """The partitions to read, and how. `copies` were requested from the brokers after healing, before the sentinels."""

    bootstrap: str
    targets: Mapping[str, Target]
    copies: Sequence[Copy]
    run: int
    seed: int
    # Topics with transactions; None = any topic may have some. Followers of other topics are read with read_committed
    # only: without transactions read_uncommitted returns the same records, and read_committed is the stricter read.
    transactional: frozenset[str] | None = None
    timeouts: ReadTimeouts = field(default_factory=ReadTimeouts)
    access: Access = field(default_factory=Access)
    sentinel_back_s: int = 0
    direct: DirectFetch | None = None  # followers are asked directly; None = leaders send the reader to them (KIP-392)


def drain(plan: DrainPlan, bundle: BundleWriter, numbers: Numbers, progress: Callable[[str], None]) -> list[Read]:
    """Writes the sentinels, reads every copy, and returns what reads.json has.

    Reads that failed, or met a gap in the log, are repeated.
    """
    progress("writing sentinels")
    sentinels = write_sentinels(plan, bundle, numbers)
    reads = [read for read in _reads_of(plan, sentinels) if read.reads]
    progress(f"reading {len(plan.copies)} partitions, {len(reads)} times")
    _run_all(reads, bundle)
    rows = _rows_of(reads)
    give_up_at, after_gaps = time.monotonic() + _RETRIES_DEADLINE_S, dict[Place, int]()
    again = {read: places for read in reads if (places := read.unsure())}
    for attempt in range(1, _RETRIES_MAX + 1):
        if plan.timeouts.budget.spent:
            again = _with_gaps(again) if attempt == 1 else {}
        if not again or time.monotonic() > give_up_at:
            break
        names = ", ".join(read.name for read in again)
        progress(f"repeating reads that stopped early, met another broker or a gap in the log: {names}")
        after_gaps |= {place: row.holes[-1][1] for (_, _, place), row in rows.items() if row.holes}
        reads = [_again(plan, sentinels, read, places, attempt, bundle, after_gaps) for read, places in again.items()]
        _run_all(reads, bundle, parallel=len(reads))  # these are short, or they wait
        now = _rows_of(reads)
        again = {read: places for read in reads if (places := _unsettled(read, rows))}
        rows |= now
    return [row.record() for row in rows.values()]


def _with_gaps(again: Mapping[AnyReader, Sequence[Place]]) -> dict[AnyReader, list[Place]]:
    """Reads that met a gap, which counts only when a second read has met it, too."""
    met = {read: [place for place in places if read.reads[place].holes] for read, places in again.items()}
    return {read: places for read, places in met.items() if places}


def _unsettled(read: AnyReader, before: Mapping[tuple[int | None, str, Place], ReadProgress]) -> list[Place]:
    """Partitions to read once more: not those that ended at the same offset, or with the same gaps, as before."""
    unsure = read.unsure()
    return [p for p in unsure if not _same_end(read.reads[p], before[read.broker, read.isolation, p])]


def _same_end(read: ReadProgress, before: ReadProgress) -> bool:
    if read.reached:
        return read.holes == before.holes
    return 0 <= read.position < read.target and read.position == before.position


def _rows_of(reads: Sequence[AnyReader]) -> dict[tuple[int | None, str, Place], ReadProgress]:
    """Rows by copy, so that a later attempt replaces an earlier one."""
    return {(read.broker, read.isolation, place): row for read in reads for place, row in read.reads.items()}


def _run_all(reads: Sequence[AnyReader], bundle: BundleWriter, parallel: int = _PARALLEL_READS) -> None:
    with ThreadPoolExecutor(parallel, thread_name_prefix="drain") as pool:
        running = [pool.submit(read.run, bundle.table("observations", read.name)) for read in reads]
        try:
            for finished in running:
                finished.result()
        except BaseException:  # an interrupt must not wait for reads that have minutes left
            for read in reads:
                read.cancel()
            raise


def _reads_of(plan: DrainPlan, sentinels: Mapping[Place, int]) -> list[AnyReader]:
    brokers = sorted({broker for copy in plan.copies for broker in copy.logs})
    ended = [c for c in plan.copies if plan.transactional is None or c.topic in plan.transactional]
    copies: dict[Isolation, Sequence[Copy]] = {COMMITTED: plan.copies, UNCOMMITTED: ended}
    leaders = [_reader(plan, plan.copies, sentinels, None, isolation) for isolation in copies]
    followers = [
        _reader(plan, copies[isolation], sentinels, broker, isolation) for broker in brokers for isolation in copies
    ]
    return [*leaders, *followers]


def _again(
    plan: DrainPlan,
    sentinels: Mapping[Place, int],
    before: AnyReader,
    failed: Sequence[Place],
    attempt: int,
    bundle: BundleWriter,
    after_gaps: Mapping[Place, int],
) -> AnyReader:
    """A new read of the partitions that failed, from their start; followers are read from after the leader's last gap.

    A single failure proves nothing: a leader may take a consumer back from a follower for a moment, or die. The second
    read of a log with gaps has a budget of its own, so that it comes as far as the first one.
    """
    if attempt == 1 and any(before.reads[place].holes for place in failed):
        plan = replace(plan, timeouts=replace(plan.timeouts, budget=WaitBudget()))
    copies = [copy for copy in plan.copies if copy.place in failed]
    if before.broker is None:
        count_as_live(bundle, before.name, failed)
    else:
        copies = [_from(copy, after_gaps.get(copy.place, 0)) for copy in copies]
    return _reader(plan, copies, sentinels, before.broker, before.isolation, attempt=attempt)


def _from(copy: Copy, offset: int) -> Copy:
    return replace(copy, logs={broker: (max(start, offset), end) for broker, (start, end) in copy.logs.items()})


def count_as_live(bundle: BundleWriter, reader: str, places: Sequence[Place]) -> None:
    """Turns what an earlier attempt read from a leader into observations of a live reader: it must not vanish later.

    As rows of the drain they would replace records that the last attempt, the one that counts, did not return.
    """
    for part in sorted((bundle.path / "observations").glob(f"{reader}-[0-9]*.parquet")):
        rows = pq.read_table(part)
        mine = pc.is_in(_named(rows), pa.array([f"{topic}/{partition}" for topic, partition in places]))
        for column, value in (("kind", "live"), ("replica", None)):
            at, kind = rows.schema.get_field_index(column), rows.schema.field(column).type
            rows = rows.set_column(at, rows.schema.field(at), pc.if_else(mine, pa.scalar(value, kind), rows[column]))
        write_parquet(rows, part)


def _named(rows: pa.Table) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(rows["topic"], rows["partition"].cast(pa.string()), "/")


def _reader(
    plan: DrainPlan,
    copies: Sequence[Copy],
    sentinels: Mapping[Place, int],
    broker: int | None,
    isolation: Isolation,
    *,
    attempt: int = 0,
) -> AnyReader:
    context = ReadContext(bootstrap=plan.bootstrap, targets=plan.targets, run=plan.run, access=plan.access)
    if plan.direct is not None and broker is not None:
        return FetchReader(
            context,
            copies,
            sentinels,
            plan.direct,
            isolation=isolation,
            broker=broker,
            timeouts=plan.timeouts,
            attempt=attempt,
        )
    return CopyReader(
        context, copies, sentinels, isolation=isolation, broker=broker, timeouts=plan.timeouts, attempt=attempt
    )


def write_sentinels(plan: DrainPlan, bundle: BundleWriter, numbers: Numbers) -> dict[Place, int]:
    """Writes one more record to every partition, with its ledger row. Returns the offsets of those that were acked."""
    ledger, reservations = bundle.table("ledger", SENTINEL), bundle.table("reservations", SENTINEL)
    context = ProducerContext(
        bootstrap=plan.bootstrap,
        targets=plan.targets,
        numbers=numbers,
        meters=Meters(),
        ledger=ledger,
        reservations=reservations,
        run=plan.run,
        seed=plan.seed,
        access=plan.access,
    )
    topics = tuple(sorted({copy.topic for copy in plan.copies}))
    spec = Producer(name=SENTINEL, topics=topics, value_bytes=64, backdated_s=plan.sentinel_back_s)
    producer = RecordingProducer(spec, context)
    for copy in plan.copies:
        producer.queue(copy.place, 1)
    give_up_at = time.monotonic() + PROTOCOL_S
    while (
        plan.access.settings and not plan.access.traffic.of(producer_name(SENTINEL)) and time.monotonic() < give_up_at
    ):
        producer.poll(0.1)  # the statistics show the protocol that it used, twice a second
    producer.close(plan.timeouts.budget.left_s(SENTINEL_DEADLINE_S, SENTINEL_LEAST_S))
    producer.release()
    ledger.close()
    reservations.close()
    return {place: offset for place, offset in context.meters.highest_acked().items() if offset >= 0}

"""The drain: after healing, everything is read again from the start, from the leader and from every other copy.

A read is over when its *position* passes the target, since the last offsets may be aborted, compacted or control
records that no reader is ever given. The target of a partition is the highest of what any replica's log ends at and of
a sentinel that is written after those were asked. Acks above every log end are lost, which the verifier says: no read
can wait for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.evidence.parts import write_parquet
from harness.evidence.writer import BundleWriter
from harness.model.contract.contract import SENTINEL
from harness.model.scenario.scenario import Producer
from harness.model.secured import producer_name
from harness.workload.access import Access
from harness.workload.consumers.live_readers import ReadContext
from harness.workload.drain.replica_reads import Copy, CopyReader, Patience, Read
from harness.workload.meters import Meters, Place
from harness.workload.producers.recording_producer import ProducerContext, RecordingProducer, Target
from harness.workload.producers.streams import Numbers

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
WAY_S: Final = 5.0
SENTINEL_DEADLINE_S: Final = 30.0
_PARALLEL_READS: Final = 3
_RETRIES_MAX: Final = 5
_RETRIES_DEADLINE_S: Final = 180.0  # no try begins later: what hangs for good costs each of them its patience


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPlan:
    """What is to be read. `copies` are asked of the brokers after healing and before the sentinels."""

    bootstrap: str
    targets: Mapping[str, Target]
    copies: Sequence[Copy]
    run: int
    seed: int
    # Topics with transactions; None = any may have some. Of others a follower's copy is read as read_committed alone:
    # without transactions read_uncommitted is given the same, and asks for less.
    transactional: frozenset[str] | None = None
    patience: Patience = field(default_factory=Patience)
    access: Access = field(default_factory=Access)


def drain(
    plan: DrainPlan, bundle: BundleWriter, numbers: Numbers, progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Writes the sentinels, reads every copy, and returns the rows of reads.json. A read that sticks says where."""
    progress("writing sentinels")
    sentinels = write_sentinels(plan, bundle, numbers)
    reads = [read for read in _reads_of(plan, sentinels) if read.reads]
    progress(f"reading {len(plan.copies)} partitions, {len(reads)} times")
    _run_all(reads, bundle)
    rows = _rows_of(reads)
    give_up_at, behind = time.monotonic() + _RETRIES_DEADLINE_S, dict[Place, int]()
    again = {read: places for read in reads if (places := read.unsure())}
    for attempt in range(1, _RETRIES_MAX + 1):
        if not again or time.monotonic() > give_up_at:
            break
        names = ", ".join(read.name for read in again)
        progress(f"reading again where these stopped short, met another broker or a hole: {names}")
        behind |= {place: row.holes[-1][1] for (_, _, place), row in rows.items() if row.holes}
        reads = [_again(plan, sentinels, read, places, attempt, bundle, behind) for read, places in again.items()]
        _run_all(reads, bundle, parallel=len(reads))  # of little, or of something that waits
        now = _rows_of(reads)
        again = {read: places for read in reads if (places := _unsettled(read, rows))}
        rows |= now
    return [row.as_row() for row in rows.values()]


def _unsettled(read: CopyReader, before: Mapping[tuple[int | None, str, Place], Read]) -> list[Place]:
    """Where it failed, but for what stopped short at the very offset where the try before it did, or met the same
    holes: that stays so."""
    unsure = read.unsure()
    return [p for p in unsure if not _same_end(read.reads[p], before[read.broker, read.isolation, p])]


def _same_end(read: Read, before: Read) -> bool:
    if read.reached:
        return read.holes == before.holes
    return 0 <= read.position < read.target and read.position == before.position


def _rows_of(reads: Sequence[CopyReader]) -> dict[tuple[int | None, str, Place], Read]:
    """By copy, so that a later try takes the place of an earlier one."""
    return {(read.broker, read.isolation, place): row for read in reads for place, row in read.reads.items()}


def _run_all(reads: Sequence[CopyReader], bundle: BundleWriter, parallel: int = _PARALLEL_READS) -> None:
    with ThreadPoolExecutor(parallel, thread_name_prefix="drain") as pool:
        running = [pool.submit(read.run, bundle.table("observations", read.name)) for read in reads]
        try:
            for finished in running:
                finished.result()
        except BaseException:  # an interrupt must not wait for reads that have minutes left
            for read in reads:
                read.cancel()
            raise


def _reads_of(plan: DrainPlan, sentinels: Mapping[Place, int]) -> list[CopyReader]:
    brokers = sorted({broker for copy in plan.copies for broker in copy.logs})
    ended = [c for c in plan.copies if plan.transactional is None or c.topic in plan.transactional]
    copies = {COMMITTED: plan.copies, UNCOMMITTED: ended}
    leaders = [_reader(plan, plan.copies, sentinels, None, isolation) for isolation in copies]
    followers = [
        _reader(plan, copies[isolation], sentinels, broker, isolation) for broker in brokers for isolation in copies
    ]
    return [*leaders, *followers]


def _again(
    plan: DrainPlan,
    sentinels: Mapping[Place, int],
    before: CopyReader,
    failed: Sequence[Place],
    attempt: int,
    bundle: BundleWriter,
    behind: Mapping[Place, int],
) -> CopyReader:
    """A whole new read of what failed. A leader may take a reader back from a follower for a moment, or die. What
    follows begins behind the last hole that its leader's copy has."""
    copies = [copy for copy in plan.copies if copy.place in failed]
    if before.broker is None:
        count_as_live(bundle, before.name, failed)
    else:
        copies = [_from(copy, behind.get(copy.place, 0)) for copy in copies]
    return _reader(plan, copies, sentinels, before.broker, before.isolation, attempt=attempt)


def _from(copy: Copy, offset: int) -> Copy:
    return replace(copy, logs={broker: (max(start, offset), end) for broker, (start, end) in copy.logs.items()})


def count_as_live(bundle: BundleWriter, reader: str, places: Sequence[Place]) -> None:
    """What a leader's try saw that is not the last one. It was there, and must be there still: so says a live reader.

    As rows of the drain they would stand in for records that the last try, which counts, does not show.
    """
    for part in sorted((bundle.path / "observations").glob(f"{reader}-[0-9]*.parquet")):
        rows = pq.read_table(part)
        mine = pc.is_in(_named(rows), pa.array([f"{topic}/{partition}" for topic, partition in places]))
        for column, value in (("kind", "live"), ("replica", None)):
            at, kind = rows.schema.get_field_index(column), rows.schema.field(column).type
            rows = rows.set_column(at, rows.schema.field(at), pc.if_else(mine, pa.scalar(value, kind), rows[column]))
        write_parquet(rows, part)


def _named(rows: pa.Table) -> Any:
    return pc.binary_join_element_wise(rows["topic"], rows["partition"].cast(pa.string()), "/")


def _reader(
    plan: DrainPlan,
    copies: Sequence[Copy],
    sentinels: Mapping[Place, int],
    broker: int | None,
    isolation: str,
    *,
    attempt: int = 0,
) -> CopyReader:
    context = ReadContext(bootstrap=plan.bootstrap, targets=plan.targets, run=plan.run, access=plan.access)
    return CopyReader(
        context, copies, sentinels, isolation=isolation, broker=broker, patience=plan.patience, attempt=attempt
    )


def write_sentinels(plan: DrainPlan, bundle: BundleWriter, numbers: Numbers) -> dict[Place, int]:
    """One more record on every partition, with its ledger row; the offset of each that was acked."""
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
    producer = RecordingProducer(Producer(name=SENTINEL, topics=topics, value_bytes=64), context)
    for copy in plan.copies:
        producer.queue(copy.place, 1)
    give_up_at = time.monotonic() + WAY_S
    while plan.access.settings and not plan.access.ways.of(producer_name(SENTINEL)) and time.monotonic() < give_up_at:
        producer.poll(0.1)  # its statistics tell by which way they went, twice a second
    producer.close(SENTINEL_DEADLINE_S)
    ledger.close()
    reservations.close()
    return {place: offset for place, offset in context.meters.highest_acked().items() if offset >= 0}

"""producer_ids_reused: controllers gave a block of producer ids to a broker, and had given the same ids before.

Two producers with one id break idempotence: a leader takes records of one of them for copies, or for records out of
order, of the other one. A controller that starts learns from the metadata log, or from a snapshot of it, which ids it
gave. So each block in the log begins behind all earlier ones (KIP-730), whichever controller gave it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.model.finding import Finding, Kind
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.steps import step_at
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise


def _blocks(known: Known) -> Addition:
    return Addition(findings=[*reused_producer_ids(known.case)])


def reused_producer_ids(case: Case) -> Iterator[Finding]:
    """One finding for each block that does not begin behind all earlier ones."""
    highest: int | None = None
    for block in case.history.producer_ids if case.history is not None and case.history.whole else ():
        if highest is not None and block.next_id <= highest and not block.from_snapshot:
            yield Finding(
                kind=Kind.PRODUCER_IDS_REUSED,
                first_ns=block.time_ns,
                last_ns=block.time_ns,
                step=step_at(case.steps, block.time_ns),
                reader=f"broker {block.broker}",
                detail=(
                    f"broker {block.broker} got a block of producer ids that ends before {block.next_id}, and ids up "
                    f"to {highest - 1} had been given before"
                ),
                contract=promise(Kind.PRODUCER_IDS_REUSED, None, None, case.contract),
            )
        highest = block.next_id if highest is None else max(highest, block.next_id)


CHECK: Final = Check(
    promise="Controllers give each producer id once.",
    kinds={Kind.PRODUCER_IDS_REUSED: Introduced(promise="controllers give each producer id once (KIP-730)")},
    adds=_blocks,
    order=Order(findings=19),
    planted=("producer_ids_reused", "near_producer_ids_reused_after_a_jump"),
)

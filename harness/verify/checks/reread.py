"""reread: within one session a reader received an offset twice, or after a higher one."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from harness.model.finding import Kind
from harness.verify.checks.share_groups import members
from harness.verify.engine.rows import Reason, found
from harness.verify.engine.sessions import Sessions
from harness.verify.engine.tables import PLACE
from harness.verify.promise import Check, Introduced, span


class Reread(Reason):
    """The offset that the session had received before."""

    AGAIN = "again", "The same offset."
    BACK = "back", "A higher offset."


def reread(sessions: Sessions) -> DataFrame:
    """Offsets that a session has twice, and records that it has after a higher offset: also those that a reader missed
    and received later.

    A share group delivers in no order, and again what was not accepted (KIP-932), so its members are left out.
    """
    again = found(sessions.again, Kind.REREAD, Reread.AGAIN)
    back = found(sessions.back, Kind.REREAD, Reread.BACK, other="received_to")
    shared = members(sessions.given)
    return again.unionByName(back).join(shared, [*PLACE, "reader"], "left_anti").select(*again.columns)


CHECK: Final = Check(
    promise="A reader receives offsets in order, and each of them once, until it is moved.",
    kinds={
        Kind.REREAD: Introduced(
            promise="a consumer receives the offsets of a partition in order, and goes back only when it is moved",
            rank=120,
        )
    },
    seen={
        (Kind.REREAD, Reread.AGAIN): "the reader received the offset twice within one session",
        (Kind.REREAD, Reread.BACK): lambda run: (
            f"the reader received the record after {span(run, 'offset')}, within one session"
        ),
    },
    finer={Reread.BACK: 1},
    queries={"reread": reread},
    planted=(
        "reread_of_a_batch",
        "reread_by_the_drain",
        "reread_of_what_was_missed",
        "near_reread_in_a_new_session",
        "near_reread_without_an_order_in_a_poll",
    ),
)

"""One file a promise: a pure function from tables to the records that break it. None of them looks at a contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame

from harness.verify.checks.aborted_read import aborted_read
from harness.verify.checks.displaced import displaced
from harness.verify.checks.duplicated import duplicated
from harness.verify.checks.lost import lost, lost_of_unfinished
from harness.verify.checks.misrouted import misrouted
from harness.verify.checks.phantom import phantom
from harness.verify.inputs import Inputs

Check = Callable[[Inputs], DataFrame]

CHECKS: Final[dict[str, Check]] = {
    "lost": lambda of: lost(of.drill),
    "lost_of_unfinished": lambda of: lost_of_unfinished(of.given),
    "duplicated": lambda of: duplicated(of.drill),
    "misrouted": lambda of: misrouted(of.drill),
    "phantom": lambda of: phantom(of.drill),
    "aborted_read": lambda of: aborted_read(of.drill),
    "displaced": lambda of: displaced(of.drill),
}

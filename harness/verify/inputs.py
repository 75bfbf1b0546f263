"""What checks draw on. Each part is worked out when the first check asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame

from harness.verify.compare import Compared, compare
from harness.verify.drill import Drill, drill
from harness.verify.fingerprints import reader_buckets
from harness.verify.prepared import Prepared


@dataclass(frozen=True)
class Inputs:
    """The tables, and the two comparisons that most checks start from."""

    given: Prepared

    @cached_property
    def drill(self) -> Drill:
        """Ledger against drain."""
        return drill(self.given)

    @cached_property
    def read(self) -> DataFrame:
        """What everybody read, bucket by bucket: `fingerprints.reader_buckets`, the one pass over all of it."""
        return reader_buckets(self.given.observations).localCheckpoint()

    @cached_property
    def compared(self) -> Compared:
        """Every other reader against the drain."""
        return compare(self.given, self.read)

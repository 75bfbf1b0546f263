"""findings.parquet: every record of every finding, next to the verdict."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from harness.evidence.columns import schema_of
from harness.evidence.verdicts import FINDINGS
from harness.model.schemas import FINDINGS as FINDING_COLUMNS
from harness.model.scratch import scratch
from harness.verify.engine.rows import NOT_FINDINGS
from harness.verify.engine.tables import BUNDLE

SCHEMA: Final = schema_of(FINDING_COLUMNS)


def write_records(records: DataFrame | None, folders: Sequence[Path]) -> None:
    """Writes findings.parquet into each bundle's folder, by bundle number; an empty file when nothing was found."""
    parts: dict[int, list[Path]] = {}
    with scratch("findings") as working:
        if records is not None:
            reported = records.where(~records["kind"].isin(*NOT_FINDINGS)).select(BUNDLE, *SCHEMA.names)
            ordered = reported.repartition(BUNDLE).sortWithinPartitions(BUNDLE, "kind", "topic", "partition", "offset")
            out = Path(working) / "findings"
            ordered.write.partitionBy(BUNDLE).parquet(str(out))
            for part in sorted(out.glob(f"{BUNDLE}=*/*.parquet")):
                parts.setdefault(int(part.parent.name.split("=")[1]), []).append(part)
        for number, folder in enumerate(folders):
            _write_one(folder / FINDINGS, parts.get(number, []))


def _write_one(target: Path, parts: list[Path]) -> None:
    unfinished = target.with_name(target.name + ".tmp")
    if len(parts) == 1:
        shutil.copyfile(parts[0], unfinished)
    else:
        with pq.ParquetWriter(unfinished, SCHEMA) as writer:
            for part in parts:
                for batch in pq.ParquetFile(part).iter_batches():
                    writer.write_table(pa.Table.from_batches([batch]).cast(SCHEMA))
    unfinished.replace(target)

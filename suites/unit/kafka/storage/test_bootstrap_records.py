"""Bootstrap records are added to the file from which the first controller takes them, and stay in their order."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from harness.kafka.storage.bootstrap_records import FIRST_PRODUCER_ID, SHARED_MAX, add_bootstrap_records
from harness.kafka.storage.log_directory import METADATA_LOG
from harness.kafka.storage.metadata_log import read_snapshot
from harness.model.errors import HarnessFailure
from harness.model.history.log import Record
from suites.unit.kafka.storage.metadata_bytes import control_batch, data_batch, record_value

EARLIER = "bootstrap.checkpoint"
SINCE_KIP_1170 = f"{METADATA_LOG}/00000000000000000000-0000000000.checkpoint"
FEATURE = record_value("FeatureLevelRecord", Name="metadata.version", FeatureLevel=30)
HEADER = control_batch(0, "SnapshotHeaderRecord", epoch=0, Version=0, LastContainedLogTimestamp=7)
FORMATTED: Final = (
    HEADER + data_batch(1, FEATURE, FEATURE, epoch=0) + control_batch(3, "SnapshotFooterRecord", epoch=0, Version=0)
)
VOTERS = HEADER + control_batch(1, "SnapshotFooterRecord", epoch=0, Version=0)


def written(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)


@pytest.mark.parametrize(
    ("files", "changed"),
    [
        ({EARLIER: FORMATTED}, EARLIER),
        ({EARLIER: FORMATTED, SINCE_KIP_1170: VOTERS}, EARLIER),  # dynamic voters in a release before KIP-1170
        ({SINCE_KIP_1170: FORMATTED}, SINCE_KIP_1170),
    ],
    ids=["of earlier releases", "beside the voters", "since KIP-1170"],
)
def test_enough_records_stand_before_the_footer(files: dict[str, bytes], changed: str, tmp_path: Path) -> None:
    written(tmp_path, files)
    add_bootstrap_records(tmp_path)
    snapshot = read_snapshot(tmp_path / changed, 0, 0)
    assert snapshot.problem is None
    entries = [entry for entry in snapshot.entries if isinstance(entry, Record)]
    assert [entry.offset for entry in entries] == list(range(len(list(snapshot.entries))))
    kinds = [entry.kind for entry in entries]
    assert kinds[:3] == ["SnapshotHeaderRecord", "FeatureLevelRecord", "FeatureLevelRecord"]
    assert kinds[3:-2] == ["NoOpRecord"] * (SHARED_MAX + 1)
    assert kinds[-2:] == ["ProducerIdsRecord", "SnapshotFooterRecord"]
    assert entries[-2].fields == {"BrokerId": -1, "BrokerEpoch": -1, "NextProducerId": FIRST_PRODUCER_ID}
    for name in files.keys() - {changed}:
        assert (tmp_path / name).read_bytes() == files[name]


def test_a_folder_without_bootstrap_records_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    with pytest.raises(HarnessFailure, match=r"neither to bootstrap\.checkpoint nor to __cluster_metadata-0/"):
        add_bootstrap_records(tmp_path)

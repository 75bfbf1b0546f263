"""What a machine lacks for disks of the brokers' own, which mounts are a run's, and that no other is ever broken."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.clusters import choosing
from harness.clusters.disks import loop_devices, unmount
from harness.clusters.disks.loop_devices import OwnDisks, capability, missing
from harness.clusters.disks.unmount import Mount, mounts_below, release, thaw_below
from harness.clusters.nodes import clocks
from harness.faults.nodes.power_loss import PowerLoss
from harness.faults.steps.registry import lacking, needs
from harness.model.errors import BadInput, HarnessFailure
from harness.model.scenario.scenario import DISKS
from harness.scenarios import load

SLOWING = loop_devices._slowing


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine that lacks nothing."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(loop_devices, "_rights", lambda: 1 << 21)
    monkeypatch.setattr(loop_devices, "_tool", lambda name: f"/sbin/{name}")
    monkeypatch.setattr(loop_devices, "_LOOP_CONTROL", tmp_path)
    monkeypatch.setattr(loop_devices, "_known", lambda: {"ext4", "xfs"})
    monkeypatch.setattr(loop_devices, "_slowing", lambda: True)
    return monkeypatch


def test_a_machine_that_lacks_nothing(able: pytest.MonkeyPatch) -> None:
    assert missing() == {}
    assert choosing.able("processes") & choosing.able("containers") >= loop_devices.ALL


def test_without_root_there_are_none(able: pytest.MonkeyPatch) -> None:
    able.setattr(os, "geteuid", lambda: 1000)
    able.setattr(clocks, "missing", dict)
    assert set(missing()) == loop_devices.ALL
    assert all(why.endswith("run as root") for why in missing().values())
    assert choosing.able("processes") == choosing.CAPABILITIES["processes"] - loop_devices.ALL


def test_root_without_the_right_to_mount_is_none(able: pytest.MonkeyPatch) -> None:
    able.setattr(loop_devices, "_rights", lambda: 0)
    assert "CAP_SYS_ADMIN" in missing()[loop_devices.OWN]


@pytest.mark.parametrize("file_system", DISKS)
def test_one_file_system_may_be_missing(able: pytest.MonkeyPatch, file_system: str) -> None:
    able.setattr(loop_devices, "_tool", lambda name: None if name == f"mkfs.{file_system}" else name)
    ((what, why),) = missing().items()
    assert what == capability(file_system)
    assert why == f"mkfs.{file_system} is not installed: apt install {loop_devices._PACKAGES[file_system]}"


def test_what_a_scenario_needs_is_refused_with_the_remedy(able: pytest.MonkeyPatch) -> None:
    scenario = load("power_loss_all")
    assert {"disk.xfs", "disk.own"} <= needs(scenario)
    assert lacking(scenario, choosing.able("processes")) is None
    able.setattr(loop_devices, "_tool", lambda name: None if name == "mkfs.xfs" else name)
    refused = lacking(scenario, choosing.able("processes"))
    assert refused == ('scenario power_loss_all: shape: disk = "xfs": mkfs.xfs is not installed: apt install xfsprogs')
    able.setattr(os, "geteuid", lambda: 1000)
    reported = PowerLoss.lacks(choosing.able("containers"))
    assert reported is not None
    assert "run as root" in reported


def test_disks_that_cannot_be_had_are_refused(able: pytest.MonkeyPatch, tmp_path: Path) -> None:
    able.setattr(loop_devices, "_LOOP_CONTROL", tmp_path / "absent")
    with pytest.raises(BadInput, match=r'disk = "ext4": there is no .*: modprobe loop'):
        OwnDisks("ext4", tmp_path)


def test_only_loop_devices_below_the_directory_are_a_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run 1"
    table = tmp_path / "mountinfo"
    monkeypatch.setattr(unmount, "_MOUNTS", table)
    monkeypatch.setattr(unmount, "backing_of", lambda device: f"{run}/disks/{device}.img")
    at = str(run).replace(" ", "\\040")
    table.write_text(
        "22 1 254:0 / / rw - ext4 /dev/vda rw\n"
        f"30 22 7:0 / {at}/nodes/b1/data rw shared:1 - xfs /dev/loop0 rw\n"
        f"31 22 7:1 / {at}/nodes/b2/data rw - xfs /dev/loop1 rw\n"
        f"32 22 0:50 / {at}/tmp rw - tmpfs tmpfs rw\n"
        f"33 22 7:2 / {at}-other/data rw - ext4 /dev/loop2 rw\n"
    )
    assert mounts_below(run) == [
        Mount(run / "nodes/b2/data", "7:1", f"{run}/disks/7:1.img"),
        Mount(run / "nodes/b1/data", "7:0", f"{run}/disks/7:0.img"),
    ]


def test_where_nothing_is_mounted_nothing_happens(tmp_path: Path) -> None:
    thaw_below(tmp_path)
    release(tmp_path)
    release(tmp_path / "absent")


@pytest.mark.parametrize("what", ["shut_down", "freeze", "turn_read_only"])
def test_the_machines_own_disk_is_left_alone(able: pytest.MonkeyPatch, tmp_path: Path, what: str) -> None:
    disks = OwnDisks("ext4", tmp_path)
    (tmp_path / "data").mkdir()
    with pytest.raises(HarnessFailure, match="is left alone"):
        getattr(disks, what)(tmp_path / "data")
    assert not disks.usable(tmp_path / "data")


def test_nor_a_mount_of_another_image(able: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    able.setattr(loop_devices, "mounts_below", lambda _: [Mount(tmp_path / "data", "7:0", "/somebody/else.img")])
    with pytest.raises(HarnessFailure, match="is left alone"):
        OwnDisks("xfs", tmp_path).shut_down(tmp_path / "data")


def test_nor_one_that_is_not_where_it_seems(able: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The table of mounts says so, and the directory itself is on the machine's disk."""
    data = tmp_path / "nodes" / "b1" / "data"
    data.mkdir(parents=True)
    disks = OwnDisks("xfs", tmp_path)
    able.setattr(loop_devices, "mounts_below", lambda _: [Mount(data, "7:0", str(tmp_path / "disks" / "b1-data.img"))])
    with pytest.raises(HarnessFailure, match="is left alone"):
        disks.freeze(data)


@pytest.mark.parametrize(
    ("folder", "name", "slow", "well"),
    [
        ("blkio", "blkio.throttle.write_iops_device", "7:3 5\n", "7:3 0\n"),
        ("system.slice", "io.max", "7:3 wiops=5\n", "7:3 wiops=max\n"),
    ],
)
def test_a_disk_is_slowed_down_by_every_group_that_writes_to_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str, name: str, slow: str, well: str
) -> None:
    groups = [tmp_path / folder, tmp_path / folder / "docker" / "b1"]
    monkeypatch.setattr(unmount, "GROUPS", tmp_path)
    for group in groups:
        group.mkdir(parents=True)
        (group / name).touch()
    for per_s, said in ((5, slow), (None, well)):
        unmount.limit_writes(Mount(tmp_path, "7:3", "/x.img"), per_s)
        assert {(group / name).read_text() for group in groups} == {said}


def test_without_a_group_that_limits_it_no_disk_is_slow(able: pytest.MonkeyPatch, tmp_path: Path) -> None:
    able.setattr(loop_devices, "_slowing", SLOWING)
    for module in (loop_devices, unmount):
        able.setattr(module, "GROUPS", tmp_path / "groups")
    able.setattr(loop_devices, "_OWN_GROUPS", tmp_path / "own")
    (tmp_path / "own").write_text("4:memory:/\n0::/user.slice/a.scope\n")
    ((what, why),) = missing().items()
    assert what == loop_devices.SLOW
    assert "systemd-run" in why
    (tmp_path / "groups" / "user.slice" / "a.scope").mkdir(parents=True)
    (tmp_path / "groups" / "user.slice" / "a.scope" / "io.max").touch()
    assert missing() == {}

"""The brokers' own disks: what a machine may lack for them, and that only mounts of the run are ever broken."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.clusters import choosing
from harness.clusters.disks import loop_devices, unmount
from harness.clusters.disks.loop_devices import OwnDisks, capability, missing
from harness.clusters.disks.unmount import Mount, mounts_below, thaw_below, unmount_all
from harness.clusters.nodes import clocks
from harness.faults.nodes.power_loss import PowerLoss
from harness.faults.steps.registry import lacking, needs
from harness.model.errors import BadInput, HarnessFailure
from harness.model.scenario.scenario import DISKS
from harness.scenarios import load

CAN_SLOW = loop_devices._can_slow


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine that has everything."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(loop_devices, "_rights", lambda: 1 << 21)
    monkeypatch.setattr(loop_devices, "_tool", lambda name: f"/sbin/{name}")
    monkeypatch.setattr(loop_devices, "_LOOP_CONTROL", tmp_path)
    monkeypatch.setattr(loop_devices, "_known", lambda: {"ext4", "xfs"})
    monkeypatch.setattr(loop_devices, "_can_slow", lambda: True)
    return monkeypatch


def test_a_complete_machine_has_all_capabilities_of_disks(able: pytest.MonkeyPatch) -> None:
    assert missing() == {}
    assert choosing.able("processes") & choosing.able("containers") >= loop_devices.ALL


def test_without_root_there_are_no_own_disks(able: pytest.MonkeyPatch) -> None:
    able.setattr(os, "geteuid", lambda: 1000)
    able.setattr(clocks, "missing", dict)
    assert set(missing()) == loop_devices.ALL
    assert all(why.endswith("run as root") for why in missing().values())
    assert choosing.able("processes") == choosing.CAPABILITIES["processes"] - loop_devices.ALL


def test_root_without_the_right_to_mount_has_no_own_disks(able: pytest.MonkeyPatch) -> None:
    able.setattr(loop_devices, "_rights", lambda: 0)
    assert "CAP_SYS_ADMIN" in missing()[loop_devices.OWN]


@pytest.mark.parametrize("file_system", DISKS)
def test_one_missing_tool_removes_only_its_file_system(able: pytest.MonkeyPatch, file_system: str) -> None:
    able.setattr(loop_devices, "_tool", lambda name: None if name == f"mkfs.{file_system}" else name)
    ((what, why),) = missing().items()
    assert what == capability(file_system)
    assert why == f"mkfs.{file_system} is not installed: apt install {loop_devices._PACKAGES[file_system]}"


def test_a_scenario_that_needs_missing_disks_is_refused_with_the_remedy(able: pytest.MonkeyPatch) -> None:
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


def test_disks_that_this_machine_cannot_make_are_refused(able: pytest.MonkeyPatch, tmp_path: Path) -> None:
    able.setattr(loop_devices, "_LOOP_CONTROL", tmp_path / "absent")
    with pytest.raises(BadInput, match=r'disk = "ext4": there is no .*: run modprobe loop'):
        OwnDisks("ext4", tmp_path)


def test_only_loop_devices_below_its_directory_belong_to_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_thaw_and_unmount_do_nothing_without_mounts(tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    for act in (thaw_below, unmount_all):
        act(tmp_path)
        act(tmp_path / "absent")
    assert mounts_below(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == ["nodes"]


@pytest.mark.parametrize("what", ["shut_down", "freeze", "turn_read_only"])
def test_the_machines_own_disk_is_left_alone(able: pytest.MonkeyPatch, tmp_path: Path, what: str) -> None:
    disks = OwnDisks("ext4", tmp_path)
    (tmp_path / "data").mkdir()
    with pytest.raises(HarnessFailure, match="is left alone"):
        getattr(disks, what)(tmp_path / "data")
    assert not disks.usable(tmp_path / "data")


def test_a_mount_of_another_image_is_left_alone(able: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    able.setattr(loop_devices, "mounts_below", lambda _: [Mount(tmp_path / "data", "7:0", "/somebody/else.img")])
    with pytest.raises(HarnessFailure, match="is left alone"):
        OwnDisks("xfs", tmp_path).shut_down(tmp_path / "data")


def test_a_directory_on_the_machines_disk_is_left_alone_whatever_the_mount_table_says(
    able: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = tmp_path / "nodes" / "b1" / "data"
    data.mkdir(parents=True)
    disks = OwnDisks("xfs", tmp_path)
    able.setattr(loop_devices, "mounts_below", lambda _: [Mount(data, "7:0", str(tmp_path / "disks" / "b1-data.img"))])
    with pytest.raises(HarnessFailure, match="is left alone"):
        disks.freeze(data)


@pytest.mark.parametrize(
    ("folder", "name", "limited", "unlimited"),
    [
        ("blkio", "blkio.throttle.write_iops_device", "7:3 5\n", "7:3 0\n"),
        ("system.slice", "io.max", "7:3 wiops=5\n", "7:3 wiops=max\n"),
    ],
)
def test_the_limit_of_writes_is_set_in_every_control_group(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str, name: str, limited: str, unlimited: str
) -> None:
    groups = [tmp_path / folder, tmp_path / folder / "docker" / "b1"]
    monkeypatch.setattr(unmount, "GROUPS", tmp_path)
    for group in groups:
        group.mkdir(parents=True)
        (group / name).touch()
    for per_s, text in ((5, limited), (None, unlimited)):
        unmount.limit_writes(Mount(tmp_path, "7:3", "/x.img"), per_s)
        assert {(group / name).read_text() for group in groups} == {text}


def test_without_a_control_group_no_disk_can_be_slow(able: pytest.MonkeyPatch, tmp_path: Path) -> None:
    able.setattr(loop_devices, "_can_slow", CAN_SLOW)
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

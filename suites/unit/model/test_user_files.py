"""Files that a user names: a device, a pipe, a folder and a huge file are refused at once, each with its reason."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import scenarios
from harness.evidence.documents import read_json
from harness.kafka.admin.client_config import client_config
from harness.model.errors import BadInput
from harness.model.user_files import TEXT_MAX, read_bytes, read_text
from harness.model.user_storage import read_user_storage
from reports.matrix import read_matrix


def test_a_regular_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"one\r\ntwo\n")
    assert read_bytes(file, 9) == b"one\r\ntwo\n"
    assert read_text(file) == "one\ntwo\n"
    with pytest.raises(OSError, match="it is 9 bytes large, and at most 8 bytes are read"):
        read_bytes(file, 8)


def test_a_file_of_proc_that_says_it_is_empty_is_limited_too() -> None:
    with pytest.raises(OSError, match="it is larger than 4 bytes, and at most 4 bytes are read"):
        read_bytes(Path("/proc/self/status"), 4)


def _pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe.toml")
    return tmp_path / "pipe.toml"


def _device(tmp_path: Path) -> Path:
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    return tmp_path / "zero.toml"


def _huge(tmp_path: Path) -> Path:
    """No disk is used: the file has a length and no content."""
    with (tmp_path / "huge.toml").open("wb") as file:
        file.truncate(1 << 40)
    return tmp_path / "huge.toml"


READERS: dict[str, Callable[[Path], object]] = {
    "a scenario": lambda file: scenarios.load(str(file)),
    "--tier-storage": read_user_storage,
    "--command-config": client_config,
    "a document of the evidence": read_json,
    "contracts.json": lambda file: read_matrix([file]),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())
@pytest.mark.parametrize("unfit", [_pipe, _device, _huge], ids=["pipe", "device", "huge"])
def test_every_reader_refuses_what_is_no_sane_file(
    tmp_path: Path, unfit: Callable[[Path], Path], reader: Callable[[Path], object]
) -> None:
    file = unfit(tmp_path)
    with pytest.raises(BadInput) as refusal:
        reader(file)
    assert str(file) in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("unfit", [_device, _huge], ids=["device", "huge"])
def test_a_key_store_is_read_with_a_limit(tmp_path: Path, unfit: Callable[[Path], Path]) -> None:
    config = tmp_path / "client.properties"
    config.write_text(f"ssl.truststore.location={unfit(tmp_path)}\nssl.truststore.password=x\n")
    with pytest.raises(BadInput, match=r"ssl\.truststore\.location=.* cannot be read: it is"):
        client_config(config)


def test_a_scenario_of_ordinary_size_is_far_below_the_limit() -> None:
    assert all(scenarios.path_of(name).stat().st_size * 10 < TEXT_MAX for name in scenarios.builtin())

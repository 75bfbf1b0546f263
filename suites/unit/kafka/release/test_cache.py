"""The cache: files are complete or absent, even while other harnesses and threads work in it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from harness.clusters.sweep import clean
from harness.kafka.release.cache import Cache, Digest, Pace, default_cache, sweep_default_cache
from harness.model.errors import BadInput
from harness.model.waiting import wait_for

YESTERDAY_S = 100_000


def test_a_digest_reads_back_and_is_that_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    digest = Digest.of_file(tmp_path / "file", "sha1")
    assert digest == Digest.of(b"content", "sha1") == Digest("sha1", hashlib.sha1(b"content").hexdigest())
    assert Digest.parse(str(digest)) == digest


def test_files_of_one_name_and_different_content_are_kept_apart(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    paths = [cache.put(content, Digest.of(content), "x.jar") for content in (b"one", b"two")]
    assert [path.read_bytes() for path in paths] == [b"one", b"two"]


def test_the_place_of_the_cache_follows_the_xdg_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_cache() == Path("/somewhere/kafka-durability")
    monkeypatch.setenv("HOME", "/home/me")
    for invalid in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", invalid)
        assert default_cache() == Path("/home/me/.cache/kafka-durability")


@pytest.mark.parametrize("home", ["", "relative/home", "."])
@pytest.mark.parametrize("xdg", ["", "relative/cache", None])
def test_without_an_absolute_path_for_the_cache_it_is_refused(
    home: str, xdg: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("XDG_CACHE_HOME", xdg) if xdg is not None else monkeypatch.delenv("XDG_CACHE_HOME", False)
    with pytest.raises(BadInput) as refused:
        default_cache()
    assert str(refused.value) == (
        f"there is no place for the download cache, because HOME is {home!r}: set HOME or XDG_CACHE_HOME to an "
        "absolute path"
    )
    assert sweep_default_cache() == []


def test_a_user_without_a_home_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", unknown)
    with pytest.raises(BadInput, match=r"because HOME is not set, and this user has no entry in /etc/passwd: set"):
        default_cache()


def test_a_cache_that_cannot_be_written_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BadInput, match=r"file/cache cannot be used \(Not a directory\): free some space or point XDG"):
        Cache(tmp_path / "file" / "cache")


KILLED = """
import os, signal, sys, time
from pathlib import Path
from harness.kafka.release.cache import Cache
with Cache(Path(sys.argv[1])).scratch() as scratch:
    (scratch / "half of a jar").write_bytes(b"x")
    print(scratch, flush=True)
    time.sleep(600)
"""


def test_a_folder_is_in_use_while_its_harness_lives_and_is_removed_after_it_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    root = default_cache()
    with subprocess.Popen([sys.executable, "-c", KILLED, str(root)], stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        used = Path(harness.stdout.readline().strip())
        assert sweep_default_cache() == []
        assert (used / "half of a jar").exists()
        harness.send_signal(signal.SIGKILL)
    assert sweep_default_cache() == [f"removed {used}, left by a killed harness"]
    assert not used.exists()
    assert sweep_default_cache() == []


def test_clean_removes_what_a_killed_harness_left_in_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys.modules[clean.__module__], "default_root", lambda **_: tmp_path / "runs")
    left = Cache(default_cache()).root / "tmp" / "left"
    left.mkdir()
    assert clean(root=tmp_path / "runs") == []
    assert left.exists()
    assert clean() == [f"removed {left}, left by a killed harness"]
    assert not left.exists()


def test_a_folder_of_this_process_is_not_swept_by_another_thread_of_it(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    with cache.scratch() as first, Cache(tmp_path).scratch() as second:
        assert set((tmp_path / "tmp").iterdir()) == {first, second}
    assert list((tmp_path / "tmp").iterdir()) == []


def test_files_and_folders_without_locks_are_swept_after_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(9, "Bad file descriptor")  # flock of a folder on NFS

    cache = Cache(tmp_path)
    monkeypatch.setattr(fcntl, "flock", unsupported)
    old = [tmp_path / "tmp" / "old", tmp_path / "tmp" / "old.jar"]
    new = [tmp_path / "tmp" / "new", tmp_path / "tmp" / "new.jar"]
    for path in (*old, *new):
        path.write_bytes(b"") if path.suffix else path.mkdir()
    for path in old:
        os.utime(path, (time.time() - YESTERDAY_S,) * 2)
    assert sorted(cache.sweep()) == old
    assert sorted((tmp_path / "tmp").iterdir()) == new


def test_a_second_harness_waits_and_reports_it(tmp_path: Path) -> None:
    cache, order, holding = Cache(tmp_path), list[str](), threading.Event()

    def second() -> None:
        holding.wait(10)
        with Cache(tmp_path).locked("4.3.1", order.append):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with cache.locked("4.3.1", order.append):
        holding.set()
        wait_for(lambda: list(order), until=bool, deadline_s=10, what="the second harness to report that it waits")
        order.append("first")
    thread.join(10)
    assert order == ["waiting for 4.3.1, which another harness or thread is preparing", "first", "second"]


def test_progress_is_reported_at_intervals_with_its_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, reported = [100.0], list[str]()
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    pace = Pace(reported.append)
    for now_s[0] in (101.0, 104.9, 105.0, 106.0, 112.4):
        pace("downloading")
    assert reported == ["downloading, 5 s", "downloading, 12 s"]


def test_a_directory_in_place_of_a_lock_is_refused(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    (tmp_path / "locks/4.3.1.lock/below").mkdir(parents=True)
    with pytest.raises(BadInput, match=r"the cache .* cannot be used \(.*point XDG"), cache.locked("4.3.1", print):
        pytest.fail("locked")


def test_a_directory_in_place_of_a_stored_file_is_replaced(tmp_path: Path) -> None:
    cache, digest = Cache(tmp_path), Digest.of(b"content")
    (tmp_path / f"store/{digest}/x.jar/below").mkdir(parents=True)
    assert cache.put(b"content", digest, "x.jar").read_bytes() == b"content"
    assert cache.find(digest, "x.jar") is not None


def test_a_lock_that_is_not_permitted_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    with pytest.raises(BadInput, match=r"cannot be used \(Permission denied\)"), Cache(tmp_path).locked("k", print):
        pytest.fail("locked")

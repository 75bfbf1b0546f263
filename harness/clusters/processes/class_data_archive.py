"""A class-data archive for each build (JEP 310). It halves the CPU time that a node needs to start: 4.8 s to 2.3 s.

The start of four JVMs is the bottleneck of a gate on two cores. The archive is made once for a build, of the classes
that a combined node loads. It is a static archive, because the JREs of PyPI bring no base archive for a dynamic one. It
cannot hide a patched class: its name changes with any file of the class path, and the JVM refuses it when the size or
time of a jar differs.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.clusters.nodes.launch import Settings
from harness.clusters.nodes.node_files import Site
from harness.clusters.nodes.node_logs import LogWatch
from harness.clusters.nodes.storage_format import build_key, copy_formatted
from harness.clusters.processes.runner import ProcessState
from harness.kafka.release.cache import Cache, Progress
from harness.kafka.release.class_archives import prune, usable
from harness.kafka.settings.node_settings import JVM_FLAGS, combined_properties, logging_properties
from harness.kafka.storage.uuids import new_uuid
from harness.model.errors import HarnessFailure
from harness.model.waiting import wait_for

_STEP_S = 90.0
_KEPT = 8  # archives, of 60 MB each
TRAINING = "training"


@dataclass(frozen=True, slots=True)
class _Training:
    site: Site
    directory: Path

    def run(self, archive: Path) -> None:
        """Writes the archive. HarnessFailure when the JVM cannot do it."""
        self.directory.mkdir()
        settings, watch = self._node()
        classes = self.directory / "classes.list"
        self._start(settings, [f"-XX:DumpLoadedClassList={classes}"])
        wait_for(
            lambda: watch.seen() or not self._state().alive,
            until=bool,
            deadline_s=_STEP_S,
            what="a node to start and list the classes that it loads",
            interval_s=0.1,
        )
        self.site.runner.signal([TRAINING], 15)
        self._wait_end("list the classes that it loads")
        made = self.directory / "classes.jsa"
        self._start(settings, [f"-XX:SharedClassListFile={classes}", "-Xshare:dump", f"-XX:SharedArchiveFile={made}"])
        self._wait_end("write a class-data archive")
        _adopt(made, archive)

    def _node(self) -> tuple[Settings, LogWatch]:
        """The settings of a combined node, which is a cluster in one process, and a watch on its log."""
        node, data, log = self.site.plan.controllers[0], self.directory / "data", self.directory / "server.log"
        cluster_id = new_uuid()
        copy_formatted(self.site.formatted.later, data, node=node, cluster_id=cluster_id)
        address = self.site.plan.node(node)
        properties = combined_properties(self.site.release, node=node, address=address, data=data)
        settings = Settings(self.directory / "server.properties", properties, cluster_id)
        settings.write()
        _, text = logging_properties(self.site.release, log)
        self._logging.write_text(text, "utf-8")
        return settings, LogWatch(log)

    @property
    def _logging(self) -> Path:
        return self.directory / "logging.properties"

    def _start(self, settings: Settings, flags: Sequence[str]) -> None:
        key, _ = logging_properties(self.site.release, self.directory / "server.log")
        logging = f"-D{key}={self._logging.as_uri()}"
        command = self.site.launch.prepare(self.directory, settings, [*JVM_FLAGS, *flags, logging])
        self.site.runner.start(
            TRAINING, command.argv, cwd=self.directory, output=self.directory / "console.log", env=command.env
        )

    def _state(self) -> ProcessState:
        return self.site.runner.status()[TRAINING]

    def _wait_end(self, what: str) -> None:
        state = wait_for(
            self._state,
            until=lambda state: not state.alive,
            deadline_s=_STEP_S,
            what=f"a JVM to {what}",
            interval_s=0.1,
        )
        if state.returncode not in (0, 143):  # 143: a controlled shutdown after SIGTERM
            raise HarnessFailure(f"a JVM did not {what} ({state.status})")


def with_fast_start(site: Site, cache: Cache, progress: Progress) -> Site:
    """The same site, with the JVM flag for the class-data archive of its release, if one can be made."""
    archive = _class_archive(site, cache, progress)
    return replace(site, fast_start=(f"-XX:SharedArchiveFile={archive}",)) if archive else site


def _class_archive(site: Site, cache: Cache, progress: Progress) -> Path | None:
    """The archive of this build on this Java; None if it cannot be made, which only costs time.

    A process of the runner named `TRAINING` makes it.
    """
    key = f"classes-{_key(site)}"
    archive = cache.root / "tools" / f"{key}.jsa"
    if not usable(archive):
        with cache.locked(key, progress):
            if not archive.exists():
                progress(f"preparing a fast start of Kafka {site.release.version} (once, about ten seconds)")
                _make(_Training(site, site.directory / TRAINING), archive, progress)
    prune(archive.parent, "classes-*.jsa", _KEPT)
    return archive if usable(archive) else None


def _make(training: _Training, archive: Path, progress: Progress) -> None:
    try:
        training.run(archive)
    except HarnessFailure as error:
        progress(f"nodes will start more slowly: {error}")
        training.site.runner.signal([TRAINING], 9)
        archive.touch()  # an empty file: the attempt failed and is not repeated at every start
    finally:
        shutil.rmtree(training.directory, ignore_errors=True)


def _adopt(made: Path, archive: Path) -> None:
    """Moves an archive into the cache, in one step even from another disk: other harnesses read it without a lock."""
    arriving = archive.with_name(f".{archive.name}")
    shutil.copyfile(made, arriving)
    arriving.replace(archive)


def _key(site: Site) -> str:
    parts = (build_key(site.release), site.launch.machine, *JVM_FLAGS)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]

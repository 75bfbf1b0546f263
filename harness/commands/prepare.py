"""Everything that a gate needs of the tested release, and of older ones, before a cluster starts.

`find_release` has the jars of the brokers; `prepare` adds what the chosen scenarios need beside them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from harness import clusters
from harness.clusters import Releases
from harness.commands.options import GateOptions
from harness.kafka.release.cache import default_cache
from harness.kafka.release.go_tool import S3_TOOL, TOXIPROXY_TOOL, go_tool
from harness.kafka.release.java_clients import CLIENTS, equip_clients
from harness.kafka.release.kafka_streams import STREAMS, equip_streams
from harness.kafka.release.preparation import Preparation
from harness.kafka.release.release import Release
from harness.kafka.release.tier_needs import asked, equip, equipped
from harness.model.backend import PROCESSES
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Scenario
from harness.run.progress import Progress
from harness.workload.readiness import check_configs


class _Sources(TypedDict):
    """Where jars come from, and where to report."""

    maven_repo: str | None
    cache: Path
    progress: Progress


@dataclass(frozen=True, slots=True)
class Prepared:
    """releases: with all that could be had. lacking: why a need of `needs_of` could not be met, by the need."""

    releases: Releases
    lacking: Mapping[str, str]


def find_release(options: GateOptions, progress: Progress) -> tuple[Release, str]:
    """The release under test and the backend that runs it, both printed.

    BadInput where the release cannot be had, or the backend cannot run it; where options contradict each other, before
    anything is fetched.
    """
    if options.backend == PROCESSES:
        clusters.refuse_as_processes(options.kafka, options.limits)
    began_s = time.monotonic()
    progress(f"preparing {f'Kafka {options.kafka}' if options.kafka else 'the newest complete release of Kafka'}")
    cache, say = default_cache(), progress.line
    with Preparation(progress) as preparation:
        # Every cluster needs this server, and its build needs the processors while the downloads wait for the network.
        preparation.start(TOXIPROXY_TOOL.what, lambda report: go_tool(TOXIPROXY_TOOL, cache, report))
        release = clusters.find_release(options.kafka, maven_repo=options.maven_repo, cache=cache, progress=progress)
        say(release.line())
        backend = clusters.choose(options.backend, cache, progress, say, image=release.image, limits=options.limits)
    say(f"prepared Kafka {release.version}: {len(release.classpath)} jars, {_seconds(began_s)}")
    return replace(release, user_storage=options.tier_storage), backend


def needs_of(scenario: Scenario) -> set[str]:
    """The needs of a scenario beside the tested brokers: kinds of remote storage, clients, an older release."""
    return {
        *asked(scenario.shape),
        *([CLIENTS] if scenario.java_clients else []),
        *([STREAMS] if scenario.kafka_streams else []),
        *([scenario.shape.starts_on] if scenario.shape.starts_on else []),
    }


def prepare(release: Release, scenarios: Sequence[Scenario], options: GateOptions, progress: Progress) -> Prepared:
    """Fetches and compiles all that these scenarios need. What cannot be had is named in `lacking`.

    BadInput where a client refuses its settings.
    """
    for scenario in scenarios:
        check_configs(scenario)
    began_s = time.monotonic()
    needs = set().union(*map(needs_of, scenarios))
    if not needs:
        return Prepared(Releases(release), {})
    progress(f"preparing what the scenarios need beside the brokers: {', '.join(sorted(needs))}")
    sources = _Sources(maven_repo=options.maven_repo, cache=default_cache(), progress=progress)
    with Preparation(progress) as preparation:
        if "s3" in needs:
            preparation.start(S3_TOOL.what, lambda report: go_tool(S3_TOOL, sources["cache"], report))
        return _equipped(release, scenarios, needs, options, sources, began_s)


def _equipped(
    release: Release,
    scenarios: Sequence[Scenario],
    needs: set[str],
    options: GateOptions,
    sources: _Sources,
    began_s: float,
) -> Prepared:
    progress = sources["progress"]
    release, lacking = equip(release, [s.shape for s in scenarios], **sources)
    if CLIENTS in needs:
        release, lacking = equip_clients(release, lacking, **sources)
    if STREAMS in needs:
        release, lacking = equip_streams(release, lacking, **sources)
    earlier, missing = _earlier_releases(release, scenarios, options, sources)
    for found in earlier.values():
        progress.line(f"upgraded from {found.line()}")
    lacking = {**lacking, **missing}
    if ready := sorted(needs - lacking.keys()):
        progress.line(f"prepared for the scenarios: {', '.join(ready)}, {_seconds(began_s)}")
    return Prepared(Releases(release, earlier), lacking)


def _earlier_releases(
    tested: Release, scenarios: Sequence[Scenario], options: GateOptions, sources: _Sources
) -> tuple[dict[str, Release], dict[str, str]]:
    """The releases that upgrades begin on, by version; and why, where one cannot be had."""
    found: dict[str, Release] = {}
    lacking: dict[str, str] = {}
    for version in sorted({s.shape.starts_on for s in scenarios if s.shape.starts_on}):
        shapes = [s.shape for s in scenarios if s.shape.starts_on == version]
        try:
            start = clusters.find_start(shapes[0], tested, **sources)
            assert start is not None
            start = replace(start, user_storage=options.tier_storage)
            found[version] = equipped(start, shapes, **sources)
        except BadInput as refused:
            lacking[version] = str(refused)
    return found, lacking


def _seconds(since_s: float) -> str:
    return f"{time.monotonic() - since_s:.0f} s"

"""What a gate on an existing cluster decides before it plays, and how it reaches that cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random

from harness.clusters import Cluster
from harness.clusters.attached.cluster import AttachedCluster
from harness.clusters.attached.discovery import Door, discover
from harness.commands.options import Attach, GateOptions
from harness.commands.scenario_selection import Selected, Selection, Wanted, not_empty, too_old
from harness.kafka.release.cache import default_cache
from harness.kafka.release.release import IMAGE, Release, resolve
from harness.model.backend import ATTACHED
from harness.model.documents.manifest import NamedRelease
from harness.model.errors import BadInput
from harness.model.hooks import check_hooks
from harness.model.live_cluster import LiveCluster
from harness.model.own_names import prefix_of
from harness.model.scenario.scenario import Scenario
from harness.model.version import VERSION
from harness.run.attached_pool import AttachedPool
from harness.run.progress import Progress
from harness.scenarios.fitting import Abilities, disturbs, fitted, misfit


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """A cluster that was looked at. release: of Kafka, without files unless a scenario needs the release's clients."""

    attach: Attach
    door: Door
    live: LiveCluster
    release: Release

    @property
    def named(self) -> NamedRelease:
        """The release for the evidence."""
        return NamedRelease(version=self.live.version, source=self.release.source)

    def pool(self, scenarios: Iterable[Scenario], seed: int, out: Path, progress: Progress) -> AttachedPool:
        """Where these scenarios get the cluster from. out: the folder for the output of hooks."""
        prefixes = {scenario.name: _prefix(seed, scenario.name) for scenario in scenarios}
        return AttachedPool(partial(self._connect, out), prefixes, progress)

    def _connect(self, out: Path, scenario: Scenario) -> Cluster:
        log = out / f"{scenario.name}-hooks.log"
        return AttachedCluster(self.door, self.live, self.release, self.attach.hooks, log)


def look(options: GateOptions, progress: Progress) -> Attached:
    """Looks at the cluster and changes nothing. BadInput for one that cannot be used, or may not be broken."""
    attach = options.attach
    assert attach is not None
    version = _version(options.kafka)
    door = Door.of(attach.bootstrap, attach.config, attach.config_file)
    progress(f"looking at the cluster at {attach.bootstrap}")
    live = discover(door, version)
    _check_allowed(attach, live)
    if attach.hooks is not None:
        check_hooks(attach.hooks, live)
    progress.line(
        f"cluster {live.cluster_id} at {attach.bootstrap}: brokers {', '.join(map(str, live.ids))}, Kafka "
        f"{version or 'of a version that --kafka does not say'}"
    )
    source = f"the cluster {live.cluster_id} at {attach.bootstrap}"
    return Attached(attach=attach, door=door, live=live, release=Release(version or "", "", source, ()))


def _version(kafka: str | None) -> str | None:
    if kafka is not None and not VERSION.fullmatch(kafka):
        what = "an image" if kafka.startswith(IMAGE) else "no version"
        raise BadInput(f"--kafka {kafka} is {what}: with --bootstrap it only says what the cluster runs, such as 4.3.1")
    return kafka


def _check_allowed(attach: Attach, live: LiveCluster) -> None:
    if attach.allow_faults is not None and attach.allow_faults != live.cluster_id:
        raise BadInput(
            f"--allow-faults {attach.allow_faults}: the cluster at {attach.bootstrap} has the id {live.cluster_id}; "
            "nothing was created; give that id if this is the cluster that you mean to break"
        )


def select(options: GateOptions, attached: Attached, wanted: Iterable[Wanted]) -> Selection:
    """The scenarios that this cluster can play, under names of their own, and why it cannot play the others.

    BadInput where the user named one that cannot be played, where none is left, and for faults that are not allowed.
    """
    live, hooks = attached.live, attached.attach.hooks
    able = Abilities(*(hooks.capabilities(n) if hooks else frozenset() for n in (live.ids, live.controllers)))
    selected: list[Selected] = []
    not_run: dict[str, str] = {}
    not_applicable: dict[str, str] = {}
    for one in wanted:
        old = too_old(attached.release, one.played) if live.version else None
        reason = old or misfit(one.played, live, able)
        if reason is None:
            selected.append(_fitted(one, attached, options.seed))
        elif options.named:
            raise BadInput(reason)
        else:
            (not_applicable if old else not_run)[one.name] = reason
    _check_faults(attached, selected)
    return not_empty(Selection(selected=tuple(selected), not_run=not_run, not_applicable=not_applicable))


def _fitted(one: Wanted, attached: Attached, seed: int) -> Selected:
    prefix = _prefix(seed, one.name)
    declared = fitted(one.declared, attached.live, prefix)
    played = declared if one.played is one.declared else fitted(one.played, attached.live, prefix)
    return Selected(declared, played, ATTACHED)


def _check_faults(attached: Attached, selected: Iterable[Selected]) -> None:
    """BadInput for faults that the user has not allowed on this very cluster."""
    faulty = [one.name for one in selected if disturbs(one.played)]
    if faulty and attached.attach.allow_faults is None:
        raise BadInput(
            f"scenario {faulty[0]} disturbs the cluster {attached.live.cluster_id}; nothing was created; allow that by "
            f"--allow-faults {attached.live.cluster_id}, or leave out what has faults: {', '.join(faulty)}"
        )


def run_of(seed: int, name: str) -> int:
    """The number that marks the records of a run."""
    return Random(f"{seed}/{name}").getrandbits(63)


def _prefix(seed: int, name: str) -> str:
    return prefix_of(run_of(seed, name))


def with_jars(release: Release, options: GateOptions, scenarios: Iterable[Scenario], progress: Progress) -> Release:
    """The release with its own jars, if one of the scenarios has the release's own clients."""
    if not any(scenario.java_clients for scenario in scenarios):
        return release
    jars = resolve(options.kafka, maven_repo=options.maven_repo, cache=default_cache(), progress=progress)
    return replace(jars, source=release.source)

"""The existing cluster, for one scenario after the other: it is whole before each, and clean after each.

After a run, also one that a signal ends, what hooks did is undone first; then topics and groups that have the prefix of
the run are deleted. Transactional ids cannot be deleted: Kafka lets them expire.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from harness.clusters import Cluster
from harness.kafka.admin.client import AdminView
from harness.model.errors import BadInput, HarnessError, HarnessFailure, HarnessTimeout
from harness.model.scenario.scenario import SHARE_ISOLATION, SHARE_RESET, Scenario
from harness.model.waiting import wait_for
from harness.run import broker_state
from harness.run.progress import Progress
from harness.run.recovery import isr_full

_WHOLE_S: Final = 180.0
_BACK_S: Final = 180.0
_DELETE_S: Final = 60.0
_CLIENTS_S: Final = 10.0


class AttachedPool:
    """make: connects to the cluster anew, for a scenario. prefixes: of the names of each scenario, by its name."""

    def __init__(self, make: Callable[[Scenario], Cluster], prefixes: Mapping[str, str], progress: Progress) -> None:
        self._make = make
        self._prefixes = prefixes
        self._progress = progress
        self._cluster: Cluster | None = None
        self._scenario: Scenario | None = None

    def __enter__(self) -> AttachedPool:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.retire()
        except Exception as failure:  # all evidence is on disk by now, and must still be judged
            self._progress.line(f"NOT clean: {failure}")

    def take(self, scenario: Scenario, backend: str) -> Cluster:  # noqa: ARG002 - there is one backend only
        """The cluster, once it is whole. BadInput where something has the scenario's names already."""
        self.retire()
        self._progress("waiting for the cluster to be whole")
        cluster = self._make(scenario)
        try:
            self._check(cluster, scenario)
        except BaseException:
            cluster.stop()
            raise
        self._cluster, self._scenario = cluster, scenario
        return cluster

    def give_back(self, scenario: Scenario, *, healthy: bool) -> None:  # noqa: ARG002 - it is cleaned in any case
        """Undoes and deletes what the scenario left."""
        self.retire()

    def retire(self) -> None:
        """The same for the scenario that has the cluster now, if there is one. HarnessFailure for what is not done."""
        cluster, scenario = self._cluster, self._scenario
        if cluster is None or scenario is None:
            return
        problems = []
        try:
            cluster.stop()
        except HarnessError as failure:
            problems.append(str(failure))
        try:
            self._clear(cluster, scenario)
        except HarnessError as failure:
            problems.append(str(failure))
        self._cluster = self._scenario = None  # not before: a signal leaves the rest to the way out
        if problems:
            raise HarnessFailure("; ".join(problems))

    def _check(self, cluster: Cluster, scenario: Scenario) -> None:
        prefix = self._prefixes[scenario.name]
        with broker_state.observer(cluster) as admin:
            whole = isr_full(cluster, admin, [], deadline_s=_WHOLE_S)
            if not whole.ok:
                raise HarnessTimeout(f"the cluster is not healthy before the run: {whole.last_seen}")
            taken = [name for name in (*admin.topic_names(), *admin.group_names()) if name.startswith(prefix)]
        if taken:
            raise BadInput(
                f"the cluster has {sorted(taken)[0]} already, and names of this run begin with {prefix}; delete what "
                "an earlier run left, or give another --seed"
            )

    def _clear(self, cluster: Cluster, scenario: Scenario) -> None:
        prefix = self._prefixes[scenario.name]
        self._progress(f"deleting {prefix}*")
        _end_clients()
        with broker_state.observer(cluster) as admin:
            with suppress(HarnessTimeout):  # then the deletion says what is wrong
                wait_for(
                    lambda: sorted(set(cluster.brokers) - set(admin.brokers_up())),
                    until=lambda down: not down,
                    deadline_s=_BACK_S,
                    what="every broker to be back",
                )
            delete_all(admin, prefix)
            for group in scenario.share_groups:
                members = scenario.share_groups[group]
                settings = {*members[0].group_config, SHARE_RESET, SHARE_ISOLATION}
                admin.alter_group_config(group, dict.fromkeys(settings))


def _end_clients() -> None:
    """Waits until no client of librdkafka is left in this process, or for a deadline, since one may hang.

    A producer that lives on asks for the metadata of its topics, which brokers may create then
    (auto.create.topics.enable).
    """
    gc.collect()
    with suppress(HarnessTimeout):
        wait_for(
            lambda: [path for path in Path("/proc/self/task").glob("*/comm") if _is_of_a_client(path)],
            until=lambda threads: not threads,
            deadline_s=_CLIENTS_S,
            what="clients to end",
        )


def _is_of_a_client(path: Path) -> bool:
    try:
        return path.read_text("utf-8").startswith("rdk:")
    except OSError:
        return False  # it has just ended


def delete_all(admin: AdminView, prefix: str) -> None:
    """Deletes every topic and group whose name begins with the prefix. HarnessError for what is still there."""
    give_up_at = time.monotonic() + _DELETE_S
    if topics := sorted(name for name in admin.topic_names() if name.startswith(prefix)):
        admin.delete_topics(topics, _DELETE_S)
    for group in sorted(name for name in admin.group_names() if name.startswith(prefix)):
        admin.delete_group(group, max(1.0, give_up_at - time.monotonic()))

"""A soak: a real cluster under light load and lawful events for hours, and two auditors beside it.

One auditor runs from the start to the end; the other is killed and started again all the time, reads the metadata log
from the disk of a broker, and has no broker logs. `python -m suites.audit.soak --seconds 7200 --out DIR`. The figures
are in DIR/summary.json from the first minute on, and are written again every half a minute.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import threading
from pathlib import Path
from typing import Final

from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.kafka.release.cache import default_cache
from harness.kafka.release.release import resolve
from harness.kafka.release.tier_needs import equipped
from harness.model.backend import PROCESSES
from harness.model.scenario.scenario import ClusterShape
from suites.audit.auditing import bootstrap, controllers
from suites.audit.soak.figures import Soak, append
from suites.audit.soak.lawful import Scene
from suites.audit.soak.load import GROUPS, TOPICS, Load
from suites.audit.soak.watched import Plan, Watched
from suites.gate.cluster_probes import RELEASE, observer, start

SHAPE: Final = ClusterShape(controllers=3, tier="local")
SUMMARY_S: Final = 30.0


def broker_logs(folder: Path, cluster: JvmCluster) -> Path:
    """A folder with the logs of all brokers."""
    logs = folder / "logs"
    logs.mkdir()
    for broker in cluster.brokers:
        (logs / f"broker-{broker}.log").symlink_to(cluster.server_log(broker))
    return logs


def cluster_with_tier(folder: Path) -> JvmCluster:
    cache = default_cache()
    release = resolve(RELEASE, maven_repo=None, cache=cache, progress=print)
    release = equipped(release, shapes=[SHAPE], maven_repo=None, cache=cache, progress=print)
    return start(folder, SHAPE, backend=PROCESSES, release=release)


def plans(folder: Path, cluster: JvmCluster) -> tuple[Plan, Plan]:
    common = (*bootstrap(cluster), "--groups", ",".join(GROUPS))
    logs = str(broker_logs(folder, cluster))
    disk = str(cluster.log_directories(cluster.brokers[-1])[0])
    return (
        Plan("steady", (*common, *controllers(cluster), "--logs", logs, "--metrics", "0", "--probe", "probed"), None),
        Plan("killed", (*common, "--metadata-dir", disk), (120.0, 480.0)),
    )


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m suites.audit.soak", description=__doc__)
    options.add_argument("--seconds", type=float, default=7200)
    options.add_argument("--out", type=Path, required=True, help="an empty folder")
    options.add_argument("--pause", type=float, nargs=2, default=(60.0, 180.0), help="seconds between two events")
    options.add_argument("--seed", type=int, default=None)
    given = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # stops auditors and brokers first
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(10**6)
    print(f"seed {seed}", flush=True)
    given.out.mkdir(parents=True, exist_ok=True)
    stop = threading.Event()
    with cluster_with_tier(given.out) as cluster, observer(cluster) as admin:
        admin.create_topics(TOPICS)
        auditors = [
            Watched(plan, given.out, random.Random(f"{seed}/{plan.name}"), lambda f, row: append(given.out / f, row))
            for plan in plans(given.out, cluster)
        ]
        soak = Soak(given.out, auditors, Load(cluster.bootstrap_direct()))
        scene = Scene(cluster, admin, random.Random(f"{seed}/events"))

        def keep_writing() -> None:
            while not stop.wait(SUMMARY_S):
                soak.write()

        writer = threading.Thread(target=keep_writing)
        try:
            for auditor in auditors:
                auditor.start()
            writer.start()
            soak.run(scene, given.seconds, tuple(given.pause))
            soak.check_log_ends(scene)
        finally:
            stop.set()
            soak.load.close()
            for auditor in auditors:
                auditor.close()
            soak.write()
    summary = soak.summary()
    print(json.dumps(summary, indent=1))
    return 1 if summary["false_alarms"] or summary["missing_alarms"] else 0


if __name__ == "__main__":
    sys.exit(main())

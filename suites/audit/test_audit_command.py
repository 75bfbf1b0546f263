"""`durability audit` on real brokers: alarms within a second, restarts, other sources, the probe, and its commands.

All tests share one cluster; each has topics of its own.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer

from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.client import AdminView
from harness.model.scenario.scenario import ClusterShape, Topic
from harness.model.waiting import wait_for
from suites.audit.auditing import ALARM_S, AuditorProcess, asked, auditing, bootstrap, controllers
from suites.audit.following import addresses
from suites.gate.cluster_probes import observer, quiet, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

WEEK, HOUR = "604800000", "3600000"
SECOND_NS = 1_000_000_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, backend: str) -> Iterator[JvmCluster]:
    with start(tmp_path_factory.mktemp("runs"), ClusterShape(), backend=backend) as started:
        yield started


@pytest.fixture(scope="module")
def admin(cluster: JvmCluster) -> Iterator[AdminView]:
    with observer(cluster) as view:
        yield view


@pytest.fixture
def auditor(cluster: JvmCluster, tmp_path: Path) -> Iterator[AuditorProcess]:
    with auditing(tmp_path, *bootstrap(cluster), *controllers(cluster), "--metrics", "0") as started:
        yield started


def produce(cluster: JvmCluster, topic: str, count: int) -> None:
    producer = Producer(quiet({"bootstrap.servers": cluster.bootstrap_direct(), "acks": "all"}))
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(20) == 0


def topic(admin: AdminView, name: str, **config: str) -> None:
    admin.create_topics([Topic(name=name, assignment=((1, 2, 3),), config=config)])


def lower(admin: AdminView, name: str) -> int:
    """Lowers the retention. Returns when, by the wall clock."""
    before_ns = time.time_ns()
    admin.alter_topic_config(name, {"retention.ms": HOUR})
    return before_ns


def opened_ns(row: dict[str, str]) -> int:
    from datetime import datetime

    return int(datetime.fromisoformat(row["opened"]).timestamp() * SECOND_NS)


def test_a_lower_retention_is_an_alarm_within_a_second(
    cluster: JvmCluster, admin: AdminView, auditor: AuditorProcess
) -> None:
    topic(admin, "kept", **{"retention.ms": WEEK})
    produce(cluster, "kept", 10)
    seen(auditor, "kept-0", "high watermark 10")
    since_ns = lower(admin, "kept")
    row = auditor.row("opened", rule="setting_weakened")
    assert opened_ns(row) - since_ns < SECOND_NS
    assert row["places"][0]["topic"] == "kept"
    assert (row["severity"], row["records"]) == ("danger", 10)
    status = auditor.status()
    assert (status["running"], status["process"]) == (True, auditor.process.pid)
    assert row["incident"] in [alarm["incident"] for alarm in status["alarms"]]
    assert {"metadata", "offsets", "replicas", "settings"} <= set(status["vitals"]["covered_now"])
    explained = asked("explain", "kept-0", "--db", str(auditor.folder)).stdout
    assert "retention.ms=3600000*" in explained
    assert "setting_weakened since" in explained
    admin.alter_topic_config("kept", {"retention.ms": WEEK})
    assert auditor.row("ended", rule="setting_weakened")["incident"] == row["incident"]


def seen(auditor: AuditorProcess, place: str, text: str) -> None:
    """Waits until the database of the auditor has this about a partition. Offsets are saved every half a minute."""
    wait_for(
        lambda: asked("explain", place, "--db", str(auditor.folder)).stdout,
        until=lambda explained: text in explained,
        deadline_s=60,
        what=f"{text} of {place}",
        interval_s=1.0,
    )


def test_an_unclean_election_names_the_lost_records_exactly(
    cluster: JvmCluster, admin: AdminView, auditor: AuditorProcess
) -> None:
    settings = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    admin.create_topics([Topic(name="risky", assignment=((2, 3),), config=settings)])
    produce(cluster, "risky", 100)
    try:
        cluster.kill(3)
        isr(admin, "risky", (2,))
        produce(cluster, "risky", 50)
        looked_at(auditor)
        cluster.kill(2)
        cluster.start(3)
        cluster.wait_started(3, 60)
        row = auditor.row("opened", deadline_s=60, rule="epoch_below_commit")
        (place,) = row["places"]
        lost = place["topic"], place["partition"], place["first_offset"], place["end_offset"]
        assert (lost, row["severity"]) == (("risky", 0, 100, 150), "loss")
        assert auditor.row("opened", rule="unclean_leader")["severity"] == "loss"
    finally:
        for broker in (2, 3):
            if not cluster.running(broker):
                cluster.start(broker)
            cluster.wait_started(broker, 60)
        admin.delete_topics(["risky"])


def isr(admin: AdminView, name: str, wanted: tuple[int, ...]) -> None:
    wait_for(
        lambda: [state.isr for state in admin.partitions([name])],
        until=lambda seen: seen == [wanted],
        deadline_s=30,
        what=f"the ISR {wanted}",
    )


def looked_at(auditor: AuditorProcess) -> None:
    """Waits for a round of looks that began from now on."""
    now_ns = time.time_ns()
    wait_for(
        lambda: auditor.status()["vitals"]["round_ended_ns"] or 0,
        until=lambda ended_ns: ended_ns > now_ns + 2 * SECOND_NS,
        deadline_s=30,
        what="another round of looks",
        interval_s=0.5,
    )


def test_after_a_kill_it_continues_without_an_alarm_and_says_what_it_missed(
    cluster: JvmCluster, admin: AdminView, tmp_path: Path
) -> None:
    topic(admin, "crashed", **{"retention.ms": WEEK})
    options = (*bootstrap(cluster), *controllers(cluster))
    with auditing(tmp_path, *options) as first:
        lower(admin, "crashed")
        row = first.row("opened", rule="setting_weakened")
        first.end(signal.SIGKILL)  # at once: an alarm is in the file before it is shown
    topic(admin, "meanwhile", **{"retention.ms": WEEK})
    lower(admin, "meanwhile")
    time.sleep(6)  # the time without an auditor has to be longer than a restart takes
    with auditing(tmp_path, *options) as second:
        late = second.row("opened", rule="setting_weakened", repeated=False)
        assert late["places"][0]["topic"] == "meanwhile"
        status = second.status()
        assert {row["incident"], late["incident"]} <= {alarm["incident"] for alarm in status["alarms"]}
        assert "no auditor ran" in status["unwatched"][-1]["why"]
        assert second.end() == 0
    shown = [r for r in second.read() if r.get("rule") == "setting_weakened"]
    assert [r["id"] for r in shown if not r["repeated"]] == [late["id"]]
    assert {(r["id"], r["event"]) for r in shown if r["repeated"]} <= {(row["id"], "opened")}
    assert second.read()[-1]["event"] == "ended"
    ended = second.status()
    assert (ended["running"], len(ended["alarms"])) == (False, len(status["alarms"]))


def test_the_disk_of_a_node_and_descriptions_of_brokers_show_a_lower_retention_too(
    cluster: JvmCluster, admin: AdminView, tmp_path: Path
) -> None:
    (directory, *_) = cluster.log_directories(1)
    for name, options in {"disk": ("--metadata-dir", str(directory)), "described": ()}.items():
        topic(admin, f"from-{name}", **{"retention.ms": WEEK})
        with auditing(tmp_path, *bootstrap(cluster), *options, name=name) as auditor:
            since_ns = lower(admin, f"from-{name}")
            row = auditor.row("opened", rule="setting_weakened")
            allowed_s = 1 if name == "disk" else 10
            assert opened_ns(row) - since_ns < allowed_s * SECOND_NS
            assert ("metadata" in auditor.status()["vitals"]["covered_now"]) == (name == "disk")
    refused = asked(*bootstrap(cluster), *controllers(cluster), "--db", str(tmp_path / "described"))
    assert (refused.returncode, "without the metadata log" in refused.stderr) == (2, True)


def test_a_paused_broker_delays_no_alarm_about_others(
    cluster: JvmCluster, admin: AdminView, auditor: AuditorProcess
) -> None:
    topic(admin, "calm", **{"retention.ms": WEEK})
    looked_at(auditor)
    cluster.pause(3)
    try:
        time.sleep(1)  # looks at it wait for their time limit now
        since_ns = time.time_ns()
        admin.leave_alone([3])
        admin.alter_topic_config("calm", {"retention.ms": HOUR})
        row = auditor.row("opened", rule="setting_weakened")
        assert opened_ns(row) - since_ns < 5 * SECOND_NS
    finally:
        cluster.resume(3)
        admin.ask_again([3])
    isr_of = {"calm": {1, 2, 3}}
    wait_for(
        lambda: {state.topic: set(state.isr) for state in admin.partitions(["calm"])},
        until=lambda seen: seen == isr_of,
        deadline_s=60,
        what="the full ISR",
    )


def test_signals_rules_metrics_and_a_second_auditor(cluster: JvmCluster, admin: AdminView, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('budget = "cpu=4%"\n[setting_weakened]\nseverity = "notice"\n')
    options = (*bootstrap(cluster), *controllers(cluster), "--rules", str(rules), "--metrics", "0")
    with auditing(tmp_path, *options, "--topics", "ruled*") as auditor:
        for name in ("ruled", "other"):
            topic(admin, name, **{"retention.ms": WEEK})
            lower(admin, name)
        assert auditor.row("opened", rule="setting_weakened")["severity"] == "notice"
        rules.write_text('budget = "cpu=6%"\n[setting_weakened]\nseverity = "loss"\n')
        auditor.process.send_signal(signal.SIGHUP)
        auditor.row("changed")
        topic(admin, "ruled-2", **{"retention.ms": WEEK})
        lower(admin, "ruled-2")
        auditor.row("opened", rule="setting_weakened", severity="loss")
        port = auditor.row("started")["metrics_port"]
        text = wait_for(
            lambda: metrics(port),
            until=lambda text: 'durability_audit_alarms_open{rule="setting_weakened",severity="loss"} 1.0' in text,
            deadline_s=10,
            what="the metric of the open alarm",
        )
        assert 'durability_audit_budget{of="cpu"} 0.06' in text
        assert {place["topic"] for row in auditor.read() for place in row.get("places", ())} == {"ruled", "ruled-2"}
        second = asked(*bootstrap(cluster), *controllers(cluster), "--db", str(auditor.folder))
        assert (second.returncode, second.stdout) == (2, "")
        assert f"is in use by another auditor (process {auditor.process.pid})" in second.stderr
        memory = auditor.status()["vitals"]["memory_bytes"]
        assert memory < 64 << 20
        assert auditor.end(signal.SIGINT) == 0


def metrics(port: int) -> str:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def test_the_probe_finds_deleted_records_and_refuses_a_topic_of_others(
    cluster: JvmCluster, admin: AdminView, tmp_path: Path
) -> None:
    options = (*bootstrap(cluster), *controllers(cluster), "--probe", "probed")
    with auditing(tmp_path, *options) as auditor:
        counts = wait_for(
            lambda: auditor.status()["vitals"]["probe"],
            until=lambda found: found.get("read again from follower", 0) > 0 and found.get("acked", 0) > 15,
            deadline_s=60,
            what="records that were read again",
            interval_s=1.0,
        )
        assert counts["read new from leader"] > 0
        assert auditor.events("probe") == []
        admin.delete_records({("probed", 0): 3})
        row = auditor.row("opened", rule="probe", deadline_s=60)
        (place,) = row["places"]
        assert (place["topic"], place["partition"], place["first_offset"], place["end_offset"]) == ("probed", 0, 0, 3)
        assert row["severity"] == "loss"
        other = asked(*options, "--db", str(tmp_path / "other"))
        assert (other.returncode, "this database's auditor did not create it" in other.stderr) == (2, True)
    with auditing(tmp_path, *options) as again:  # its own topic is known after a restart
        assert "probe" in again.status()["vitals"]["covered_now"]


def test_the_topic_of_the_probe_has_three_replicas_even_if_a_broker_is_down_when_it_is_created(
    cluster: JvmCluster, admin: AdminView, tmp_path: Path
) -> None:
    brokers = Brokers(addresses(cluster, cluster.brokers[:1]))
    try:
        cluster.kill(3)
        wait_for(
            lambda: tuple(brokers.refresh(10.0).brokers),
            until=lambda seen: seen == (1, 2),
            deadline_s=30,
            what="the fencing of broker 3",
        )
        with auditing(tmp_path, *bootstrap(cluster), *controllers(cluster), "--probe", "young") as auditor:
            wait_for(
                lambda: auditor.status()["vitals"]["probe"],
                until=lambda found: found.get("acked", 0) > 0,
                deadline_s=60,
                what="an acknowledged record of the probe",
                interval_s=1.0,
            )
            made = admin.partitions(["young"])
        assert {len(one.replicas) for one in made} == {3}
    finally:
        cluster.start(3)
        cluster.wait_started(3, 60)
        brokers.close()
        admin.delete_topics(["young"])


def test_the_selftest_passes_with_a_running_auditor_and_with_its_own(
    cluster: JvmCluster, admin: AdminView, auditor: AuditorProcess
) -> None:
    own = asked("selftest", *bootstrap(cluster), *controllers(cluster))
    assert (own.returncode, own.stderr) == (0, "")
    running = asked("selftest", *bootstrap(cluster), "--db", str(auditor.folder))
    assert running.stdout.splitlines()[-1].startswith("PASS: the alarm setting_weakened came ")
    assert running.returncode == 0
    topic(admin, "taken")
    taken = asked("selftest", *bootstrap(cluster), "--db", str(auditor.folder), "--topic", "taken")
    assert (taken.returncode, "the topic taken exists" in taken.stderr) == (2, True)
    assert admin.partitions(["durability-selftest"]) == []
    assert len(admin.partitions(["taken"])) == 1


def test_the_selftest_fails_with_an_auditor_that_is_stuck(cluster: JvmCluster, auditor: AuditorProcess) -> None:
    auditor.process.send_signal(signal.SIGSTOP)
    failed = asked("selftest", *bootstrap(cluster), "--db", str(auditor.folder))
    assert failed.stdout.splitlines()[-1].startswith("FAIL: the auditor did not see the new topic")
    assert failed.returncode == 1


def test_what_it_cannot_reach_is_one_sentence(cluster: JvmCluster, tmp_path: Path) -> None:
    broker = "{}:{}".format(*cluster.direct_address(1))
    wrong = {
        ("--bootstrap", broker, "--controllers", broker): "a broker does not serve the metadata log",
        ("--bootstrap", "127.0.0.1:9"): "no broker answers at 127.0.0.1:9 within 15 s",
        ("--bootstrap", broker, "--metadata-dir", str(tmp_path)): "has no __cluster_metadata-0",
    }
    for options, sentence in wrong.items():
        done = asked(*options, "--db", str(tmp_path / "db"))
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
        assert sentence in done.stderr


def test_json_lines_name_the_cluster(cluster: JvmCluster, auditor: AuditorProcess) -> None:
    started = auditor.row("started", deadline_s=ALARM_S)
    assert started["cluster_id"] == json.loads(json.dumps(auditor.status()))["vitals"]["watch"]["cluster_id"]
    assert started["not_covered"]["groups"] == "no --groups were given"

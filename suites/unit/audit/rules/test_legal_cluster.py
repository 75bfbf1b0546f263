"""Random histories of a correct partition raise no alarm; an unclean election in them is found, with its records."""

from __future__ import annotations

from suites.unit.audit.rules.legal_cluster import LegalCluster

# They say rightly that a partition of these histories has been short of replicas for long.
STANDING = {"under_replicated", "below_min_isr", "replica_stuck"}
SEEDS = 150


def test_a_correct_cluster_raises_no_alarm() -> None:
    looks = 0
    for seed in range(SEEDS):
        cluster = LegalCluster(seed)
        cluster.run(120)
        looks += cluster.high_watermark
        assert [alarm for alarm in cluster.crowd.alarms if alarm.rule not in STANDING] == [], f"seed {seed}"
    assert looks > SEEDS * 20  # records were committed


def test_an_unclean_election_is_found_with_the_lost_records() -> None:
    lost = 0
    for seed in range(SEEDS):
        cluster = LegalCluster(seed)
        cluster.epochs_asked = 1.0
        cluster.run(60)
        while len(cluster.isr) == 3 or not cluster.answers:
            cluster.run(1)
        while (before := cluster.seen()).error is not None:
            pass
        cluster.crowd.look(before)
        cluster.crowd.alarms.clear()
        start = cluster.unclean()
        for _ in range(40):
            for step in (cluster.append, cluster.fetch, cluster.grow, cluster.look):
                step()
        found = {alarm.rule: (alarm.first_offset, alarm.end_offset) for alarm in cluster.crowd.alarms}
        committed = before.offsets.high_watermark
        assert "unclean_leader" in found, f"seed {seed}"
        expected = (start, committed) if start < committed else None
        assert found.get("epoch_below_commit") == expected, f"seed {seed}"
        lost += start < committed
    assert lost > SEEDS / 10

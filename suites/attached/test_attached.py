"""Runs on a cluster that the harness did not start: verdicts, and a cluster that is as before, whatever ends them."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from harness.commands.attached import run_of
from harness.evidence.verdicts import read_verdict
from harness.kafka.admin.addresses import addresses_of
from harness.kafka.admin.client import AdminView
from harness.kafka.admin.reach import reach
from harness.kafka.admin.security import PLAINTEXT
from harness.model.exits import Exit
from harness.model.own_names import prefix_of
from harness.model.verdict import Status
from harness.model.waiting import wait_for
from harness.verify.conclude import OF_FILES, UNWATCHED
from suites.attached.by_hand import CLUSTER_ID, ByHand
from suites.attached.playing import ALONE, KILLED, RATE_PER_S, WIPED, down, durability, hooks_of, judged, names, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900), pytest.mark.usefixtures("as_it_was")]

SEED = 11


@pytest.fixture
def hooks(cluster: ByHand, tmp_path: Path) -> Path:
    return hooks_of(cluster, tmp_path)


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_a_leader_killed_by_hooks_ends_in_pass(cluster: ByHand, hooks: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["run", KILLED, "--hooks", hooks, "--allow-faults", CLUSTER_ID, "--records", 30_000, "--seed", SEED]
    code, output, errors = durability(cluster.bootstrap, tmp_path, *arguments, "--tries", 1, "--out", out)
    assert code == Exit.PASS, output + errors
    verdict = read_verdict(out / "killed")
    assert (verdict.status, verdict.doubts) == (Status.PASS, ())
    assert {*OF_FILES, UNWATCHED} <= set(verdict.not_covered)
    log = next((out / "killed").rglob("hooks.log")).read_text()
    assert "kill of node" in log
    assert " inverse (" in log
    rows = ds.dataset(out / "killed" / "observations", format="parquet").to_table(columns=["topic"]).to_pylist()
    assert {row["topic"] for row in rows} == {
        f"{prefix_of(run_of(SEED, 'killed'))}{t}" for t in ("plain", "keyed", "paid")
    }
    assert (out / "report" / "index.html").is_file()


def test_records_that_an_unclean_leader_lost_are_found(cluster: ByHand, hooks: Path, tmp_path: Path) -> None:
    """The rate holds as well: no second has more records than it allows, of all producers together."""
    _, verdict = judged(cluster, tmp_path, ALONE, hooks, seed=SEED, records=5_000, negative_control=True)
    assert verdict.status is Status.FAIL
    lost = [finding for finding in verdict.findings if finding.kind.value == "lost" and finding.condemns]
    assert {finding.topic for finding in lost} == {f"{prefix_of(run_of(SEED, 'alone'))}exact"}
    assert sum(finding.count for finding in lost) >= 50
    called = ds.dataset(tmp_path / "out" / "alone" / "ledger", format="parquet").to_table(columns=["called_ns"])
    seconds = Counter(row["called_ns"] // 10**9 for row in called.to_pylist())
    assert max(seconds.values()) <= RATE_PER_S * 1.1


def test_records_that_no_disk_has_any_more_are_found_with_their_offsets(
    cluster: ByHand, hooks: Path, tmp_path: Path
) -> None:
    """The hook that starts a node removes a partition before, as a disk that is replaced would."""
    start = "-m suites.attached.by_hand"
    wipe = f"rm -rf {cluster.folder}/node-{{node}}/data/*exact-0; "
    text = hooks.read_text().replace('inverse = "', f'shell = true\ninverse = "{wipe}')
    assert start in text
    hooks.write_text(text)
    result, verdict = judged(cluster, tmp_path, WIPED, hooks, seed=SEED, records=2_000)
    assert result.exit == Exit.FAIL
    lost = [f for f in verdict.findings if f.kind.value == "lost" and f.condemns]
    assert {finding.topic for finding in lost} == {f"{prefix_of(run_of(SEED, 'wiped'))}exact"}
    assert sum(finding.count for finding in lost) == 100
    assert min(f.offset_first or 0 for f in lost) == 0
    assert max(f.offset_last or 0 for f in lost) == 99


@pytest.mark.parametrize(
    ("in_effect", "said"), [("true", "no_effect"), ("false", "waited")], ids=["and its probe lies", "as its probe says"]
)
def test_a_hook_without_an_effect_never_ends_in_pass(
    cluster: ByHand, tmp_path: Path, in_effect: str, said: str
) -> None:
    hooks = tmp_path / "hooks.toml"
    hooks.write_text(
        f'[kill]\ncommand = "true"\ninverse = "true"\nin_effect = "{in_effect}"\nundone = "true"\ndeadline_s = 3\n'
    )
    result, verdict = judged(cluster, tmp_path, KILLED, hooks, seed=SEED, records=5_000)
    assert result.exit == Exit.INCONCLUSIVE
    assert said in " ".join(str(doubt) for doubt in verdict.doubts)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([KILLED, "--hooks", "HOOKS"], f"allow that by --allow-faults {CLUSTER_ID}"),
        ([KILLED, "--hooks", "HOOKS", "--allow-faults", "other"], f"has the id {CLUSTER_ID}; nothing was created"),
        ([KILLED, "--allow-faults", CLUSTER_ID], "no hook can do `kill`"),
        (["disk_full", "--allow-faults", CLUSTER_ID], "scenario disk_full: it needs"),
        (["upgraded_one_minor", "--allow-faults", CLUSTER_ID], "it upgrades a cluster from an earlier release"),
    ],
)
def test_what_may_not_run_is_refused_in_one_sentence_before_anything_is_created(
    cluster: ByHand, hooks: Path, tmp_path: Path, arguments: list[object], said: str
) -> None:
    given = [hooks if word == "HOOKS" else word for word in arguments]
    code, output, errors = durability(cluster.bootstrap, tmp_path, "run", *given, "--out", tmp_path / "out")
    assert code == Exit.USAGE, output + errors
    *earlier, line = errors.splitlines()
    assert not [one for one in earlier if not one.startswith("[")]  # but what it is doing
    assert said in line
    assert not (tmp_path / "out").exists()


# --- signals ----------------------------------------------------------------------------------------------------------


def played_until_a_node_is_down(cluster: ByHand, hooks: Path, out: Path, seed: int) -> subprocess.Popen[str]:
    arguments = ["run", KILLED, "--hooks", hooks, "--allow-faults", CLUSTER_ID, "--records", 30_000, "--seed", seed]
    process = start(cluster.bootstrap, out.parent, *arguments, "--out", out)

    def seen() -> list[int]:
        assert process.poll() is None, process.communicate()
        return down(cluster)

    wait_for(seen, until=bool, deadline_s=180, what="a node to be down", interval_s=0.05)
    return process


def test_a_signal_leaves_nothing_behind(cluster: ByHand, hooks: Path, tmp_path: Path) -> None:
    """SIGINT takes the same way."""
    with played_until_a_node_is_down(cluster, hooks, tmp_path / "out", SEED) as process:
        assert [name for name in names(cluster.bootstrap) if name.startswith("durability-")]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=180)
        assert process.returncode == Exit.TERMINATED


def test_after_sigkill_nodes_come_back_and_topics_that_are_left_stop_a_run_of_their_names(
    cluster: ByHand, hooks: Path, tmp_path: Path
) -> None:
    with played_until_a_node_is_down(cluster, hooks, tmp_path / "out", SEED + 1) as process:
        process.kill()
    log = tmp_path / "out" / "killed-hooks.log"
    wait_for(log.read_text, until=lambda text: ": undone" in text, deadline_s=120, what="the node to be started again")
    assert not down(cluster)
    prefix = prefix_of(run_of(SEED + 1, "killed"))
    left = {name for name in names(cluster.bootstrap) if name.startswith("durability-")}
    assert left
    assert all(name.startswith(prefix) for name in left)
    arguments = ["run", KILLED, "--hooks", hooks, "--allow-faults", CLUSTER_ID, "--seed", SEED + 1, "--tries", 1]
    code, output, errors = durability(cluster.bootstrap, tmp_path, *arguments, "--out", tmp_path / "again")
    assert code != Exit.PASS
    assert f"the cluster has {sorted(left)[0]} already" in output + errors
    assert left <= names(cluster.bootstrap)
    with AdminView(reach(addresses_of(cluster.bootstrap), PLAINTEXT).brokers) as admin:
        admin.delete_topics(sorted(left & set(admin.topic_names())), 60)
        for group in sorted(left & set(admin.group_names())):
            admin.delete_group(group, 60)

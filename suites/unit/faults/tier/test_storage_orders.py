"""Orders to the storage of a tier: how they are given and withdrawn, what counts as done, and what is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.faults.steps.registry import build_step, check_steps
from harness.faults.tier.storage_orders import Op, acts_of, done_by, ordered
from harness.faults.tier.tier_full import TierFull
from harness.kafka.settings.tier_settings import ORDERS, REPORTS
from harness.kafka.storage.local_tier import ROOT
from harness.model.errors import BadInput
from harness.model.scenario.scenario import ClusterShape, Producer, Scenario, Step, Topic

FAR = Topic(name="far", partitions=1, config={"remote.storage.enable": "true"})
COPY: tuple[Op, ...] = ("copy",)
NEAR = Topic(name="near", partitions=1)


@pytest.fixture
def context(tmp_path: Path) -> Any:
    for name in (ORDERS, REPORTS):
        (tmp_path / name).mkdir()
    return SimpleNamespace(cluster=SimpleNamespace(tier_store=tmp_path))


def line(order: Path, did: str, partition: int = 0) -> str:
    return f"1700\t{order.name}\tcopy\t{did}\tfar\t{partition}\tsegment\t12\n"


def test_an_order_is_a_file_that_is_removed_afterwards(context: Any, tmp_path: Path) -> None:
    with ordered(context, "fail", ("copy", "fetch"), "far/0", share=0.5, delay_ms=None) as order:
        assert order.read_text().splitlines() == [
            "what=fail",
            "ops=copy,fetch",
            "topic=far",
            "partition=0",
            "share=0.5",
        ]
        assert list((tmp_path / ORDERS).iterdir()) == [order]
    assert list((tmp_path / ORDERS).iterdir()) == []
    with ordered(context, "slow", COPY, "") as order:
        assert order.read_text().splitlines() == ["what=slow", "ops=copy"]


def test_only_complete_lines_about_this_order_count(context: Any, tmp_path: Path) -> None:
    with ordered(context, "fail", COPY, "") as order:
        reported = line(order, "failed") + line(Path("another.properties"), "failed") + line(order, "failed", 1)
        (tmp_path / REPORTS / "2.tsv").write_text(reported + line(order, "failed")[:-9])
        found = acts_of(context, order)
        assert [(act.broker, act.partition, act.base_offset, act.did) for act in found] == [
            (2, 0, 12, "failed"),
            (2, 1, 12, "failed"),
        ]
        effect = done_by(context, order, {"failed": "failed"})()
        assert effect.held
        assert effect.because == "far/0, far/1: 2 times copy failed"
        assert effect.seen == {"deeds": {"copy failed": 2}, "brokers": [2]}


def test_an_order_that_no_storage_followed_has_no_effect(context: Any, tmp_path: Path) -> None:
    with ordered(context, "after", COPY, "") as order:
        (tmp_path / REPORTS / "2.tsv").write_text(line(order, "let go") + line(Path("another.properties"), "held"))
        effect = done_by(context, order, {"held": "held after"})()
        assert (effect.held, effect.because) == (
            False,
            "no broker has asked the remote tier for such an operation since then",
        )


@pytest.mark.parametrize(("kept", "what"), [(False, "full"), (True, "full_kept")])
def test_the_limit_of_a_full_tier_is_its_present_size_and_the_spare_space(
    context: Any, tmp_path: Path, kept: bool, what: str
) -> None:
    (tmp_path / ROOT / "far-0").mkdir(parents=True)
    for name in ("one.log", "two.index"):
        (tmp_path / ROOT / "far-0" / name).write_bytes(bytes(700))
    with TierFull(spare_kb=2, kept=kept).active(context) as injected:
        (order,) = (tmp_path / ORDERS).iterdir()
        says = [f"what={what}", "ops=copy", f"folder={ROOT}", "limit_bytes=3448"]
        assert order.read_text().splitlines() == says
        (tmp_path / REPORTS / "2.tsv").write_text(line(order, "full"))
        assert injected.probe().because == "far/0: 1 times copy stopped where the tier was full"


def test_a_storage_of_the_user_cannot_be_filled() -> None:
    with pytest.raises(BadInput, match="has no access to a storage of the user"):
        check_steps(scenario({"do": "tier_full"}, tier="user", tier_faults=True))
    with pytest.raises(BadInput, match="tier_full needs the faulty storage"):
        check_steps(scenario({"do": "tier_full"}, tier="local"))


def scenario(step: dict[str, Any], **shape: Any) -> Scenario:
    args = {key: value for key, value in step.items() if key != "do"}
    return Scenario(
        name="s",
        title="",
        property="",
        shape=ClusterShape(**shape),
        topics=(FAR, NEAR),
        producers=(Producer(name="p", topics=("far",)),),
        steps=(Step(do=step["do"], name="it", args=args),),
    )


EACH = (
    {"do": "tier_errors", "ops": ["copy"], "of": "far/0"},
    {"do": "tier_slow", "delay_ms": 5, "of": "far/0"},
    {"do": "tier_late", "late_s": 5, "of": "far/0"},
    {"do": "tier_hold", "at": "after", "of": "far/0"},
)


@pytest.mark.parametrize("step", EACH, ids=lambda step: step["do"])
def test_only_a_tier_with_the_faulty_storage_takes_orders(step: dict[str, Any]) -> None:
    check_steps(scenario(step, tier="local", tier_faults=True))
    with pytest.raises(BadInput, match=f'{step["do"]} needs a remote tier; set tier = "local"'):
        check_steps(scenario(step))
    with pytest.raises(BadInput, match=rf"{step['do']} needs the faulty storage; set tier_faults = true in \[shape"):
        check_steps(scenario(step, tier="local"))
    with pytest.raises(BadInput, match="topic near is not in the remote tier"):
        check_steps(scenario({**step, "of": "near/0"}, tier="local", tier_faults=True))


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"do": "tier_errors", "ops": []}, "names no operation"),
        ({"do": "tier_errors", "ops": ["list"]}, "list"),
        ({"do": "tier_errors", "ops": ["copy"], "share": 0}, "share"),
        ({"do": "tier_errors", "ops": ["copy", "fetch"], "half": True}, "only a copy can stop half way"),
        ({"do": "tier_errors", "ops": ["copy"], "kept": True}, "kept: concerns half copies only"),
        ({"do": "tier_slow", "ops": []}, "names no operation"),
        ({"do": "tier_slow"}, "this slows nothing"),
        ({"do": "tier_slow", "ops": ["delete"], "rate_kb_s": 5}, "rate_kb_s: only copy and fetch transfer segments"),
        ({"do": "tier_late", "late_s": 0}, "late_s"),
        ({"do": "tier_hold", "at": "meanwhile", "of": "far/0"}, "meanwhile"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(step: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        build_step(Step(do=step["do"], name="it", args={k: v for k, v in step.items() if k != "do"}))

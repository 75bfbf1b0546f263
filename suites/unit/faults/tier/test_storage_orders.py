"""Orders to the storage of a tier: how they are given and taken back, what counts as done, and what is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.faults.steps.registry import build_step, check_steps
from harness.faults.tier.storage_orders import acts_of, done_by, ordered
from harness.faults.tier.tier_full import TierFull
from harness.kafka.settings.tier_settings import ORDERS, TOLD
from harness.kafka.storage.local_tier import ROOT
from harness.model.errors import BadInput
from harness.model.scenario.scenario import ClusterShape, Producer, Scenario, Step, Topic

FAR = Topic(name="far", partitions=1, config={"remote.storage.enable": "true"})
NEAR = Topic(name="near", partitions=1)


@pytest.fixture
def context(tmp_path: Path) -> Any:
    for name in (ORDERS, TOLD):
        (tmp_path / name).mkdir()
    return SimpleNamespace(cluster=SimpleNamespace(tier_store=tmp_path))


def line(order: Path, did: str, partition: int = 0) -> str:
    return f"1700\t{order.name}\tcopy\t{did}\tfar\t{partition}\tsegment\t12\n"


def test_an_order_says_what_is_to_be_done_and_is_gone_afterwards(context: Any, tmp_path: Path) -> None:
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
    with ordered(context, "slow", ("copy",), "") as order:
        assert order.read_text().splitlines() == ["what=slow", "ops=copy"]


def test_what_a_storage_did_is_told_by_its_whole_lines_about_this_order(context: Any, tmp_path: Path) -> None:
    with ordered(context, "fail", ("copy",), "") as order:
        reported = line(order, "failed") + line(Path("another.properties"), "failed") + line(order, "failed", 1)
        (tmp_path / TOLD / "2.tsv").write_text(reported + line(order, "failed")[:-9])
        found = acts_of(context, order)
        assert [(deed.broker, deed.partition, deed.base_offset, deed.did) for deed in found] == [
            (2, 0, 12, "failed"),
            (2, 1, 12, "failed"),
        ]
        effect = done_by(context, order, {"failed": "failed"})()
        assert effect.held
        assert effect.because == "of far/0, far/1: 2 times copy failed"
        assert effect.seen == {"deeds": {"copy failed": 2}, "brokers": [2]}


def test_what_nobody_did_is_no_bite(context: Any, tmp_path: Path) -> None:
    with ordered(context, "after", ("copy",), "") as order:
        (tmp_path / TOLD / "2.tsv").write_text(line(order, "let go") + line(Path("another.properties"), "held"))
        effect = done_by(context, order, {"held": "held after"})()
        assert (effect.held, effect.because) == (False, "no broker has asked that of the remote tier since")


@pytest.mark.parametrize(("kept", "what"), [(False, "full"), (True, "full_kept")])
def test_a_full_tier_has_as_much_as_lies_there_and_some_more(
    context: Any, tmp_path: Path, kept: bool, what: str
) -> None:
    (tmp_path / ROOT / "far-0").mkdir(parents=True)
    for name in ("one.log", "two.index"):
        (tmp_path / ROOT / "far-0" / name).write_bytes(bytes(700))
    with TierFull(spare_kb=2, kept=kept).active(context) as injected:
        (order,) = (tmp_path / ORDERS).iterdir()
        says = [f"what={what}", "ops=copy", f"folder={ROOT}", "limit_bytes=3448"]
        assert order.read_text().splitlines() == says
        (tmp_path / TOLD / "2.tsv").write_text(line(order, "full"))
        assert injected.probe().because == "of far/0: 1 times copy stopped where the tier was full"


def test_of_a_tier_of_the_users_nobody_knows_what_lies_there() -> None:
    with pytest.raises(BadInput, match="it knows no way into a storage of the user's"):
        check_steps(scenario({"do": "tier_full"}, tier="user", tier_faults=True))
    with pytest.raises(BadInput, match="tier_full is done by the storage itself"):
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
def test_only_a_tier_that_takes_orders_does_them(step: dict[str, Any]) -> None:
    check_steps(scenario(step, tier="local", tier_faults=True))
    with pytest.raises(BadInput, match=f'{step["do"]} is about the remote tier: say tier = "local"'):
        check_steps(scenario(step))
    with pytest.raises(
        BadInput, match=rf"{step['do']} is done by the storage itself: say tier_faults = true in \[shape"
    ):
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
        ({"do": "tier_errors", "ops": ["copy"], "kept": True}, "kept: is about half a copy"),
        ({"do": "tier_slow", "ops": []}, "names no operation"),
        ({"do": "tier_slow"}, "this slows nothing"),
        ({"do": "tier_slow", "ops": ["delete"], "rate_kb_s": 5}, "rate_kb_s: only segments have one"),
        ({"do": "tier_late", "late_s": 0}, "late_s"),
        ({"do": "tier_hold", "at": "meanwhile", "of": "far/0"}, "meanwhile"),
    ],
)
def test_what_makes_no_sense_is_refused(step: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        build_step(Step(do=step["do"], name="it", args={k: v for k, v in step.items() if k != "do"}))

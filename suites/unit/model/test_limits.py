"""Limits of a broker: sizes as people write them, and limits with which no broker could start."""

from __future__ import annotations

import math

import pytest

from harness.kafka.settings.node_settings import JVM_FLAGS
from harness.model.errors import BadInput
from harness.model.limits import CPUS_MIN, HEAP, MEMORY_MIN, MIB, Limits, limits_of


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1g", 1 << 30),
        ("1G", 1 << 30),
        ("1GiB", 1 << 30),
        ("1.5g", 3 << 29),
        (".75g", 3 << 28),
        ("1t", 1 << 40),
        ("640m", 640 * MIB),
        (" 768mb ", 768 * MIB),
        ("1048576k", 1 << 30),
        ("1073741824", 1 << 30),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert limits_of(text, None) == Limits(memory=size)


@pytest.mark.parametrize("text", ["", "much", "1p", ".", "9" * 400, "-1g", "1 2g", "1g2", "g", "0x10", "1e9"])
def test_a_text_that_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"is not a size: give one such as 1g or 768m"):
        limits_of(text, None)


def test_a_memory_limit_must_leave_room_above_the_heap() -> None:
    assert f"-Xmx{HEAP // MIB}m" in JVM_FLAGS
    assert limits_of(f"{MEMORY_MIN // MIB}m", None).memory == MEMORY_MIN > HEAP
    for text in (f"{MEMORY_MIN // MIB - 1}m", "384m", "1", "0"):
        with pytest.raises(
            BadInput, match=rf"--memory {text} is too small for a broker, .* 384 MiB: give 640m or more"
        ):
            limits_of(text, None)


def test_cpus() -> None:
    assert limits_of(None, 0.5) == Limits(cpus=0.5)
    assert limits_of(None, CPUS_MIN).cpus == CPUS_MIN
    for cpus in (0.0, -1.0, 0.24, math.nan, math.inf):
        with pytest.raises(
            BadInput,
            match=r"--cpus \S+ is (not a number of cores|too little CPU time .*): give 0\.25 or more",
        ):
            limits_of(None, cpus)


def test_the_options_that_the_user_gave() -> None:
    assert Limits().asked() == ()
    assert limits_of("1g", 1.0).asked() == ("--memory", "--cpus")

"""Plays a generated night on a build until an episode fails, and shrinks that episode, as a user does."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.chaos.night import Episode
from harness.chaos.plan import name_of
from harness.model.verdict import Status
from suites.mutants.gate import durability

PROFILE = "default"
BUDGET = "15m"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The first episode that failed.

    kinds: of its findings. elapsed_s: how long the night had lasted then. rate: how often the smallest scenario failed,
    of how many plays. steps: all steps of that scenario; None where the findings did not appear again in time.
    """

    episode: int
    kinds: frozenset[str]
    elapsed_s: float
    steps: int | None
    rate: tuple[int, int]

    def line(self, name: str) -> str:
        """The line of this build in the summary of the tests."""
        failed, played = self.rate
        smallest = "not shrunk" if self.steps is None else f"{self.steps} steps, failed in {failed} of {played} plays"
        kinds = ", ".join(sorted(self.kinds))
        return f"{name}: episode {self.episode} after {self.elapsed_s / 60:.1f} min: {kinds}; smallest: {smallest}"


def find(build: Path, out: Path, episodes: int, seed: int) -> Found | None:
    """The first episode that is FAIL among so many, with its smallest scenario. None if no episode failed."""
    options = ["--kafka", str(build), "--backend", "processes", "--seed", str(seed), "--json"]
    night = out / "night"
    ends = ["--episodes", str(episodes), "--stop-on-first", "--profile", PROFILE, "--out", str(night)]
    said = json.loads(durability("chaos", *options, *ends).stdout)
    played = msgspec.convert(said["figures"]["episodes"], type=list[Episode])
    failed = next((one for one in played if one.status is Status.FAIL and not one.planted), None)
    if failed is None:
        return None
    bundle = night / name_of(failed.episode)
    small = json.loads(
        durability("shrink", str(bundle), *options, "--budget", BUDGET, "--out", str(out / "small")).stdout
    )
    return Found(
        episode=failed.episode,
        kinds=frozenset(failed.findings),
        elapsed_s=failed.elapsed_s,
        steps=None if small["smallest"] is None else small["steps"],
        rate=(small["after"]["failed"], small["after"]["played"]),
    )

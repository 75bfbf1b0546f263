"""The state of a night on disk: what it draws from, and one line for each episode that has ended.

Both survive a kill at any moment: `night.json` is replaced as a whole, and a line of `episodes.jsonl` that was cut off
counts as not written. The evidence of an episode without a line is judged if it was sealed; else it is played again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from harness import scenarios
from harness.chaos.plan import Plan, name_of
from harness.evidence.gate import is_bundle
from harness.evidence.manifest import MANIFEST
from harness.evidence.thinned import thin
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Scenario
from harness.model.verdict import Status

NIGHT: Final = "night.json"
EPISODES: Final = "episodes.jsonl"
PLANS: Final = "plans"


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of all plans of a night. Another command with the same --out must have the same."""

    seed: int
    profile: str
    profile_sha256: str
    release: str
    build: str
    backend: str
    limits: str = ""  # the options --memory and --cpus


class Episode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line: an episode that has ended. status: null = the harness failed, or it could not be played (`error`).

    permits: topics that may lose records. planted: the harness planted a loss. pairs: what it covered
    (`coverage.pairs_of`). elapsed_s: how long the night had lasted when it ended, judging included.
    """

    episode: int
    variation: int = 0
    status: Status | None = None
    happenings: tuple[tuple[str, ...], ...] = ()
    permits: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    findings: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    of_release: bool = False
    error: str | None = None
    not_played: bool = False
    planted: bool = False
    took_s: float = 0.0
    elapsed_s: float = 0.0


class Night:
    """The folder of a night."""

    def __init__(self, out: Path, header: Header, episodes: Sequence[Episode]) -> None:
        self.out = out
        self.header = header
        self.episodes = list(episodes)

    @classmethod
    def open(cls, out: Path, header: Header) -> Night:
        """Begins a night, or continues the one in this folder. BadInput if that has drawn from something else."""
        file = out / NIGHT
        if not file.is_file():
            if out.is_dir() and any(out.iterdir()):
                raise BadInput(f"--out {out} is not empty and has no {NIGHT}; give a folder that does not exist yet")
            (out / PLANS).mkdir(parents=True)
            _write(file, msgspec.json.encode(header))
            return cls(out, header, [])
        before = header_in(out)
        for name in Header.__struct_fields__:
            was, now = getattr(before, name), getattr(header, name)
            if was != now:
                raise BadInput(
                    f"--out {out} has a night with the {name} {was}, and this one has {now}; give the same, or "
                    "another folder"
                )
        night = cls(out, header, _lines(out / EPISODES))
        night._drop_unfinished()
        return night

    @property
    def elapsed_s(self) -> float:
        return self.episodes[-1].elapsed_s if self.episodes else 0.0

    def next_episode(self) -> int:
        return max((one.episode for one in self.episodes), default=0) + 1

    def waiting(self) -> list[int]:
        """Episodes with sealed evidence and without a verdict, because the night was killed before that."""
        judged = {one.episode for one in self.episodes}
        found = [path.name for path in self.out.iterdir() if path.is_dir() and (path / MANIFEST).is_file()]
        numbers = [int(name.rpartition("_")[2]) for name in found if name.startswith("episode_")]
        return sorted(set(numbers) - judged)

    def add(self, episode: Episode) -> None:
        """Appends a line, and returns when it is on disk."""
        with (self.out / EPISODES).open("ab") as file:
            file.write(msgspec.json.encode(episode) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.episodes.append(episode)

    def kept_plan(self, episode: int) -> Scenario:
        """The plan of an episode that was played before."""
        return scenarios.load(str(self.out / PLANS / f"{name_of(episode)}.toml"))

    def keep_plan(self, plan: Plan, text: str) -> Path:
        """Writes the scenario of an episode, for `durability replay` and `durability run`."""
        path = self.out / PLANS / f"{plan.scenario.name}.toml"
        _write(path, text.encode())
        return path

    def thin(self, name: str) -> None:
        """Removes most of the evidence of an episode that is PASS."""
        thin(self.out / name)

    def _drop_unfinished(self) -> None:
        """Removes the evidence of the episode that was played when the night was killed."""
        judged = {name_of(one.episode) for one in self.episodes}
        for path in self.out.iterdir():
            unsealed = is_bundle(path) and not (path / MANIFEST).is_file()
            if path.name.startswith("episode_") and path.is_dir() and unsealed and path.name not in judged:
                shutil.rmtree(path)


@contextmanager
def only_night(out: Path) -> Iterator[None]:
    """Keeps every other night out of a folder, which it makes. BadInput if another one plays in it now."""
    out.mkdir(parents=True, exist_ok=True)
    folder = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not _locked(folder):
            raise BadInput(f"--out {out} is in use by another night; wait until that ends, or give another folder")
        yield
    finally:
        os.close(folder)


def _locked(folder: int) -> bool:
    """Whether the folder is locked now; True, too, on a network file system that cannot lock folders."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def counts(episodes: Sequence[Episode]) -> dict[str, int]:
    """The number of episodes by verdict, and of those without one; planted ones are not among them."""
    played = [one for one in episodes if not one.not_played and not one.planted]
    found = {status.value: sum(one.status is status for one in played) for status in Status}
    return {**found, "without a verdict": sum(one.status is None for one in played)}


def _lines(file: Path) -> list[Episode]:
    """The lines of a file; one that a kill cut off is removed."""
    if not file.is_file():
        return []
    content = file.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        _write(file, whole)
    try:
        return [msgspec.json.decode(line, type=Episode) for line in whole.splitlines()]
    except msgspec.MsgspecError as wrong:
        raise BadInput(f"{file} is damaged ({wrong}); give another --out") from None


def seed_in(out: Path) -> int | None:
    """The seed of the night in a folder, if there is one."""
    return header_in(out).seed if (out / NIGHT).is_file() else None


def header_in(out: Path) -> Header:
    """The header of the night in a folder. BadInput if it is damaged."""
    file = out / NIGHT
    try:
        return msgspec.json.decode(file.read_bytes(), type=Header)
    except msgspec.MsgspecError as wrong:
        raise BadInput(f"{file} is damaged ({wrong}); give another --out") from None


def _write(path: Path, content: bytes) -> None:
    fresh = path.with_name(f".{path.name}.tmp")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)

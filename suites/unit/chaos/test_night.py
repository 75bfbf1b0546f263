"""The state of a night on disk, and its verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.chaos import profile
from harness.chaos.night import EPISODES, PLANS, Episode, Header, Night, counts, proved_percent, status_of
from harness.chaos.plan import plan_of, variation_of
from harness.evidence.manifest import MANIFEST
from harness.model.errors import BadInput
from harness.model.scenario.toml_text import text_of
from harness.model.verdict import Status

HEADER = Header(seed=7, profile="default", profile_sha256="0", release="4.4.0", build="sha512:0", backend="processes")


def episode(number: int, status: Status | None = Status.PASS, **changes: bool) -> Episode:
    return Episode(episode=number, status=status, elapsed_s=60.0 * number, **changes)  # type: ignore[arg-type]


def bundle(night: Night, number: int, *, sealed: bool) -> Path:
    folder = night.out / f"episode_{number:06d}"
    (folder / "ledger").mkdir(parents=True)
    (folder / "scenario.json").write_text("{}")
    (folder / "verdict.json").write_text("{}")
    if sealed:
        (folder / MANIFEST).write_text("{}")
    return folder


def test_a_night_continues_where_it_was(tmp_path: Path) -> None:
    night = Night.open(tmp_path / "out", HEADER)
    night.add(episode(1))
    night.add(episode(2, Status.FAIL))
    again = Night.open(tmp_path / "out", HEADER)
    assert again.episodes == night.episodes
    assert again.next_episode() == 3
    assert again.elapsed_s == 120


def test_a_line_that_a_kill_cut_off_is_not_counted(tmp_path: Path) -> None:
    night = Night.open(tmp_path / "out", HEADER)
    night.add(episode(1))
    file = night.out / EPISODES
    file.write_bytes(file.read_bytes() + b'{"episode":2,"sta')
    again = Night.open(night.out, HEADER)
    assert [one.episode for one in again.episodes] == [1]
    again.add(episode(2))
    assert [one.episode for one in Night.open(night.out, HEADER).episodes] == [1, 2]


def test_what_was_being_played_is_removed_and_what_was_sealed_is_judged(tmp_path: Path) -> None:
    night = Night.open(tmp_path / "out", HEADER)
    night.add(episode(1))
    judged, sealed, unfinished = (bundle(night, n, sealed=n < 3) for n in (1, 2, 3))
    again = Night.open(night.out, HEADER)
    assert again.waiting() == [2]
    assert judged.is_dir()
    assert sealed.is_dir()
    assert not unfinished.exists()


def test_another_seed_or_release_is_refused(tmp_path: Path) -> None:
    Night.open(tmp_path / "out", HEADER)
    other = Header(**{**{name: getattr(HEADER, name) for name in Header.__struct_fields__}, "seed": 8})
    with pytest.raises(BadInput, match="has a night with the seed 7, and this one has 8"):
        Night.open(tmp_path / "out", other)


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"is not empty and has no night\.json"):
        Night.open(tmp_path, HEADER)


def test_of_a_pass_only_the_verdict_and_what_was_played_are_kept(tmp_path: Path) -> None:
    night = Night.open(tmp_path / "out", HEADER)
    folder = bundle(night, 1, sealed=True)
    night.thin(folder.name)
    assert sorted(path.name for path in folder.iterdir()) == [MANIFEST, "scenario.json", "verdict.json"]


def test_a_kept_plan_says_which_variation_it_is(tmp_path: Path) -> None:
    night = Night.open(tmp_path / "out", HEADER)
    plan = plan_of(7, profile.load("default"), 4, variation=2)
    path = night.keep_plan(plan, text_of(plan.scenario))
    assert path == night.out / PLANS / "episode_000004.toml"
    assert night.kept_plan(4) == plan.scenario
    assert variation_of(night.kept_plan(4)) == 2


@pytest.mark.parametrize(
    ("statuses", "wanted"),
    [
        ([Status.PASS] * 10, Status.PASS),
        ([Status.PASS] * 9 + [Status.INCONCLUSIVE], Status.PASS),
        ([Status.PASS] * 8 + [Status.INCONCLUSIVE] * 2, Status.INCONCLUSIVE),
        ([Status.PASS] * 8 + [None] * 2, Status.INCONCLUSIVE),
        ([Status.PASS] * 99 + [Status.FAIL], Status.FAIL),
        ([], Status.INCONCLUSIVE),
    ],
)
def test_the_verdict_on_a_night(statuses: list[Status | None], wanted: Status) -> None:
    assert status_of([episode(n, status) for n, status in enumerate(statuses, 1)]) is wanted


def test_a_doubt_about_the_release_makes_no_night_pass() -> None:
    episodes = [episode(n) for n in range(1, 100)]
    assert status_of(episodes) is Status.PASS
    assert status_of([*episodes, episode(100, Status.INCONCLUSIVE, of_release=True)]) is Status.INCONCLUSIVE


def test_episodes_that_this_release_cannot_play_count_nowhere() -> None:
    episodes = [episode(1), episode(2, None, not_played=True)]
    assert proved_percent(episodes) == 100
    assert counts(episodes) == {"PASS": 1, "INCONCLUSIVE": 0, "FAIL": 0, "without a verdict": 0}

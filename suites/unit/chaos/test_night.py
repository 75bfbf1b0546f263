"""The state of a night on disk, and its verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.chaos import profile
from harness.chaos.night import EPISODES, PLANS, Episode, Header, Night, counts, only_night
from harness.chaos.plan import name_of, plan_of, variation_of
from harness.chaos.summary import summary_of
from harness.commands.chaos import ChaosOptions
from harness.commands.options import GateOptions
from harness.evidence.gate import GateSummary, read_gate, write_gate
from harness.evidence.manifest import MANIFEST
from harness.model.documents.manifest import NamedRelease
from harness.model.errors import BadInput
from harness.model.exits import Exit
from harness.model.scenario.toml_text import text_of
from harness.model.verdict import Status
from reports.overview import summary_lines
from reports.summary import counted
from suites.unit.evidence_examples import judged, lost, verdict

HEADER = Header(seed=7, profile="default", profile_sha256="0", release="4.4.0", build="sha512:0", backend="processes")


def episode(number: int, status: Status | None = Status.PASS, **changes: bool | str) -> Episode:
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


def test_a_kept_plan_says_which_variation_it_is(tmp_path: Path) -> None:
    night = Night.open(tmp_path / "out", HEADER)
    plan = plan_of(7, profile.load("default"), 4, variation=2)
    path = night.keep_plan(plan, text_of(plan.scenario))
    assert path == night.out / PLANS / "episode_000004.toml"
    assert night.kept_plan(4) == plan.scenario
    assert variation_of(night.kept_plan(4)) == 2


def summary(*episodes: Episode) -> GateSummary:
    return summary_of(Night(Path("nowhere"), HEADER, episodes), NamedRelease(version="4.4.0"))


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
    found = summary(*(episode(n, status) for n, status in enumerate(statuses, 1)))
    assert (found.status, found.outcome, found.word) == (wanted, wanted, wanted.value)


def test_gate_json_has_the_word_of_the_night(tmp_path: Path) -> None:
    found = summary(*(episode(n) for n in range(1, 10)), episode(10, Status.INCONCLUSIVE))
    write_gate(tmp_path, found)
    assert read_gate(tmp_path) == found
    assert (found.document.verdict, found.document.word, found.exit) == (Status.PASS, "PASS", Exit.PASS)
    assert (found.proved, found.proved_percent) == ((9, 10), 90)


def test_an_episode_on_which_the_harness_failed_has_no_verdict_and_its_reason() -> None:
    found = summary(*(episode(n) for n in range(1, 10)), episode(10, None, error="no slot is free"))
    assert found.results[-1].error == "no slot is free"
    assert (found.status, found.word, found.exit) == (Status.INCONCLUSIVE, "INCONCLUSIVE", Exit.HARNESS)


def test_a_doubt_about_the_release_makes_no_night_pass() -> None:
    episodes = [episode(n) for n in range(1, 100)]
    assert summary(*episodes).status is Status.PASS
    doubtful = summary(*episodes, episode(100, Status.INCONCLUSIVE, of_release=True))
    assert (doubtful.status, doubtful.with_release_doubts) == (Status.INCONCLUSIVE, ("episode_000100",))


def test_episodes_that_this_release_cannot_play_count_nowhere() -> None:
    episodes = [episode(1), episode(2, None, not_played=True, error="needs Kafka 5")]
    found = summary(*episodes)
    assert (found.proved, found.status) == ((1, 1), Status.PASS)
    assert found.not_applicable == {"episode_000002": "needs Kafka 5"}
    assert counts(episodes) == {"PASS": 1, "INCONCLUSIVE": 0, "FAIL": 0, "without a verdict": 0}


def test_a_planted_loss_that_was_found_makes_no_night_fail_and_counts_nowhere() -> None:
    found = summary(episode(1), episode(2, Status.FAIL, planted=True))
    assert (found.status, found.outcome, found.proved) == (Status.PASS, Status.PASS, (1, 1))
    assert counts([episode(1), episode(2, Status.FAIL, planted=True)])["FAIL"] == 0


@pytest.mark.parametrize(("every", "of_300"), [(100, [100, 200, 300]), (120, [120, 240]), (301, [])])
def test_a_loss_is_planted_in_each_nth_episode(every: int, of_300: list[int]) -> None:
    options = ChaosOptions(
        gate=GateOptions(seed=7), out=Path("out"), profile=profile.load("default"), planted_every=every
    )
    assert [number for number in range(1, 301) if options.plants(number)] == of_300


def test_figures_are_about_the_episodes_that_were_not_planted(tmp_path: Path) -> None:
    night = Night.open(tmp_path / "out", HEADER)
    night.add(episode(1))
    night.add(episode(2, Status.FAIL, planted=True))
    verdicts = {name_of(1): verdict(name_of(1), Status.PASS), name_of(2): verdict(name_of(2), Status.FAIL, lost())}
    for name, one in verdicts.items():
        judged(night.out / name, one)
    found = summary_of(night, NamedRelease(version="4.4.0"))
    assert list(counted(found, verdicts)) == [name_of(1)]
    page = "\n".join(text for text, _ in summary_lines(found, verdicts, night.out))
    assert "PASS of a night of 2 episodes: Kafka 4.4.0" in page
    assert "proved something: 1 of 1 episodes (100 %; a PASS needs 90 %)" in page
    assert "planted losses that were found, as they must be: 1 of 1" in page
    assert "0 of 6 fault episodes lost promised records" in page
    assert "lost: 50 records of plain-0, offsets 100 to 149" in page  # it reaches the page


def test_a_failure_beside_a_planted_one_is_a_failure() -> None:
    found = summary(episode(1, Status.FAIL), episode(2, Status.FAIL, planted=True))
    assert (found.status, found.outcome) == (Status.FAIL, Status.FAIL)


@pytest.mark.parametrize("status", [Status.PASS, Status.INCONCLUSIVE, None])
def test_a_planted_loss_that_was_not_found_makes_no_night_pass(status: Status | None) -> None:
    found = summary(*(episode(n) for n in range(1, 100)), episode(100, status, planted=True))
    assert found.status is Status.INCONCLUSIVE
    assert found.not_failed == ("episode_000100",)


def test_two_nights_never_share_a_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with only_night(out):
        with pytest.raises(BadInput, match="is in use by another night; wait until that ends"), only_night(out):
            pass
        with only_night(tmp_path / "other"):
            pass
        assert list(out.iterdir()) == []
    with only_night(out):
        pass

"""Profiles from files: what they may say, and one sentence for what they may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.chaos import profile
from harness.chaos.plan import plan_of
from harness.model.errors import BadInput

SOUND = """
capabilities = ["kill", "links", "restart"]
[kinds]
reconfigure = 100
[forms]
plain = 1
transactional = 0
[sizes]
value_bytes = [4000]
segment_bytes = [16777216]
"""


def load(tmp_path: Path, text: str) -> profile.Profile:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    return profile.load(str(file))


def test_weights_and_sizes_of_a_file_are_drawn_from(tmp_path: Path) -> None:
    plans = [plan_of(1, load(tmp_path, SOUND), episode) for episode in range(1, 31)]
    happened = [do for plan in plans for each in plan.happenings for do in each]
    assert happened.count("reconfigure") > len(happened) / 2
    plain = [topic for plan in plans for topic in plan.scenario.topics if topic.name.startswith("plain")]
    assert {topic.config["segment.bytes"] for topic in plain} == {"16777216"}
    assert {p.value_bytes for plan in plans for p in plan.scenario.producers if p.when == "always"} == {4000}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("[kinds]\nreconfigured = 1", "kinds: there is no 'reconfigured'; did you mean 'reconfigure'?"),
        ("[kinds]\nkill = 101", "kinds: kill = 101; give a weight from 0 to 100"),
        ("[folders]\nnodes = -1", "folders: nodes = -1; give a weight from 0 to 100"),
        ("[forms]\nplane = 1", "forms: there is no form 'plane'"),
        ("[sizes]\nvalue_bytes = []", "sizes: give a list with at least one number"),
        ("[sizes]\nsegment_bytes = [1000]", "segment_bytes = 1000; give a number from 1048576 to 1073741824"),
        ("[sizes]\nkey_bytes = [1]", "sizes: unknown key 'key_bytes'"),
        ("[shape]\nracks = [1]", "shape: a cluster has no 'racks'"),
        ("[shape]\ncontrollers = 3", "shape: controllers = 3; give a list of the values to draw from"),
        ("block = 0", "give a sloppy_percent from 0 to 100, and a block from 1 to 1000"),
        ("[", "not valid TOML"),
    ],
)
def test_a_wrong_profile_is_refused_in_one_sentence(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(BadInput) as refused:
        load(tmp_path, f'capabilities = ["kill"]\n{line}\n')
    assert str(refused.value).startswith("profile mine")
    assert says in str(refused.value)

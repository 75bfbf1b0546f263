"""A scenario as text and as a bundle's document, and back."""

from __future__ import annotations

import json

import pytest

from harness import scenarios
from harness.faults.steps.registry import check_steps
from harness.model.errors import BadInput
from harness.model.scenario import toml
from harness.model.scenario.toml_text import text_of

BUILT_IN = scenarios.builtin()


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_scenario_is_read_from_its_text_as_it_was(name: str) -> None:
    assert toml.parse(text_of(BUILT_IN[name]), name, check_steps) == BUILT_IN[name]


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_scenario_is_read_from_the_document_of_a_bundle_as_it_was(name: str) -> None:
    document = json.loads(json.dumps(BUILT_IN[name].as_dict()))
    assert toml.from_document(document, check_steps) == BUILT_IN[name]


def test_what_has_its_default_is_left_out() -> None:
    assert "load_weight" not in text_of(BUILT_IN["leader_killed"])


def test_texts_with_quotes_and_line_ends_survive() -> None:
    text = 'title = "a \\"b\\"\\n\\u007f"\nproperty = "p"\n[topics]\nt = {}\n[producers]\np = { topics = ["t"] }\n'
    scenario = toml.parse(text, "s")
    assert scenario.title == 'a "b"\n\x7f'
    assert toml.parse(text_of(scenario), "s") == scenario


def test_a_document_that_is_no_scenario_is_refused() -> None:
    with pytest.raises(BadInput, match="name"):
        toml.from_document({"topics": []})

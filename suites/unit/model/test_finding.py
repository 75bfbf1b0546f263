"""Kinds of findings: each declares its meaning."""

from __future__ import annotations

import json

import pytest

from harness.model.finding import Kind


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_a_meaning_of_one_full_sentence(kind: Kind) -> None:
    assert kind.meaning[0].isupper()
    assert kind.meaning.endswith(".")
    assert ". " not in kind.meaning


def test_no_two_kinds_have_the_same_meaning() -> None:
    assert len({kind.meaning for kind in Kind}) == len(Kind)


def test_a_kind_is_found_by_its_name_and_written_as_its_name() -> None:
    assert [Kind(kind.value) for kind in Kind] == list(Kind)
    assert json.dumps({"kind": Kind.LOST}) == '{"kind": "lost"}'
    assert f"{Kind.LOST}" == "lost"

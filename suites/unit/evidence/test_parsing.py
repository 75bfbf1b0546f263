"""Documents become records, or one sentence says what is wrong and where."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import pytest
from msgspec import field, inspect

from harness.evidence.documents import write_json
from harness.evidence.parsing import check_numbers, parse
from harness.evidence.record_tables import keys_of_records, kinds_of_records
from harness.model.documents.record import Record, meaning
from harness.model.errors import BadEvidence
from harness.model.facts import Fact

FILE = Path("made.json")


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Part(Record, frozen=True, kw_only=True):
    """A small record."""

    size: Annotated[int, meaning("how large")]


class Kept(Record, frozen=True, kw_only=True):
    """A record with defaults that are not null."""

    days: Annotated[int, meaning("how long")] = 7
    parts: Annotated[dict[str, Part], meaning("parts by their names")] = field(default_factory=dict)


class Begun(Record, frozen=True, kw_only=True, tag_field="kind", tag="begun"):
    """One of two kinds."""

    at_ns: Annotated[int, meaning("when")]
    kept: Annotated[Kept | None, meaning("and for how long")] = None


class Ended(Record, frozen=True, kw_only=True, tag_field="kind", tag="ended"):
    """The other kind."""

    colour: Annotated[Colour, meaning("how it looked")]


class Made(Record, frozen=True, kw_only=True):
    """Every form that a field of a document has."""

    number: Annotated[int, meaning("a number")]
    share: Annotated[int | float, meaning("a share")]
    word: Annotated[Literal["a", "b"], meaning("a word")]
    flag: Annotated[bool, meaning("a flag")]
    null: Annotated[str | None, meaning("text, or null")]
    spans: Annotated[tuple[tuple[int, str], ...], meaning("pairs")]
    named: Annotated[dict[str, Part], meaning("parts by their names")]
    events: Annotated[tuple[Begun | Ended, ...], meaning("what happened")]
    extra: Annotated[tuple[Part, ...] | None, meaning("more of them")] = None


RIGHT: dict[str, object] = {
    "number": 1,
    "share": 2,
    "word": "a",
    "flag": True,
    "null": None,
    "spans": [[1, "x"]],
    "named": {"p q": {"size": 1}},
    "events": [{"kind": "begun", "at_ns": 3}, {"kind": "ended", "colour": "red"}],
}


def test_a_document_becomes_a_record() -> None:
    made = parse(FILE, RIGHT, Made)
    assert (made.share, made.spans, made.named["p q"].size) == (2, ((1, "x"),), 1)
    assert made.events == (Begun(at_ns=3), Ended(colour=Colour.RED))
    assert made.extra is None


def test_a_record_survives_its_document(tmp_path: Path) -> None:
    made = parse(FILE, RIGHT, Made)
    write_json(tmp_path / "made.json", {"nested": [made]})
    (written,) = json.loads((tmp_path / "made.json").read_text())["nested"]
    assert parse(FILE, written, Made) == made


def test_unknown_keys_and_null_for_an_optional_key_are_accepted() -> None:
    assert parse(FILE, RIGHT | {"extra": None, "mine": [{}]}, Made) == parse(FILE, RIGHT, Made)


def test_null_says_the_same_as_no_key_wherever_the_record_is() -> None:
    assert parse(FILE, {"days": None, "parts": None}, Kept) == Kept()
    within = [{"kind": "begun", "at_ns": 3, "kept": {"days": None, "mine": None}}, {"kind": "ended", "colour": "red"}]
    begun = parse(FILE, RIGHT | {"events": within, "named": {"p": {"size": 1}}}, Made).events[0]
    assert begun == Begun(at_ns=3, kept=Kept())


WRONG: dict[str, tuple[dict[str, object], str]] = {
    "text for a number": ({"number": "1"}, 'number is "1" and must be a whole number'),
    "a fraction for a number": ({"number": 1.0}, "number is 1.0 and must be a whole number"),
    "true for a number": ({"number": True}, "number is true and must be a whole number"),
    "null for a number": ({"number": None}, "number is null and must be a whole number"),
    "text for a fraction": ({"share": "1"}, 'share is "1" and must be a number'),
    "true for a fraction": ({"share": True}, "share is true and must be a number"),
    "another word": ({"word": "c"}, 'word is "c" and must be "a" or "b"'),
    "a number for a word": ({"word": 1}, 'word is 1 and must be "a" or "b"'),
    "a number for a flag": ({"flag": 1}, "flag is 1 and must be true or false"),
    "a number for text": ({"null": 1}, "null is 1 and must be text"),
    "an object for a list": ({"spans": {}}, "spans is {} and must be a list"),
    "a pair of one": ({"spans": [[1, "x"], [1]]}, "spans[1] is [1] and must be a list of 2 values"),
    "a pair the wrong way": ({"spans": [["x", 1]]}, 'spans[0][0] is "x" and must be a whole number'),
    "a list for an object": ({"named": []}, "named is [] and must be an object"),
    "a number for a record": ({"named": {"p": 1}}, "named.p is 1 and must be an object"),
    "a record that lacks a key": ({"named": {"p": {}}}, "named.p has no 'size'"),
    "a kind that is not known": ({"events": [{"kind": "x"}]}, 'events[0].kind is "x" and must be "begun" or "ended"'),
    "a kind that is no text": ({"events": [{"kind": ["x"]}]}, 'events[0].kind is ["x"] and must be "begun" or "ended"'),
    "no kind": ({"events": [{"at_ns": 1}]}, "events[0] has no 'kind'"),
    "a kind without its key": ({"events": [{"kind": "begun"}]}, "events[0] has no 'at_ns'"),
    "a word of an enum": (
        {"events": [{"kind": "ended", "colour": "green"}]},
        'events[0].colour is "green" and must be "red" or "blue"',
    ),
    "an optional number as text": (
        {"events": [{"kind": "begun", "at_ns": 1, "kept": {"days": "7", "parts": None}}]},
        'events[0].kept.days is "7" and must be a whole number',
    ),
    "an optional key of another type": ({"extra": [{"size": "1"}]}, 'extra[0].size is "1" and must be a whole number'),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_the_sentence_names_the_file_the_field_and_the_remedy(wrong: str) -> None:
    change, said = WRONG[wrong]
    with pytest.raises(BadEvidence) as refusal:
        parse(FILE, RIGHT | change, Made)
    assert str(refusal.value) == f"made.json: {said}; write it as FORMAT.md says and seal again"


@pytest.mark.parametrize("key", list(RIGHT))
def test_no_required_key_has_a_default(key: str) -> None:
    with pytest.raises(BadEvidence, match=rf"^made\.json has no '{key}'; write it"):
        parse(FILE, {name: value for name, value in RIGHT.items() if name != key}, Made)


def test_a_number_beyond_64_bits_is_refused_also_in_a_key_that_nobody_reads() -> None:
    check_numbers(FILE, RIGHT | {"mine": [2**63 - 1]})
    with pytest.raises(BadEvidence, match=rf"made\.mine\[0\] is {2**63}, which does not fit into 64 bits"):
        check_numbers(FILE, RIGHT | {"mine": [2**63]})


def test_each_key_is_shown_with_its_place_type_and_meaning() -> None:
    assert list(keys_of_records(inspect.type_info(tuple[Made, ...])))[:10] == [
        ("`[].number`", "int", "yes", "a number"),
        ("`[].share`", "number", "yes", "a share"),
        ("`[].word`", "`a`, `b`", "yes", "a word"),
        ("`[].flag`", "bool", "yes", "a flag"),
        ("`[].null`", "string?", "yes", "text, or null"),
        ("`[].spans`", "list of [int, string]", "yes", "pairs"),
        ("`[].named`", "{name: object}", "yes", "parts by their names"),
        ("`[].named.*.size`", "int", "yes", "how large"),
        ("`[].events`", "list of object", "yes", "what happened"),
        ("`[].extra`", "list of object", "no, or null", "more of them"),
    ]


def test_each_kind_of_a_record_is_shown_with_its_keys() -> None:
    assert list(kinds_of_records(inspect.type_info(Begun | Ended))) == [
        (
            "`begun`",
            "`at_ns` (int, ns): when; `kept` (object, optional): and for how long",
            "One of two kinds.",
        ),
        ("`ended`", "`colour` (`red`, `blue`): how it looked", "The other kind."),
    ]


def test_a_rule_between_fields_is_refused_with_its_place() -> None:
    class Whole(Record, frozen=True, kw_only=True):
        facts: tuple[Fact, ...]

    with pytest.raises(BadEvidence, match=r"^made\.json: facts\[1\] has no 'topic'; write it as FORMAT.md says"):
        parse(FILE, {"facts": [{"kind": "frozen", "from_ns": 1}, {"kind": "topic_deleted", "from_ns": 1}]}, Whole)

"""Tests of the matrix in terminal, Markdown and page, from a contracts.json written by hand."""

from __future__ import annotations

import json
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import reports
from harness.commands import cli
from harness.evidence.layout import REPORT
from harness.evidence.matrix import MATRIX, MATRIX_VERSION, PlayedMatrix
from harness.evidence.parsing import converted
from harness.model.errors import BadInput
from harness.model.exits import Exit
from harness.model.verdict import Status
from reports.grouping import shown
from reports.matrix import MARKDOWN, PAGE, markdown, page, read_matrix, write_matrix
from reports.matrix_lines import matrix_lines
from reports.sources import links
from suites.unit.evidence_examples import judged, verdict
from suites.unit.reports.timeline_examples import write_run

SAFE = "acks=all, idempotent; 3 replicas, ELR on"
RISKY = "acks=1, not idempotent; 3 replicas, ELR on"


def cell(event: str = "leader_dies", configuration: str = SAFE, **other: Any) -> dict[str, Any]:
    return {
        "scenario": "contract_leader_dies",
        "event": event,
        "topic": "one",
        "configuration": configuration,
        "promised": ["kept"],
        "exactly": None,
        "seen": {},
        "without_acks_s": 0.0,
        "status": "PASS",
        "holds": True,
        "text": "kept",
        "which": "every record",
        "why": "the followers have it",
        "source": "KIP-1",
        "fix": [],
        "evidence": "contract_leader_dies",
        **other,
    }


def lost(event: str = "leader_dies", configuration: str = RISKY, **other: Any) -> dict[str, Any]:
    of = {"promised": ["lost"], "exactly": 50, "seen": {"lost": 50}, "fix": ["acks=all"]}
    return cell(event, configuration, **of | other)


def document(*cells: dict[str, Any], **head: Any) -> dict[str, Any]:
    first = {"format_version": MATRIX_VERSION, "release": "4.3.1", "day": "2026-01-31", "seed": 5}
    return {**first, "cells": list(cells), **head}


def matrix(*cells: dict[str, Any], **head: Any) -> PlayedMatrix:
    return converted(document(*cells, **head), PlayedMatrix)


def text(*cells: dict[str, Any]) -> list[str]:
    return [line for line, _ in matrix_lines(matrix(*cells))]


@pytest.mark.parametrize(
    ("of", "looks"),
    [
        ({}, "kept"),
        ({"seen": {"lost": 50}}, "lost"),
        ({"seen": {"skipped": 50}}, "lost"),
        ({"seen": {"unavailable": 5.0}}, "away"),
        ({"seen": {"deleted as configured": 5}}, "away"),
        ({"seen": {"duplicated": 4, "reordered": 2}}, "twice"),
        ({"seen": {"outcome unknown": 300}}, "twice"),
        ({"seen": {"lost": 50}, "holds": False}, "odd"),
        ({"holds": False, "status": "INCONCLUSIVE"}, "odd"),
        ({"holds": False, "status": None}, "off"),
    ],
)
def test_the_style_of_a_cell_follows_its_result(of: dict[str, Any], looks: str) -> None:
    (group,) = shown(matrix(cell(**of))).groups
    assert group.rows[0].look == looks


def test_common_settings_are_named_once_and_decisive_ones_are_marked() -> None:
    (group,) = shown(matrix(cell(), lost())).groups
    assert group.happens == "the leader's process dies, and its followers are in sync"
    assert group.common == ("3 replicas", "ELR on")
    assert [row.own for row in group.rows] == [("acks=all", "idempotent"), ("acks=1", "not idempotent")][::-1]
    assert all(row.decisive == set(row.own) for row in group.rows)


def test_a_setting_that_differs_only_between_equal_results_is_not_decisive() -> None:
    (group,) = shown(matrix(cell(), cell(configuration=f"{SAFE}, compacted"), lost())).groups
    assert [row.own for row in group.rows if "compacted" in row.own] == [("acks=all", "idempotent", "compacted")]
    assert sorted(group.rows[0].decisive) == ["acks=1", "not idempotent"]


def test_a_value_is_not_decisive_if_another_value_has_the_same_result() -> None:
    of = [lost(configuration=f"{RISKY}, min.insync.replicas=2")]
    of += [cell(configuration=f"{SAFE}, min.insync.replicas={n}") for n in (1, 2)]
    (group,) = shown(matrix(*of)).groups
    assert [sorted(row.decisive) for row in group.rows] == [
        ["acks=1", "not idempotent"],
        *[["acks=all", "idempotent"]] * 2,
    ]


def test_a_single_configuration_and_identical_ones_show_all_their_settings() -> None:
    for cells in ([lost()], [lost(), lost()]):
        (group,) = shown(matrix(*cells)).groups
        assert group.common == ()
        assert {row.own for row in group.rows} == {("acks=1", "not idempotent", "3 replicas", "ELR on")}


def test_events_keep_their_order_and_none_is_left_out() -> None:
    old = cell("no_event_any_more", happens="something that was in the matrix once")
    reported = shown(matrix(old, cell("replica_down"), cell("leader_dies")))
    assert [group.name for group in reported.groups] == ["leader_dies", "replica_down", "no_event_any_more"]
    assert reported.groups[-1].happens == "something that was in the matrix once"


def test_a_cost_is_compared_with_the_nearest_configuration_that_kept_everything() -> None:
    far = cell(configuration="acks=all, transactional; 2 replicas, ELR off")
    ((words, costs),) = shown(matrix(lost(), far, cell())).costs
    assert words == "acknowledged records are lost"
    assert [(cost.own, cost.instead, cost.better) for cost in costs] == [
        (("acks=1", "not idempotent"), ("acks=all", "idempotent"), "kept")
    ]


def test_a_cost_is_compared_with_a_milder_one_if_nothing_was_kept() -> None:
    away = cell(configuration=f"{RISKY}, clean elections only", seen={"unavailable": 12.1})
    ((_, (cost,)), _) = shown(matrix(lost(configuration=f"{RISKY}, unclean elections"), away)).costs
    assert (cost.own, cost.instead, cost.better) == (
        ("unclean elections",),
        ("clean elections only",),
        "unavailable for 12.1 s",
    )


def test_a_missing_setting_is_named() -> None:
    ((_, (cost,)),) = shown(matrix(lost(configuration=SAFE), cell(configuration=f"{SAFE}, flush.messages=1"))).costs
    assert (cost.own, cost.instead) == (("without flush.messages=1",), ("flush.messages=1",))


def test_a_missing_action_is_not_a_missing_setting() -> None:
    stays = cell(configuration=f"{SAFE}, stays in its group")
    other = lost(configuration="acks=1, idempotent; 3 replicas, ELR on")
    ((_, costs),) = shown(matrix(lost(configuration=SAFE), stays, other)).costs
    assert (costs[0].own, costs[0].instead) == (("acks=all",), ("stays in its group",))


def test_equal_results_of_several_clients_are_shown_once() -> None:
    ((_, costs),) = shown(matrix(lost(), lost(scenario="another"), cell(), lost(seen={"lost": 9}, exactly=9))).costs
    assert [cost.row.seen for cost in costs] == ["50 lost", "9 lost"]


def test_without_a_better_configuration_the_rule_names_the_fix() -> None:
    assert "      instead: not played: acks=all" in text(lost())


def test_a_broken_promise_is_never_the_better_configuration() -> None:
    ((_, (cost,)),) = shown(matrix(lost(), cell(holds=False, seen={}))).costs
    assert cost.better is None


def test_a_deletion_that_the_settings_ask_for_costs_nothing() -> None:
    deleted = partial(cell, promised=["deleted as configured"], seen={"deleted as configured": 9})
    assert shown(matrix(deleted())).costs == ()
    assert shown(matrix(deleted(fix=["retention.ms=-1"]))).costs != ()


def test_broken_promises_come_first_with_all_settings() -> None:
    odd = lost(seen={"lost": 51}, holds=False, status="FAIL")
    lines = text(cell("replica_down"), cell(), odd)
    said = f"  NOT AS PROMISED: {RISKY}: 51 lost (FAIL; promised: 50 lost)"
    assert lines[:2] == [
        "Kafka 4.3.1, played on 2026-01-31 by `durability contracts --kafka 4.3.1 --seed 5`",
        "2 of 3 configurations had exactly the promised result; 1 DID NOT.",
    ]
    assert lines.index(said) < lines.index("Costs of settings, and better settings")
    assert lines.count(said) == 2
    reported = page(matrix(cell("replica_down"), cell(), odd))
    assert reported.index('id="odd"') < reported.index("Costs of settings") < reported.index('id="leader_dies"')
    assert reported.count('class="odd"') == 2
    marked = "\n".join(markdown(matrix(cell(), odd)))
    assert f"| {RISKY} | 50 lost | **51 lost (FAIL)** |" in marked
    assert "**NOT AS PROMISED: 51 lost (FAIL)**" in marked


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (lost(holds=False, status="FAIL"), "50 lost (FAIL for another reason; promised: 50 lost)"),
        (cell(configuration=RISKY, holds=False, status="FAIL"), "kept (FAIL for another reason; promised: kept)"),
        (lost(seen={"lost": 50, "duplicated": 1}, holds=False, status="FAIL"), "(FAIL; promised: 50 lost)"),
        (cell(configuration=RISKY, seen={"lost": 1}, holds=False, status="FAIL"), "1 lost (FAIL; promised: kept)"),
    ],
)
def test_a_failed_scenario_is_told_apart_from_another_result(odd: dict[str, Any], said: str) -> None:
    assert any(line.startswith("  NOT AS PROMISED") and said in line for line in text(cell(), odd))


def test_the_command_of_a_part_has_its_names_and_its_number_of_records() -> None:
    part = matrix(cell(), only=["contract_leader_dies"], records=20_000)
    ((_, command),) = shown(part).heads
    assert command == "durability contracts --kafka 4.3.1 --only contract_leader_dies --seed 5 --records 20000"


def test_a_matrix_that_holds_shows_no_alarm() -> None:
    cells = cell(), lost(), cell("replica_down", holds=False, status=None)
    of = matrix(*cells)
    for reported in (page(of).split("</style>")[1], "\n".join(markdown(of)), "\n".join(text(*cells))):
        assert "NOT AS PROMISED" not in reported
        assert 'class="odd"' not in reported
        assert "2 of 3 configurations had exactly the promised result; 1 were not played" in reported


def test_seconds_and_counts_are_shown_as_measured() -> None:
    lines = text(lost(), cell(without_acks_s=2.04), cell("replica_down", seen={"unavailable": 24.84}))
    assert "  acks=all, idempotent: kept, 2.0 s without acks" in lines
    assert "  acks=all, idempotent, 3 replicas, ELR on: unavailable for 24.8 s" in lines


def test_a_configuration_is_escaped() -> None:
    reported = page(matrix(cell(configuration="<script>alert(1)</script>")))
    assert reported.count("<script") == 1  # that of the search
    assert "&lt;script&gt;" in reported


@pytest.mark.parametrize(
    ("source", "reported"),
    [
        ("KIP-98; KIP-447", ["KIP-98", "KIP-447"]),
        ("KIP-966, last replica standing", ["KIP-966", None]),
        ("Kafka documentation, acks; KIP-101", ["/documentation/", "#producerconfigs_acks", "KIP-101"]),
        ("Kafka documentation, delivery semantics", ["/documentation/", "#semantics"]),
        (
            "Kafka documentation, retention.ms, auto.offset.reset",
            ["/documentation/", "#topicconfigs_retention.ms", "#consumerconfigs_auto.offset.reset"],
        ),
        (
            "KIP-98; Kafka documentation, transactional.id.expiration.ms",
            ["KIP-98", "/documentation/", "#brokerconfigs_transactional.id.expiration.ms"],
        ),
        (
            "KIP-107; KAFKA-4586, its checkpoint; Kafka documentation, graceful shutdown",
            ["KIP-107", "/browse/KAFKA-4586", None, "/documentation/", "#basic_ops_restarting"],
        ),
    ],
)
def test_a_source_gets_its_link(source: str, reported: list[str | None]) -> None:
    found = [url for _, url in links(source)]
    assert len(found) == len(reported)
    assert all(
        url is None if end is None else (url or "").endswith(end) for url, end in zip(found, reported, strict=True)
    )


def test_page_and_markdown_are_written_beside_the_results_and_load_nothing(tmp_path: Path) -> None:
    (tmp_path / MATRIX).write_text(json.dumps(document(cell(fix=["acks=all", "idempotence"]))))
    written = write_matrix(tmp_path)
    assert written == tmp_path / REPORT / PAGE
    reported = written.read_text()
    assert "acks=all, idempotence" in reported
    assert not [word for word in ("src=", "<link", "@import", "url(") if word in reported]
    assert "default-src 'none'; script-src" in unescape(reported)
    assert sorted(p.name for p in tmp_path.iterdir()) == [MATRIX, MARKDOWN, REPORT]


def test_matrix_and_review_page_link_to_each_other_only_where_both_are(tmp_path: Path) -> None:
    played = document(cell(), cell("replica_down", evidence=None, scenario="not_here", status=None, holds=False))
    (tmp_path / MATRIX).write_text(json.dumps(played))
    assert "index.html" not in write_matrix(tmp_path).read_text()
    write_run(judged(tmp_path / "contract_leader_dies", verdict("contract_leader_dies", Status.PASS)))
    review = reports.write_page(tmp_path)
    assert f'href="{PAGE}"' in review.read_text()
    for matrix_page in (tmp_path / REPORT / PAGE, write_matrix(tmp_path)):
        reported = matrix_page.read_text()
        assert 'href="index.html"' in reported
        assert 'href="index.html#scenario-contract_leader_dies"' in reported
        assert "scenario-not_here" not in reported
    assert 'id="scenario-contract_leader_dies"' in review.read_text()
    (tmp_path / MATRIX).write_text("{}")  # the review page does not depend on it
    assert PAGE not in reports.write_page(tmp_path).read_text()


@pytest.mark.parametrize("lacking", ["why", "seen", "holds"])
def test_incomplete_results_give_no_page(lacking: str, tmp_path: Path) -> None:
    one = cell()
    del one[lacking]
    (tmp_path / MATRIX).write_text(json.dumps(document(one)))
    with pytest.raises(BadInput, match=rf"cells\[0\] has no '{lacking}'"):
        write_matrix(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [MATRIX]


def test_cells_of_a_later_run_replace_earlier_ones(tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second"
    second.mkdir()
    first.write_text(json.dumps(document(cell(holds=False), cell("replica_down", scenario="contract_replica_down"))))
    (second / MATRIX).write_text(json.dumps(document(cell(), seed=7, backends=["containers"], took_s=9.8)))
    reported = shown(read_matrix([first, second]))
    assert (reported.count, reported.held, reported.odd) == (2, 2, ())
    assert [command for _, command in reported.heads] == [
        "durability contracts --kafka 4.3.1 --seed 5",
        "durability contracts --kafka 4.3.1 --only contract_leader_dies --seed 7",
    ]
    assert [head for head, _ in reported.heads] == [
        "Kafka 4.3.1, played on 2026-01-31 by",
        "Kafka 4.3.1, played on 2026-01-31, on containers, in 10 s, by",
    ]


@pytest.mark.parametrize(
    ("played", "said"),
    [(None, "does not exist"), ([], "is not a matrix of contracts"), ({"cells": []}, "is not a matrix of contracts")],
)
def test_a_file_that_is_not_a_matrix_is_refused(
    played: Any, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if played is not None:
        (tmp_path / MATRIX).write_text(json.dumps(played))
    assert cli.invoke(["matrix", str(tmp_path)]) is Exit.USAGE
    assert said in capsys.readouterr().err


def test_matrices_of_two_releases_are_refused(tmp_path: Path) -> None:
    for name, release in (("a", "4.3.1"), ("b", "3.9.1")):
        (tmp_path / name).write_text(json.dumps(document(cell(), release=release)))
    with pytest.raises(BadInput, match=r"are of 4\.3\.1 and 3\.9\.1"):
        read_matrix([tmp_path / "a", tmp_path / "b"])

"""What an admin did and what nodes say of it afterwards, in histories short enough to read aloud.

An operation is a letter and what it makes of the one thing: "a1" acknowledged, "u2" without an answer, "r3" refused,
and "a-" for what unmakes it. Each takes a second, and the nodes are asked minutes after the last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.model.outcome import Did
from suites.verify.copies_and_groups import by_hand
from suites.verify.edits import run_finished
from suites.verify.history import START_NS, Built, History

SECOND_NS = 10**9
NODES = (1, 2, 3, 101)
OUTCOMES = {"a": "acked", "u": "unknown", "r": "refused"}
LATER_S = 300
THING = "user ops-user-1 SCRAM-SHA-256"


def operated(ops: str, reported: str | Mapping[int, str], *, first: str = "-", after_s: int = LATER_S) -> Built:
    """Operations on one thing, and what every node, or each of these nodes, tells in the last look."""
    history = History("AAA").build()
    history.scenario["admin"] = [{"name": "ops", "floors": {"before": 0, "during": 0, "after": 0}}]
    history.scenario["shape"] = {"brokers": 3}
    for nth, text in enumerate(ops.split()):
        called_ns = START_NS + nth * SECOND_NS
        value = _value(text[1:])
        history.tables["admin_ops"].append(
            {
                "op": nth,
                "writer": "ops",
                "kind": (Did.DELETE_USER if value is None else Did.SET_USER).value,
                "entity": THING,
                "value": value,
                "outcome": OUTCOMES[text[0]],
                "called_ns": called_ns,
                "returned_ns": called_ns + SECOND_NS - 1,
                "error": None if text[0] == "a" else "_TIMED_OUT",
            }
        )
    end_ns = START_NS + (len(ops.split()) + after_s) * SECOND_NS
    _look(history, "start", dict.fromkeys(NODES, first), START_NS - SECOND_NS)
    _look(history, "drained", dict.fromkeys(NODES, reported) if isinstance(reported, str) else reported, end_ns)
    return history


def _value(text: str) -> str | None:
    return None if text == "-" else text


def _look(history: Built, phase: str, reported: Mapping[int, str], at_ns: int) -> None:
    history.tables["admin_views"] += [
        {"phase": phase, "node": node, "entity": THING, "value": _value(text), "asked_ns": at_ns, "at_ns": at_ns}
        for node, text in reported.items()
    ]


def overlapping(reported: str) -> Built:
    """A second admin sets 2 while the first sets 1; both are acknowledged."""
    history = operated("a1 a2", reported)
    return history.change("admin_ops", {"called_ns": START_NS}, op=1).change("admin_ops", {"writer": "other"}, op=1)


def healed_late(reported: str) -> Built:
    """At the first look after healing nobody had heard of it."""
    history = operated("a1", reported)
    _look(history, "healed", dict.fromkeys(NODES, "-"), START_NS + 200 * SECOND_NS)
    return history


def unasked_at_first(history: Built) -> Built:
    """Another client's evidence: nobody knows what the thing was before."""
    return by_hand(history).drop("admin_views", phase="start")


CASES: dict[str, tuple[Built, list[str]]] = {
    # --- legal
    "what was done is there": (operated("a1", "1"), []),
    "what was changed is as it was changed last": (operated("a1 a2 a3", "3"), []),
    "what was unmade is gone": (operated("a1 a-", "-"), []),
    "what was made again is there": (operated("a1 a- a2", "2"), []),
    "an unanswered operation was done": (operated("a1 u2", "2"), []),
    "an unanswered operation was not done": (operated("a1 u2", "1"), []),
    "an unanswered operation unmade it": (operated("a1 u-", "-"), []),
    "an unanswered operation is done after a later one": (operated("a1 u2 a3", "2"), []),
    "nothing was ever acknowledged": (operated("u1 u2", "-"), []),
    "a refused one changed nothing": (operated("a1 r2", "1"), []),
    "it was there before, and nobody touched it": (operated("r2", "7", first="7"), []),
    "two at once, the first is seen": (overlapping("1"), []),
    "two at once, the second is seen": (overlapping("2"), []),
    "it is heard of late": (healed_late("1"), []),
    "under way while nodes are asked": (operated("a1 u2", {1: "1", 2: "2", 3: "1"}, after_s=5), []),
    "nobody asked at first": (unasked_at_first(operated("u1", "9")), []),
    "unfinished, it is gone": (run_finished(operated("a1", "-"), finished=False), []),
    # --- admin_lost
    "what was made is gone": (operated("a1", "-"), ["admin_lost 1"]),
    "what was changed is as before": (operated("a1 a2", "1"), ["admin_lost 1"]),
    "what was there before is back": (operated("a1", "7", first="7"), ["admin_lost 1"]),
    "gone, with an unanswered change": (operated("a1 u2", "-"), ["admin_lost 1"]),
    "an unanswered one cannot be done so late": (
        operated(f"u2 {'a1 ' * 80}".strip(), "2"),
        ["admin_lost 1"],
    ),
    "nobody asked at first, and it is gone": (unasked_at_first(operated("a1", "-")), ["admin_lost 1"]),
    # --- admin_resurrected
    "what was unmade is there again": (operated("a1 a-", "1"), ["admin_resurrected 1"]),
    "what was unmade is there as it was long ago": (operated("a1 a2 a-", "1"), ["admin_resurrected 1"]),
    # --- admin_phantom
    "nobody asked for it": (operated("a1", "8"), ["admin_phantom 1"]),
    "a refused one is there": (operated("a1 r8", "8"), ["admin_phantom 1"]),
    "one node tells what nobody asked for": (operated("a1", {1: "1", 2: "8", 3: "1"}), ["admin_phantom 1"]),
    # --- metadata_divergence
    "a broker is behind": (operated("a1 a2", {1: "2", 2: "1", 3: "2", 101: "2"}), ["metadata_divergence 1"]),
    "a controller is behind": (operated("a1 a2", {1: "2", 2: "2", 3: "2", 101: "1"}), ["metadata_divergence 1"]),
    "a broker lacks it": (operated("a1", {1: "1", 2: "-", 3: "1"}), ["metadata_divergence 1"]),
    "unanswered long ago, and told differently": (
        operated("a1 u2", {1: "1", 2: "2", 3: "1"}),
        ["metadata_divergence 1"],
    ),
    "behind, while another is under way": (
        operated("a1 a2 u3", {1: "2", 2: "1", 3: "3"}, after_s=5),
        ["metadata_divergence 1"],
    ),
}


def doubtful() -> dict[str, tuple[Built, str]]:
    """Histories that prove too little, and the doubt's name."""
    floors: dict[str, Any] = {"before": 5, "during": 0, "after": 0}
    few = operated("a1", "1")
    few.scenario["admin"][0]["floors"] = floors
    silent = operated("a1", {1: "1", 2: "1", 101: "1"})
    never = operated("u1", "1")
    unseen = operated("a1", "1").drop("admin_views", phase="drained")
    unbegun = operated("a1", "1").drop("admin_views", phase="start")
    absent = operated("a1", "1")
    absent.tables["admin_ops"] = []
    return {
        "too few operations": (few, "floor_before"),
        "a broker did not tell": (silent, "admin_unseen"),
        "nothing acknowledged": (never, "no_operation"),
        "declared, and no rows": (absent, "no_operation"),
        "nobody asked afterwards": (unseen, "no_admin_views"),
        "nobody asked before": (unbegun, "no_admin_views"),
    }

"""Plants of nodes that end by themselves: a fault that ends a node covers exactly its node and its times."""

from __future__ import annotations

from typing import Final

from harness.faults.disks.damage_metadata import DamageMetadata, What
from harness.model.finding import Kind
from suites.planted.copies import Copy
from suites.planted.expected import Expected, doubtful, fails, passes
from suites.planted.plants import exited, plant

_CRASHED: Final = [(Kind.CRASHED.value, None, None, None)]
_MS: Final = 10**6


def _fault_of(copy: Copy, do: str) -> tuple[int, int, int]:
    """The node of the first fault of this kind, and when it was open."""
    fact = next(f for step in copy.original.documents["steps"] if step["do"] == do for f in step["facts"])
    return fact["nodes"][0], fact["from_ns"], fact["to_ns"]


@plant
def crashed(copy: Copy) -> Expected:
    """Before every fault."""
    with copy.document("run") as run:
        run["exits"] = [exited(run["started_ns"] + 500 * _MS, 101)]
    return fails(_CRASHED, by_documents=True)


@plant
def crashed_before_it_was_killed(copy: Copy) -> Expected:
    """It ends inside the step that kills it, before the harness sends the signal: the fact says that it is killed."""
    node, from_ns, _ = _fault_of(copy, "kill")
    with copy.document("run") as run:
        run["exits"] = [exited(from_ns + _MS, node)]
    return fails(_CRASHED, by_documents=True)


@plant
def crashed_inside_another_fault(copy: Copy) -> Expected:
    """A fault ends another node at that time."""
    node, from_ns, to_ns = _fault_of(copy, "kill")
    _ends_by_itself(copy, node)
    with copy.document("run") as run:
        run["exits"] = [exited((from_ns + to_ns) // 2, node % 3 + 1)]
    return fails(_CRASHED, by_documents=True)


@plant
def crashed_though_unfinished(copy: Copy) -> Expected:
    with copy.document("run") as run:
        run["finished"] = False
        run["exits"] = [exited(run["ended_ns"])]
    return fails(_CRASHED, doubts=["unfinished"], by_documents=True)


@plant
def near_crashed_by_a_fault_that_ends_it(copy: Copy) -> Expected:
    node = _exits_while_killed(copy)
    _ends_by_itself(copy, node)
    return passes()


@plant
def near_crashed_on_metadata_that_was_cut(copy: Copy) -> Expected:
    """The step starts the node once on a meta.properties that was cut, so that it ends by itself."""
    _exits_while_killed(copy)
    _damages_metadata(copy, "meta_properties_cut")
    return passes()


@plant
def crashed_on_metadata_of_another_cluster(copy: Copy) -> Expected:
    """With the id of another cluster it runs, and no controller accepts it: that it ends is a defect."""
    _exits_while_killed(copy)
    _damages_metadata(copy, "cluster_id")
    return fails(_CRASHED, by_documents=True)


@plant
def near_crashed_killed_from_outside(copy: Copy) -> Expected:
    with copy.document("run") as run:
        run["exits"] = [exited(run["ended_ns"]) | {"code": None, "signal": 9}]
    return doubtful("node_killed")


def _exits_while_killed(copy: Copy) -> int:
    """The node that a fault killed ends by itself in the middle of that fault. Returns the node."""
    node, from_ns, to_ns = _fault_of(copy, "kill")
    with copy.document("run") as run:
        run["exits"] = [exited((from_ns + to_ns) // 2, node)]
    return node


def _damages_metadata(copy: Copy, what: What) -> None:
    """The fault that killed a node now damages its metadata, too, with the facts that this declares."""
    with copy.document("steps") as steps:
        step = next(step for step in steps if step["do"] == "kill")
        known = next(fact for fact in step["facts"] if fact["kind"] == "stopped")
        declared = DamageMetadata(node="broker(1)", what=what).declared()
        step["facts"] = [known | {"kind": one.kind, "how": one.how, "what": one.what or None} for one in declared]


def _ends_by_itself(copy: Copy, node: int) -> None:
    """The fault that killed a node now ends it as a full disk does."""
    with copy.document("steps") as steps:
        for fact in next(step for step in steps if step["do"] == "kill")["facts"]:
            if fact["kind"] == "stopped":
                assert fact["nodes"] == [node]
                fact["how"] = "crashed"

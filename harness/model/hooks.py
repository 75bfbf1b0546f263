"""The user's commands by which faults reach a cluster that the harness did not start: the file of --hooks.

    [kill]                                      # the operation: kill, terminate, pause, cut or slow
    command = "docker kill kafka-{node}"        # does it
    inverse = "docker start kafka-{node}"       # undoes it; it may be called again when it is undone already
    in_effect = "..."                           # exits with 0 when it is done, and with anything else before that
    undone = "..."                              # exits with 0 when it is undone
    deadline_s = 60                             # for each of the four, and for what they wait for

Commands run without a shell, in the folder of the file; `shell = true` runs them by `sh -c`. A doubled brace stands for
a brace. `[node.N]` gives words of the user's own for node N, such as `pod = "kafka-0"` for {pod}.
"""

from __future__ import annotations

import shlex
import shutil
import string
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from harness.model.errors import BadInput
from harness.model.hints import refuse_unknown
from harness.model.live_cluster import LiveCluster
from harness.model.scenario.scenario import Deadline
from harness.model.scenario.toml import build
from harness.model.user_files import read_toml

KILL: Final = "kill"
TERMINATE: Final = "terminate"
PAUSE: Final = "pause"
CUT: Final = "cut"
SLOW: Final = "slow"
# What each operation lets a cluster do, by the names that steps use for their needs.
CAPABILITIES: Final[Mapping[str, frozenset[str]]] = {
    KILL: frozenset({"kill", "restart"}),
    TERMINATE: frozenset({"terminate", "restart"}),
    PAUSE: frozenset({"pause"}),
    CUT: frozenset({"links", "links.cut"}),
    SLOW: frozenset({"links", "links.slow"}),
}
OF_LINKS: Final = frozenset({CUT, SLOW})
_NODE: Final = "node"
_ADDRESS: Final = ("host", "port")
_OF_A_CUT: Final = ("mode", "direction")
_OF_SLOWNESS: Final = ("latency_ms", "jitter_ms", "rate_kb_s", "direction")
_PARTS: Final = ("command", "inverse", "in_effect", "undone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """The table of one operation. nodes: those that it can reach; empty = all. returns_by_itself: a node that is down
    comes back without an inverse, as a pod does that its controller replaces."""

    command: str
    in_effect: str
    undone: str
    inverse: str = ""
    deadline_s: Deadline = 60.0
    shell: bool = False
    nodes: tuple[int, ...] = ()
    returns_by_itself: bool = False

    def __post_init__(self) -> None:
        for part in ("command", "in_effect", "undone"):
            if not getattr(self, part).strip():
                raise BadInput(f"{part} is empty; give a command")
        if not self.inverse.strip() and not self.returns_by_itself:
            raise BadInput("inverse is missing; give the command that undoes it, or set returns_by_itself = true")
        if self.inverse.strip() and self.returns_by_itself:
            raise BadInput("inverse and returns_by_itself exclude each other; leave one of them out")

    def reaches(self, node: int) -> bool:
        """Whether it is for a node."""
        return not self.nodes or node in self.nodes


@dataclass(frozen=True, slots=True)
class Hooks:
    """A file of hooks. words: the user's own placeholders, by node."""

    file: Path
    of: Mapping[str, Hook] = field(default_factory=dict)
    words: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    def capabilities(self, nodes: Collection[int]) -> frozenset[str]:
        """What can be done to each of these nodes."""
        able = (op for op, hook in self.of.items() if nodes and all(map(hook.reaches, nodes)))
        return frozenset().union(*(CAPABILITIES[op] for op in able))

    def argv(self, operation: str, part: str, values: Mapping[str, str]) -> list[str]:
        """A command with its placeholders filled. Empty where the part is left out."""
        hook = self.of[operation]
        text = str(getattr(hook, part))
        if not text.strip():
            return []
        if hook.shell:
            return ["sh", "-c", text.format_map({name: shlex.quote(value) for name, value in values.items()})]
        return [word.format_map(values) for word in shlex.split(text)]

    def values_of_node(self, node: int, live: LiveCluster) -> dict[str, str]:
        """The placeholders of an operation on a node."""
        return {"node": str(node), **self._of(node, live), "cluster": live.cluster_id, "folder": str(self._folder)}

    def values_of_link(self, src: int, dst: int, live: LiveCluster, **more: object) -> dict[str, str]:
        """The placeholders of an operation on the link by which `src` connects to `dst`."""
        sides = {"src": src, "dst": dst}
        of_sides = {f"{side}_{k}": v for side, node in sides.items() for k, v in self._of(node, live).items()}
        plain = {side: str(node) for side, node in sides.items()}
        given = {name: str(value) for name, value in more.items()}
        return {**plain, **of_sides, **given, "cluster": live.cluster_id, "folder": str(self._folder)}

    @property
    def _folder(self) -> Path:
        return self.file.absolute().parent

    def _of(self, node: int, live: LiveCluster) -> dict[str, str]:
        """Its address, where it is known, and the user's words for it, which win."""
        host, port = live.brokers.get(node, ("", 0))
        address = dict(zip(_ADDRESS, (host, str(port)), strict=True)) if host else {}
        return {**address, **self.words.get(node, {})}


def read_hooks(file: Path) -> Hooks:
    """BadInput, in one sentence that begins with "bad hooks", for a file that cannot be used on any cluster."""
    where = f"bad hooks {file}"
    plain = read_toml(file, where)
    words = plain.pop(_NODE, {})
    refuse_unknown(plain, CAPABILITIES, where, "operation")
    if not plain:
        raise BadInput(f"{where}: no operation is described; add one of {', '.join(CAPABILITIES)}")
    of = {
        op: cast(Hook, build(Hook, _table(table, f"{where}: [{op}]"), f"{where}: [{op}]"))
        for op, table in plain.items()
    }
    return Hooks(file, of, dict(_words(words, where)))


def _table(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise BadInput(f"{where}: {value!r} is not a table")
    return value


def _words(tables: object, where: str) -> Iterator[tuple[int, dict[str, str]]]:
    for number, table in _table(tables, f"{where}: [node]").items():
        if not number.isdecimal():
            raise BadInput(f"{where}: [node.{number}]: {number!r} is not the id of a node; write for example [node.1]")
        words = _table(table, f"{where}: [node.{number}]")
        if wrong := [name for name in words if not name.isidentifier()]:
            raise BadInput(f"{where}: [node.{number}]: {wrong[0]!r} cannot be a placeholder; use letters and digits")
        yield int(number), {name: str(value) for name, value in words.items()}


def check_hooks(hooks: Hooks, live: LiveCluster) -> None:
    """BadInput, before anything is done, for placeholders without a value, unknown nodes and missing programs."""
    nodes = (*live.ids, *live.controllers)
    for op, hook in hooks.of.items():
        where = f"bad hooks {hooks.file}: [{op}]"
        if strangers := sorted(set(hook.nodes) - set(nodes)):
            raise BadInput(f"{where}: nodes: the cluster has no node {strangers[0]}; its nodes are {_listed(nodes)}")
        for values in _fillings(hooks, op, live):
            for part in _PARTS:
                _check_part(hooks, op, part, values, where)


def _fillings(hooks: Hooks, op: str, live: LiveCluster) -> Iterator[dict[str, str]]:
    reached = [node for node in (*live.ids, *live.controllers) if hooks.of[op].reaches(node)]
    if op not in OF_LINKS:
        yield from (hooks.values_of_node(node, live) for node in reached)
        return
    more = dict.fromkeys(_OF_A_CUT if op == CUT else _OF_SLOWNESS, "1")
    yield from (hooks.values_of_link(a, b, live, **more) for a in reached for b in reached if a != b)


def _check_part(hooks: Hooks, op: str, part: str, values: Mapping[str, str], where: str) -> None:
    text = str(getattr(hooks.of[op], part))
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
        words = shlex.split(text)
    except ValueError as wrong:
        raise BadInput(f"{where}: {part}: {wrong}; write a doubled brace for a brace, and close every quote") from None
    if lacking := [name for name in names if name not in values]:
        who = values.get("node") or values.get("src")
        raise BadInput(
            f"{where}: {part}: {{{lacking[0]}}} has no value for node {who}; known are {_listed(sorted(values))}; add "
            f"words of your own in [node.{who}]"
        )
    if words and not hooks.of[op].shell:
        program = words[0].format_map(values)
        place = str(hooks.file.absolute().parent / program) if "/" in program else program
        if shutil.which(place) is None:
            raise BadInput(f"{where}: {part}: there is no program {program!r}; install it, or give its path")


def _listed(words: Collection[object]) -> str:
    return ", ".join(map(str, words))

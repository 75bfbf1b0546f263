"""Renders harness/faults/CATALOGUE.md, the tables of all kinds of steps, from what their classes declare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, Field, fields
from itertools import groupby
from pathlib import Path
from typing import Final, Literal, get_args, get_origin, get_type_hints

from harness.clusters.choosing import CAPABILITIES
from harness.faults.steps import registry
from harness.faults.steps.step import Kind, is_disturbance

PATH: Final = Path(__file__).parents[1] / "CATALOGUE.md"
_HEAD: Final = """\
# Faults, actions and waits
`durability docs` writes this file from the classes in harness/faults; edit those, not this file. Each row is a kind of
step that a scenario may use: `{ do = "kill", node = "leader(plain/0)" }`. `durability list faults` also shows what this
machine can run.

A fault that changed nothing on the data path tested nothing: each one must prove that it had an effect, or the run is
INCONCLUSIVE. A row with `for_s` is healed whatever happens: with `for_s` above 0 by its own step after so many seconds,
else by a later step `heal`, or at the end of the steps. A row without `for_s` is an action that disturbs the data path;
it is done when it returns. An argument that has no value in the last column is required.

The last column of faults is about generated scenarios (`durability chaos`): whether they use it, what arguments they
draw from beside those that refer to the scenario or list their values, and which facts an earlier step must have.

The facts of a step are all that a verdict knows of it; `harness/evidence/FORMAT.md` describes them. Where `stopped` has
no reason, it depends on the arguments.
"""


def render() -> str:
    """The text of CATALOGUE.md: for each folder a table of faults, and one of other steps."""
    parts = [_HEAD]
    for folder, kinds in groupby(registry.KINDS, key=registry.folder_of):
        parts.append(f"\n## {folder}\n{tables(list(kinds))}")
    return "".join(parts)


def tables(kinds: Sequence[type[Kind]]) -> str:
    """A table of the faults among some kinds, and one of the other steps."""
    parts = []
    if faults := [kind for kind in kinds if is_disturbance(kind)]:
        columns = ("fault", "what it breaks", "facts", "needs", "proof of its effect", "arguments", "generated")
        parts.append(_table(columns, faults))
    if others := [kind for kind in kinds if not is_disturbance(kind)]:
        parts.append(_table(("step", "what it does", "facts", "needs", "arguments"), others))
    return "".join(parts)


def _table(columns: tuple[str, ...], kinds: list[type[Kind]]) -> str:
    rows = [columns, *map(_cells, kinds)]
    lines = [" | ".join(cell.replace("|", r"\|") for cell in row) for row in rows]
    lines.insert(1, " | ".join("---" for _ in columns))
    return "\n" + "".join(f"| {line} |\n" for line in lines)


def _cells(kind: type[Kind]) -> tuple[str, ...]:
    cells = (f"`{kind.do}`", kind.summary, _facts(kind), _needs(kind))
    return (
        (*cells, kind.proof, _arguments(kind), _generated(kind)) if is_disturbance(kind) else (*cells, _arguments(kind))
    )


def _generated(kind: type[Kind]) -> str:
    """Whether generated scenarios use a kind: what its arguments are drawn from, and after which facts it comes."""
    if kind.by_hand:
        return f"no: {kind.by_hand}"
    drawn = [f"`{name}` from {', '.join(map(_toml, values))}" for name, values in kind.drawn.items()]
    after = [f"after {' or '.join(sorted(kind.follows))}"] if kind.follows else []
    return "; ".join([*drawn, *after]) or "yes"


def _facts(kind: type[Kind]) -> str:
    """All that a verdict knows of a step of this kind."""
    return ", ".join(fact.text for fact in kind.facts)


def _needs(kind: type[Kind]) -> str:
    """The capabilities that a kind needs, and the backend where only one has them."""
    able = [backend for backend, capabilities in CAPABILITIES.items() if kind.needs <= capabilities]
    only = [f"{backend} only" for backend in able] if len(able) < len(CAPABILITIES) else []
    return ", ".join([*(f"`{capability}`" for capability in sorted(kind.needs)), *only])


def _arguments(kind: type[Kind]) -> str:
    """The arguments of a kind, required ones first, with their defaults and choices."""
    hints = get_type_hints(kind)
    ordered = sorted(fields(kind), key=lambda entry: (not _required(entry), entry.name == "for_s"))
    return ", ".join(_argument(entry, _choices(hints[entry.name])) for entry in ordered)


def _required(entry: Field[object]) -> bool:
    return entry.default is MISSING and entry.default_factory is MISSING


def _choices(hint: object) -> list[str]:
    """The values that an argument may have, where its type lists them, also within a tuple or an optional."""
    if get_origin(hint) is Literal:
        return [str(value) for value in get_args(hint) if value != ""]
    return [choice for part in get_args(hint) for choice in _choices(part)]


def _argument(entry: Field[object], choices: list[str]) -> str:
    """The name, its default as a scenario file would have it, and the other values that it may have."""
    if _required(entry):
        return f"`{entry.name}`" + (f" ({', '.join(choices)})" if choices else "")
    default = entry.default if entry.default is not MISSING else {}
    others = [choice for choice in choices if choice not in (default if isinstance(default, tuple) else (default,))]
    return f"`{entry.name} = {_toml(default)}`" + (f" (or {', '.join(others)})" if others else "")


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, int | float):
        return f"{value:g}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {_toml(one)}' for key, one in value.items())}}}"
    return "unset" if value is None else "{}"

"""Scenario files: reads TOML into a `Scenario`. A key or word without a meaning is refused, with a hint.

A file is one scenario; its name is the file's name. Example, complete:

    title = "Leader killed under load"
    property = "Records acknowledged with acks=all and min.insync.replicas=2 survive SIGKILL of the leader."
    gate = true
    steps = [
      { do = "kill", node = "leader(plain/0)", name = "kill_leader" },
      { do = "wait_leader_changed", on = ["plain/0"], since = "kill_leader" },
      { do = "heal", fault = "kill_leader" },
      { do = "wait_healthy" },
    ]

    [topics.plain]                      # every field of model.scenario.Topic but the name
    config = { "min.insync.replicas" = 2 }

    [topics.made]

    [producers.plain]                   # Producer; [producers.NAME.transactions] makes it transactional
    topics = ["plain"]

    [producers.worker]                  # writes one record for each that it receives, in transactions
    topics = ["made"]
    when = "input"
    processes = { reads = ["plain"], group = "workers" }   # Processing; commits = "transaction", "after" or "before"
    transactions = {}                   # client = "streams": an application of the release's Kafka Streams

    [readers.committed]                 # Reader; client = "java" is the release's own, also of producers
    topics = ["plain"]

    [readers.worker]                    # a member of a share group (KIP-932), which only that client has
    topics = ["plain"]
    client = "java"
    group = "jobs"
    protocol = "share"

    [admin.ops]                         # Admin: topics, settings, ACLs, users and reassignments, recorded one by one

    [negative_control]                  # the change under which this scenario must FAIL
    what = "acks=1 judged as acks=all"
    patch = { "producers.plain.acks" = "1", "producers.plain.idempotent" = false }
    expect = ["lost"]

Top level: title, property, gate, gate_on_containers, smoke, tags, fresh, since, load_weight, load_s, steps. Tables:
shape, topics, producers, readers, admin, allowed_anomalies (with exact_losses), floors, negative_control, regression
(issue, bad, fixed, expect: see `Regression`), matrix (event, topics, fault, exactly, events: see `Matrix`). Kafka's own
keys, which have dots, may be quoted or not. A step is a table with `do`, an optional `name` (default: `do`,
numbered when it repeats) and the arguments of that kind of step (`durability list faults` shows them). In a step
"offsets(GROUP)" stands for the partition of __consumer_offsets that keeps what a group commits.

Paths of a patch: "producers.NAME.FIELD", "topics.NAME.config.KAFKA.KEY", "readers.NAME.config.CLIENT.KEY",
"shape.config.KAFKA.KEY", "steps.NAME.ARGUMENT", "load_s"; and for lists of steps "steps.+" (at the end),
"steps.+before.NAME" (in front of that step) and "steps.-NAME" = true (without it).
"""

from __future__ import annotations

import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Annotated, TypeVar, get_args, get_origin, get_type_hints

from harness.model.errors import BadInput
from harness.model.hints import hint, refuse_unknown
from harness.model.scenario import places, rules
from harness.model.scenario.scenario import Admin, Producer, Range, Reader, Scenario, Step, Topic

Plain = dict[str, object]
_T = TypeVar("_T")
StepsCheck = Callable[[Scenario], None]

_NAMED: dict[str, type] = {"topics": Topic, "producers": Producer, "readers": Reader, "admin": Admin}
# Tables with Kafka's own keys: there the rest of a dotted path is one key.
_OPEN_TABLES = ("config", "features", "group_config")


def parse(text: str, name: str, check_steps: StepsCheck | None = None) -> Scenario:
    """The scenario that a TOML text describes. BadInput, in one sentence, if the text is wrong.

    `check_steps` raises BadInput when a step of the scenario cannot be built (faults.registry.check_steps).
    """
    try:
        plain = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also for numbers with thousands of digits, and very deep tables
        raise BadInput(f"scenario {name}: not valid TOML: {error}") from error
    return from_plain(plain, name, check_steps)


def from_plain(content: Mapping[str, object], name: str, check_steps: StepsCheck | None = None) -> Scenario:
    """The scenario of TOML's plain types: the inverse of `to_plain`."""
    where = f"scenario {name}"
    plain = dict(content)
    named = {key: _named(cls, plain.pop(key, {}), f"{where}: {key}") for key, cls in _NAMED.items()}
    steps = _steps(plain.pop("steps", []), f"{where}: steps")
    if "name" in plain:
        raise BadInput(f"{where}: remove `name`; the scenario has the name of its file")
    scenario = typing.cast(Scenario, build(Scenario, {**plain, "name": name, **named, "steps": steps}, where))
    rules.check(scenario, where)
    scenario = places.written_out(scenario, where)
    if check_steps is not None:
        check_steps(scenario)
    if scenario.negative_control is not None:
        _control_changes_something(scenario, check_steps)
    return scenario


def from_document(document: Mapping[str, object], check_steps: StepsCheck | None = None) -> Scenario:
    """The scenario of a bundle's scenario.json: the inverse of `Scenario.as_dict`. BadInput if it is none."""
    plain = typing.cast(Plain, _without_none(dict(document)))
    name = _expect(str, plain.pop("name", None), "scenario.json: name", "a text")
    where = f"scenario {name}"
    for key in _NAMED:
        rows = [dict(_expect(dict, r, where, "a table")) for r in _expect(list, plain.get(key, []), where, "a list")]
        plain[key] = {str(row.pop("name", "")): row for row in rows}
    steps = [dict(_expect(dict, r, where, "a table")) for r in _expect(list, plain.get("steps", []), where, "a list")]
    plain["steps"] = [{**_expect(dict, step.pop("args", {}), where, "a table"), **step} for step in steps]
    return from_plain(plain, name, check_steps)


def to_plain(scenario: Scenario) -> Plain:
    """The scenario as TOML's plain types. Fields that are None are omitted, because TOML has no null."""
    plain = typing.cast(Plain, _without_none(scenario.as_dict()))
    del plain["name"]
    for key in _NAMED:
        entries = typing.cast(list[Plain], plain[key])
        plain[key] = {entry["name"]: {k: v for k, v in entry.items() if k != "name"} for entry in entries}
    plain["steps"] = [{"do": s.do, "name": s.name, **deepcopy(s.args)} for s in scenario.steps]
    return plain


def patched(scenario: Scenario, patch: Mapping[str, object], check_steps: StepsCheck | None = None) -> Scenario:
    """The scenario with dotted paths set to new values. BadInput if a path does not exist."""
    plain = to_plain(scenario)
    for path, value in patch.items():
        _apply(plain, path, value, f"scenario {scenario.name}: patch {path!r}")
    return from_plain(plain, scenario.name, check_steps)


def negative_control(scenario: Scenario, check_steps: StepsCheck | None = None) -> Scenario:
    """The negative control, which must FAIL when it is judged by the contract of `scenario` as declared."""
    if scenario.negative_control is None:
        raise BadInput(
            f"scenario {scenario.name} has no negative control; add a [negative_control] table to prove that it can "
            "fail"
        )
    plain = to_plain(scenario)
    plain.pop("negative_control")  # else the result would be checked against its own patch
    for path, value in scenario.negative_control.patch.items():
        _apply(plain, path, value, f"scenario {scenario.name}: negative control: {path!r}")
    return from_plain(plain, scenario.name, check_steps)


# --- from tables to dataclasses ---------------------------------------------------------------------------------------


def build(cls: type, table: Mapping[str, object], where: str) -> object:
    """A dataclass from a TOML table, by its field types. Used for scenarios and for the arguments of steps."""
    known: dict[str, Field[object]] = {f.name: f for f in fields(cls) if f.init}
    refuse_unknown(table, known, where, "key")
    hints = hints_of(cls)
    missing = [n for n, f in known.items() if n not in table and f.default is MISSING and f.default_factory is MISSING]
    if missing:
        raise BadInput(f"{where}: {missing[0]!r} is missing")
    arguments = {key: _convert(hints[key], value, f"{where}: {key}") for key, value in table.items()}
    try:
        return cls(**arguments)
    except BadInput as error:  # arguments that do not go together
        raise BadInput(f"{where}: {error}") from error


_HINTS: dict[type, Mapping[str, object]] = {}


def hints_of(cls: type) -> Mapping[str, object]:
    """The types of a dataclass's fields, with their annotations. To evaluate them takes most of the time of `build`."""
    if cls not in _HINTS:
        _HINTS[cls] = get_type_hints(cls, include_extras=True)
    return _HINTS[cls]


def _convert(hint_: object, value: object, where: str) -> object:
    origin = get_origin(hint_)
    if origin is Annotated:
        return _in_range(_convert(get_args(hint_)[0], value, where), get_args(hint_)[1:], where)
    if origin in (types.UnionType, typing.Union):
        inner = [h for h in get_args(hint_) if h is not type(None)]
        return None if value is None else _convert(inner[0], value, where)
    if is_dataclass(hint_):
        if isinstance(value, typing.cast(type, hint_)):
            return value
        return build(typing.cast(type, hint_), _expect(dict, value, where, "a table"), where)
    if origin is typing.Literal:
        if value not in get_args(hint_):
            raise BadInput(f"{where}: unknown value {value!r}{hint(str(value), get_args(hint_))}")
        return value
    if origin is tuple:
        return tuple(_convert(get_args(hint_)[0], v, where) for v in _expect((list, tuple), value, where, "a list"))
    if origin is dict:
        return _table(get_args(hint_)[1], _expect(dict, value, where, "a table"), where)
    return _scalar(hint_, value, where)


def _in_range(value: object, markers: Iterable[object], where: str) -> object:
    for marker in markers:
        if isinstance(marker, Range) and isinstance(value, int | float) and value not in marker:
            raise BadInput(f"{where} = {_short(value)}; give a number from {marker.lowest} to {marker.highest}")
    return value


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 25 else f"{text[:20]}..."


def _scalar(hint_: object, value: object, where: str) -> object:
    if hint_ is object:
        return value
    if hint_ is bool:
        return _expect(bool, value, where, "true or false")
    if isinstance(value, bool):
        raise BadInput(f"{where}: {str(value).lower()} is not {_NOUNS.get(hint_, 'a value')}")
    if hint_ is float:
        try:
            return float(_expect((int, float), value, where, "a number"))
        except OverflowError:
            raise BadInput(f"{where} = {_short(value)}, which is too large; give a smaller number") from None
    return _expect(typing.cast(type, hint_), value, where, _NOUNS.get(hint_, "a value"))


_NOUNS: dict[object, str] = {str: "a text in quotes", int: "a whole number", float: "a number"}


def _table(value_type: object, table: Plain, where: str) -> Plain:
    if value_type is object:
        return dict(table)
    flat = _flat(table)
    if value_type is int:
        return {k: _expect(int, v, f"{where}.{k}", "a whole number") for k, v in flat.items()}
    return {k: _kafka_text(v, f"{where}.{k}") for k, v in flat.items()}


def _flat(table: Mapping[str, object], prefix: str = "") -> Plain:
    """Nested tables as dotted keys: to TOML, `min.insync.replicas = 2` without quotes is three tables."""
    out: Plain = {}
    for key, value in table.items():
        out.update(_flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value})
    return out


def _kafka_text(value: object, where: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(_expect((str, int, float), value, where, "a text or a number"))


def _expect(kind: type[_T] | tuple[type[_T], ...], value: object, where: str, noun: str) -> _T:
    if not isinstance(value, kind):
        raise BadInput(f"{where}: {value!r} is not {noun}")
    return value


def _named(cls: type, tables: object, where: str) -> list[object]:
    out = []
    for name, table in _expect(dict, tables, where, "a table of tables").items():
        if "name" in _expect(dict, table, f"{where}.{name}", "a table"):
            raise BadInput(f"{where}.{name}: remove `name`; the table's own name is used")
        out.append(build(cls, {"name": name, **table}, f"{where}.{name}"))
    return out


def _steps(rows: object, where: str) -> list[Step]:
    steps: list[Step] = []
    each = _expect(list, rows, where, "a list")
    given = [r.get("name") for r in each if isinstance(r, dict)]
    taken = {name for name in given if isinstance(name, str)}
    for number, row in enumerate(each, 1):
        args = dict(_expect(dict, row, f"{where}: number {number}", "a table"))
        if "do" not in args:
            raise BadInput(f'{where}: step {number} has no `do`; name the kind of step, for example do = "kill"')
        do = _expect(str, args.pop("do"), f"{where}: number {number}: do", "a text in quotes")
        name = _expect(str, args.pop("name", ""), f"{where}: number {number}: name", "a text in quotes")
        name = name or _free_name(do, taken)
        if isinstance(args.get("config"), dict):
            args["config"] = _flat(args["config"])
        taken.add(name)
        steps.append(Step(do=do, name=name, args=args))
    return steps


def _free_name(do: str, taken: set[str]) -> str:
    candidates = (do if n == 1 else f"{do}_{n}" for n in range(1, len(taken) + 3))
    return next(c for c in candidates if c not in taken)


# --- patches ----------------------------------------------------------------------------------------------------------


def _control_changes_something(scenario: Scenario, check_steps: StepsCheck | None) -> None:
    before, after = to_plain(scenario), to_plain(negative_control(scenario, check_steps))
    before.pop("negative_control", None)
    if before == after:
        raise BadInput(f"scenario {scenario.name}: its negative control changes nothing; correct its patch")


def _apply(plain: Plain, path: str, value: object, where: str) -> None:
    head, _, rest = path.partition(".")
    if head == "steps":
        _apply_to_steps(typing.cast(list[Plain], plain["steps"]), rest, value, where)
        return
    table, parts = plain, path.split(".")
    for depth, part in enumerate(parts[:-1]):
        if part in _OPEN_TABLES:
            own = typing.cast(Plain, table.setdefault(part, {}))
            own[".".join(parts[depth + 1 :])] = value
            return
        if part not in table and not (depth == 0 and part in _NAMED):
            raise BadInput(f"{where}: no {part!r} here{hint(part, table)}")
        below = table[part]
        if not isinstance(below, dict):
            raise BadInput(f"{where}: {part!r} is no table; end the path there")
        table = below
    table[parts[-1]] = value


def _steps_of(value: object, where: str) -> list[Plain]:
    noun = "a list of steps"
    return [deepcopy(_expect(dict, row, where, noun)) for row in _expect(list, value, where, noun)]


def _apply_to_steps(steps: list[Plain], rest: str, value: object, where: str) -> None:
    names = [str(s.get("name", "")) for s in steps]  # inserted ones are named when the result is read
    if rest == "+":
        steps.extend(_steps_of(value, where))
        return
    word, _, argument = rest.partition(".")
    if word == "+before":
        at = _index(names, argument, where)
        steps[at:at] = _steps_of(value, where)
    elif word.startswith("-"):
        del steps[_index(names, word[1:], where)]
    elif argument:
        steps[_index(names, word, where)][argument] = value
    else:
        raise BadInput(f"{where}: name an argument of the step, as in steps.{word}.node")


def _index(names: list[str], name: str, where: str) -> int:
    if name not in names:
        raise BadInput(f"{where}: no step {name!r}{hint(name, names)}")
    return names.index(name)


def _without_none(value: object) -> object:
    if isinstance(value, dict):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [_without_none(v) for v in value]
    return value

"""Profiles: what a night draws from. The built-in ones are files beside this module; a user's has the same form.

A profile lists its capabilities itself, so that a plan does not depend on the machine: one that lacks some is refused.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final, Literal, cast, get_args

from harness.clusters.choosing import CAPABILITIES
from harness.faults.steps.registry import all_kinds
from harness.model.errors import BadInput
from harness.model.hints import hint
from harness.model.scenario.scenario import ClusterShape, Range
from harness.model.scenario.toml import build
from harness.model.user_files import read_text

_FOLDER: Final = Path(__file__).with_name("profiles")
DEFAULT: Final = "default"
Form = Literal["plain", "compacted", "transactional", "tiered"]
FORMS: Final[tuple[Form, ...]] = get_args(Form)
_NAME: Final = re.compile(r"[A-Za-z0-9-]+")
WEIGHT_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes that are drawn from: of the values of records, and of segments. From 4.0 on brokers accept none below
    1 MiB; large ones let a follower that was away fetch more at once than a segment has, once that is reduced."""

    value_bytes: tuple[Annotated[int, Range(1, 100_000)], ...] = (50, 200, 1000)
    segment_bytes: tuple[Annotated[int, Range(1 << 20, 1 << 30)], ...] = (1 << 20, 1 << 20, 1 << 24)

    def __post_init__(self) -> None:
        if not self.value_bytes or not self.segment_bytes:
            raise BadInput("sizes: give a list with at least one number")


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """The keys of a file."""

    capabilities: tuple[str, ...]
    folders: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    forms: dict[str, int] = field(default_factory=dict)
    sizes: Sizes = Sizes()
    shape: dict[str, object] = field(default_factory=dict)
    sloppy_percent: int = 20
    block: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """capabilities: what its faults may need of a backend. folders: weights of the folders of faults, 1 where none is
    given. kinds: weights of faults and operations, which replace those of their folders. forms: weights of forms of
    topics. shape: by field of a cluster's shape, the values that are drawn from.

    sloppy_percent: the share of episodes that may lose records by their settings. block: so many episodes in a row have
    clusters of the same shape, so that they share one. digest: of its file.
    """

    name: str
    capabilities: frozenset[str]
    folders: dict[str, int]
    kinds: dict[str, int]
    forms: dict[str, int]
    sizes: Sizes
    shape: dict[str, tuple[object, ...]]
    sloppy_percent: int
    block: int
    digest: str


def names() -> tuple[str, ...]:
    """The built-in profiles."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def load(spec: str) -> Profile:
    """A built-in profile by its name, or one from a .toml file. BadInput where there is none, or it is wrong."""
    if spec in names():
        return _parsed(spec, (_FOLDER / f"{spec}.toml").read_text("utf-8"))
    if spec.endswith(".toml"):
        return _parsed(Path(spec).stem, _text_of(Path(spec)))
    raise BadInput(f"no profile {spec!r}{hint(spec, names())}; there are {', '.join(names())}, or give a .toml file")


def _text_of(path: Path) -> str:
    try:
        return read_text(path)
    except UnicodeDecodeError as error:
        raise BadInput(f"profile {path} is not UTF-8 text (byte {error.start + 1}); save it as UTF-8") from error
    except OSError as error:
        raise BadInput(f"profile {path} cannot be read ({error.strerror}); give a file that you may read") from error


def _parsed(name: str, text: str) -> Profile:
    where = f"profile {name}"
    if not _NAME.fullmatch(name):
        raise BadInput(f"{where}: its name may only have letters, 0-9 and -; rename the file")
    try:
        plain = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where}: not valid TOML: {error}") from error
    file = cast("_File", build(_File, plain, where))
    known = frozenset().union(*CAPABILITIES.values())
    if unknown := sorted(set(file.capabilities) - known):
        raise BadInput(f"{where}: capabilities: there is no {unknown[0]!r}{hint(unknown[0], known)}")
    _check_weights(file.folders, f"{where}: folders")
    _check_weights(file.kinds, f"{where}: kinds")
    if unknown := sorted(set(file.kinds) - (words := {kind.do for kind in all_kinds()})):
        raise BadInput(f"{where}: kinds: there is no {unknown[0]!r}{hint(unknown[0], words)}")
    _check_weights(file.forms, f"{where}: forms")
    if other := sorted(set(file.forms) - set(FORMS)):
        raise BadInput(f"{where}: forms: there is no form {other[0]!r}; they are {', '.join(FORMS)}")
    if not 0 <= file.sloppy_percent <= 100 or not 1 <= file.block <= 1000:
        raise BadInput(f"{where}: give a sloppy_percent from 0 to 100, and a block from 1 to 1000")
    return Profile(
        name=name,
        capabilities=frozenset(file.capabilities),
        folders=file.folders,
        kinds=file.kinds,
        forms=file.forms,
        sizes=file.sizes,
        shape=_shapes(file.shape, where),
        sloppy_percent=file.sloppy_percent,
        block=file.block,
        digest=sha256(text.encode()).hexdigest(),
    )


def _check_weights(weights: dict[str, int], where: str) -> None:
    for name, weight in weights.items():
        if not 0 <= weight <= WEIGHT_MAX:
            raise BadInput(f"{where}: {name} = {weight}; give a weight from 0 to {WEIGHT_MAX}")


def _shapes(given: dict[str, object], where: str) -> dict[str, tuple[object, ...]]:
    known = [entry.name for entry in fields(ClusterShape)]
    shapes: dict[str, tuple[object, ...]] = {}
    for key, values in given.items():
        if key not in known:
            raise BadInput(f"{where}: shape: a cluster has no {key!r}{hint(key, known)}")
        if not isinstance(values, list) or not values:
            raise BadInput(f"{where}: shape: {key} = {values!r}; give a list of the values to draw from")
        for value in values:
            build(ClusterShape, {key: value}, f"{where}: shape")
        shapes[key] = tuple(values)
    return shapes

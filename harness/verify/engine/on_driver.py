"""Rows that are few enough for the driver: a check names them, and they are read once for all bundles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Rows_co = TypeVar("Rows_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDriver(Generic[Rows_co]):
    """The rows of each bundle, in any form.

    name: under which a failure to read them is a doubt. read: from the parts of the inputs that its parameters name, as
    those of a query do, to one result for each bundle. none: the result for each where they cannot be read.
    """

    name: str
    read: Callable[..., Sequence[Rows_co]]
    none: Callable[[], Rows_co]

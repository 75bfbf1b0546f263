"""A point in Kafka's own code at which a failpoint acts, and the method that it is in, by release.

`points.py` declares each point once. Its sites are tried in their order, and the first one that a release has is used;
so a method that moved to another class has two. In a release without any of them, a failpoint there has no effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from harness.kafka.release.class_files import Method, methods_of
from harness.kafka.release.release import Release

IO_EXCEPTION: Final = "java.io.IOException"


class Role(StrEnum):
    """The nodes that pass a point."""

    BROKER = "brokers"
    CONTROLLER = "controllers"


class Where(StrEnum):
    """The moment in the method, as the rules of Byteman have it."""

    ENTRY = "ENTRY"
    EXIT = "EXIT"


class Load(StrEnum):
    """The load that makes a node pass a point within seconds; the value says for people which nodes pass it."""

    ALWAYS = "any node of the role"
    TRANSACTIONS = "the coordinator of a producer with transactions"
    MARKERS = "the leader of a topic that is written to in transactions"
    COMPACTED = "the leader of a compacted topic"
    TIERED = "the leader of a topic with remote storage"


@dataclass(frozen=True, slots=True)
class Site:
    """A method of a class. parameters: needed where the class has several methods of this name."""

    owner: str
    method: str
    parameters: str | None = None

    @property
    def text(self) -> str:
        """The method, for people."""
        return f"{self.owner}.{self.method}"

    def found_in(self, release: Release) -> Method | None:
        """The method in a release; None if the release lacks it, or has several that fit."""
        named = [one for one in methods_of(release.classpath, self.owner) or () if one.name == self.method]
        fitting = [one for one in named if self.parameters is None or ", ".join(one.parameters) == self.parameters]
        return fitting[0] if len(fitting) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePoint:
    """A point.

    text: what a node does there, for people. log: an expression in the rules of Byteman for the folder of the log that
    the method works on, such as "plain-0"; "" if it works on no log. only: a condition, where only some calls of the
    method are this point. io_error: an error of the disk may show as an exception of the method. seldom: what must
    happen first. load: with it, generated scenarios use the point; one that is seldom and has none is left out.
    """

    text: str
    sites: tuple[Site, ...]
    where: Where = Where.ENTRY
    roles: tuple[Role, ...] = (Role.BROKER,)
    log: str = ""
    only: str = ""
    io_error: bool = False
    seldom: str = ""
    load: Load = Load.ALWAYS
    tier: bool = False

    @property
    def generated(self) -> bool:
        """Whether generated scenarios use it."""
        return not self.seldom or self.load is not Load.ALWAYS

    def site_in(self, release: Release) -> tuple[Site, Method] | None:
        """The first of its sites that a release has, with the method there; None if it has none of them."""
        found = ((site, site.found_in(release)) for site in self.sites)
        return next(((site, method) for site, method in found if method is not None), None)

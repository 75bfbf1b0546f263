"""How a Kafka is started where nodes run: from jars on a Java, or by the start script of an image of brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

_ARGUMENTS: Final = "java.args"


@dataclass(frozen=True, slots=True)
class Command:
    """What a runner starts, in the directory that it was prepared for."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


NOTHING: Final = Command((), {})


class Launch(Protocol):
    """One build on one Java."""

    @property
    def machine(self) -> str:
        """Tells this Java from any other, for what fits only one."""
        ...

    def prepare(self, directory: Path, settings: Path, flags: Sequence[str]) -> Command:
        """Writes what a Kafka that works in `directory` needs to start with these settings and flags of the JVM.

        Once more with other flags changes what is written and not the command: a container keeps the one it was made
        with.
        """
        ...


@dataclass(frozen=True, slots=True)
class JavaLaunch:
    """Implements `Launch` with jars of ours. `java` is the executable where the nodes run."""

    java: str
    machine: str
    classpath: tuple[Path, ...]
    env: Mapping[str, str]

    def prepare(self, directory: Path, settings: Path, flags: Sequence[str]) -> Command:
        """See `Launch`."""
        arguments = directory / _ARGUMENTS
        classpath = ":".join(map(str, self.classpath))
        arguments.write_text(argument_file([*flags, "-cp", classpath, "kafka.Kafka", str(settings)]), "utf-8")
        return Command((self.java, f"@{arguments}"), self.env)


def argument_file(arguments: Sequence[str]) -> str:
    """For `java @FILE` (JEP 293): each argument quoted, because a classpath of 100 jars fills a process list."""
    quoted = (argument.replace("\\", "\\\\").replace('"', '\\"') for argument in arguments)
    return "".join(f'"{argument}"\n' for argument in quoted)

"""How a Kafka is started where nodes run: from jars on a Java, or by the start script of an image of brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from harness.kafka.layout import BrokerImage
from harness.model.limits import HEAP, MIB

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


@dataclass(frozen=True, slots=True)
class ImageLaunch:
    """Implements `Launch` by the start script of an image of brokers, its Java and its jars.

    The variables are those that Kafka's scripts ask for (bin/kafka-server-start.sh, bin/kafka-run-class.sh, and
    Confluent's of the same names); each that is left out would bring settings of a server with gigabytes to itself.
    They are given by names relative to the node's directory, for the scripts break what they are given at blanks.
    """

    image: BrokerImage

    @property
    def machine(self) -> str:
        """See `Launch`."""
        return self.image.id

    def prepare(self, directory: Path, settings: Path, flags: Sequence[str]) -> Command:
        """See `Launch`."""
        (directory / _ARGUMENTS).write_text(argument_file(flags), "utf-8")
        return Command(
            (self.image.layout.start, str(settings)),
            {
                "KAFKA_HEAP_OPTS": f"-Xmx{HEAP // MIB}m",
                "KAFKA_JVM_PERFORMANCE_OPTS": f"@{_ARGUMENTS}",
                "KAFKA_LOG4J_OPTS": "-Dkafka.logs.dir=logs",  # which file configures logging is among the flags
                "KAFKA_JMX_OPTS": "-Djava.awt.headless=true",  # else an agent listens that nobody asks
                "EXTRA_ARGS": "-name kafkaServer",  # else the collector writes a log, too
                "LOG_DIR": "logs",  # else the scripts make a folder that belongs to the image's own user
            },
        )


def argument_file(arguments: Sequence[str]) -> str:
    """For `java @FILE` (JEP 293): each argument quoted, because a classpath of 100 jars fills a process list."""
    quoted = (argument.replace("\\", "\\\\").replace('"', '\\"') for argument in arguments)
    return "".join(f'"{argument}"\n' for argument in quoted)

"""How a Kafka is started where nodes run: from jars on a Java, or by the entry point or a script of an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from harness.kafka.release.image_layout import BrokerImage
from harness.kafka.settings.image_variables import setting_of, variable_of
from harness.kafka.settings.node_settings import escaped, properties_text
from harness.model.errors import BadInput
from harness.model.limits import HEAP, MIB

_ARGUMENTS: Final = "java.args"
_ADVERTISED: Final = "KAFKA_ADVERTISED_LISTENERS"


@dataclass(frozen=True, slots=True)
class Command:
    """What a runner starts, in the directory that it was prepared for."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


NOTHING: Final = Command((), {})


@dataclass(frozen=True, slots=True)
class Settings:
    """What a Kafka is to go by, and the same as the `file` that holds it; the storage is formatted for `cluster_id`."""

    file: Path
    properties: Mapping[str, str]
    cluster_id: str

    def write(self) -> None:
        """The file."""
        self.file.write_text(properties_text(self.properties), "utf-8")


class Launch(Protocol):
    """One build on one Java."""

    @property
    def machine(self) -> str:
        """Tells this Java from any other, for what fits only one."""
        ...

    def prepare(self, directory: Path, settings: Settings, flags: Sequence[str]) -> Command:
        """Writes what a Kafka that works in `directory` needs to start with these settings and flags of the JVM.

        Once more with other flags changes what is written and not the command: another command is another container.
        """
        ...


@dataclass(frozen=True, slots=True)
class JavaLaunch:
    """Implements `Launch` with jars of ours. `java` is the executable where the nodes run."""

    java: str
    machine: str
    classpath: tuple[Path, ...]
    env: Mapping[str, str]

    def prepare(self, directory: Path, settings: Settings, flags: Sequence[str]) -> Command:
        """See `Launch`."""
        arguments = directory / _ARGUMENTS
        classpath = ":".join(map(str, self.classpath))
        arguments.write_text(argument_file([*flags, "-cp", classpath, "kafka.Kafka", str(settings.file)]), "utf-8")
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

    def prepare(self, directory: Path, settings: Settings, flags: Sequence[str]) -> Command:
        """See `Launch`."""
        (directory / _ARGUMENTS).write_text(argument_file(flags), "utf-8")
        return Command(
            (self.image.layout.start, str(settings.file)),
            {
                "KAFKA_HEAP_OPTS": f"-Xmx{HEAP // MIB}m",
                "KAFKA_JVM_PERFORMANCE_OPTS": f"@{_ARGUMENTS}",
                "KAFKA_LOG4J_OPTS": "-Dkafka.logs.dir=logs",  # which file configures logging is among the flags
                "KAFKA_JMX_OPTS": "-Djava.awt.headless=true",  # else an agent listens that nobody asks
                "EXTRA_ARGS": "-name kafkaServer",  # else the collector writes a log, too
                "LOG_DIR": "logs",  # else the scripts make a folder that belongs to the image's own user
            },
        )


@dataclass(frozen=True, slots=True)
class EntryLaunch:
    """Implements `Launch` by ENTRYPOINT and CMD of an image, under the conventions of its makers.

    Their scripts format storage unless that is done, which the harness has: the cluster's id has to be the same. The
    JVM that looks for it gets heap, flags and logging of the node. Then they become the start script, and that the JVM,
    so that signals reach it.
    """

    image: BrokerImage

    @property
    def machine(self) -> str:
        """See `Launch`."""
        return self.image.id

    def prepare(self, directory: Path, settings: Settings, flags: Sequence[str]) -> Command:
        """See `Launch`. BadInput for a setting that the image cannot be given."""
        script = ImageLaunch(self.image).prepare(directory, settings, flags)
        layout = self.image.layout
        for folder in layout.folders.values():
            (directory / folder).mkdir(exist_ok=True)
        if layout.settings_file:
            replace(settings, file=directory / layout.settings_file).write()
            given = self._again(settings.properties)
        else:
            # Its preflight wants one folder to be writable, and knows nothing of where our disks are.
            given = {**self._as_variables(settings.properties), "KAFKA_DATA_DIRS": str(directory)}
        entry = self.image.entry
        if _is_controller(settings.properties) and _ADVERTISED in self.image.variables:
            # Refused if it says anything, by both makers; said to be empty, Kafka itself refuses it since 4.x.
            given.pop(_ADVERTISED, None)
            entry = ("/bin/sh", "-c", f'unset {_ADVERTISED}; exec "$@"', "sh", *entry)
        return Command(entry, {**script.env, "CLUSTER_ID": settings.cluster_id, **given})

    def _again(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Those settings that the image has variables for already: they would be put behind the file's, and hold."""
        named = {variable: setting_of(variable) for variable in self.image.variables}
        return {variable: escaped(properties[key]) for variable, key in named.items() if key and key in properties}

    def _as_variables(self, properties: Mapping[str, str]) -> dict[str, str]:
        """All of them. A controller may not be told what it advertises: its listener bears that name then, which it
        resolves to itself and others to the proxy before it."""
        reported = dict(properties)
        if _is_controller(reported) and "advertised.listeners" in reported:
            reported["listeners"] = reported.pop("advertised.listeners")
        named = {key: variable_of(key) for key in reported}
        if lost := sorted(key for key, variable in named.items() if variable is None):
            raise BadInput(
                f"{self.image.spec} takes settings as variables, and {', '.join(lost)} cannot be written as one: leave "
                f"it away, or give the release as a version"
            )
        return {variable: escaped(reported[key]) for key, variable in named.items() if variable}


def _is_controller(properties: Mapping[str, str]) -> bool:
    return properties.get("process.roles") == "controller"


def argument_file(arguments: Sequence[str]) -> str:
    """For `java @FILE` (JEP 293): each argument quoted, because a classpath of 100 jars fills a process list."""
    quoted = (argument.replace("\\", "\\\\").replace('"', '\\"') for argument in arguments)
    return "".join(f'"{argument}"\n' for argument in quoted)

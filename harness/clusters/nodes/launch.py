"""The command that starts a node: a Java with jars, or the entry point or a start script of an image of brokers."""

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
    """The command line and the environment that a runner starts, in the directory for which it was prepared."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


NO_COMMAND: Final = Command((), {})


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a node, and the file for them. Its storage is formatted for `cluster_id`."""

    file: Path
    properties: Mapping[str, str]
    cluster_id: str

    def write(self) -> None:
        """Writes the file."""
        self.file.write_text(properties_text(self.properties), "utf-8")


class Launch(Protocol):
    """Prepares commands for one build on one Java."""

    @property
    def machine(self) -> str:
        """A text that differs for each Java. A class-data archive fits only one."""
        ...

    @property
    def java_version(self) -> str | None:
        """Version and vendor of the Java of the nodes; None = not known."""
        ...

    def prepare(self, directory: Path, settings: Settings, flags: Sequence[str]) -> Command:
        """Writes the files that a node in `directory` needs to start with these settings and JVM flags.

        A second call with other flags changes these files and not the command, because a container has to be made again
        for another command.
        """
        ...


@dataclass(frozen=True, slots=True)
class JavaLaunch:
    """Implements `Launch` with the jars of a release. `java` is the path of the executable where the nodes run."""

    java: str
    machine: str
    classpath: tuple[Path, ...]
    env: Mapping[str, str]
    java_version: str | None = None

    def prepare(self, directory: Path, settings: Settings, flags: Sequence[str]) -> Command:
        """See `Launch`."""
        arguments = directory / _ARGUMENTS
        classpath = ":".join(map(str, self.classpath))
        arguments.write_text(argument_file([*flags, "-cp", classpath, "kafka.Kafka", str(settings.file)]), "utf-8")
        return Command((self.java, f"@{arguments}"), self.env)


@dataclass(frozen=True, slots=True)
class ImageLaunch:
    """Implements `Launch` by the start script of an image of brokers, with the image's Java and jars.

    The variables are those that Kafka's scripts read (bin/kafka-server-start.sh, bin/kafka-run-class.sh, and
    Confluent's scripts of the same names). Without one of them, a script falls back to defaults for a server with
    gigabytes of memory. Paths are relative to the node's directory, because the scripts split values at blanks.
    """

    image: BrokerImage

    @property
    def machine(self) -> str:
        """See `Launch`."""
        return self.image.id

    @property
    def java_version(self) -> str | None:
        """See `Launch`."""
        return self.image.java

    def prepare(self, directory: Path, settings: Settings, flags: Sequence[str]) -> Command:
        """See `Launch`."""
        (directory / _ARGUMENTS).write_text(argument_file(flags), "utf-8")
        return Command(
            (self.image.layout.start, str(settings.file)),
            {
                "KAFKA_HEAP_OPTS": f"-Xmx{HEAP // MIB}m",
                "KAFKA_JVM_PERFORMANCE_OPTS": f"@{_ARGUMENTS}",
                "KAFKA_LOG4J_OPTS": "-Dkafka.logs.dir=logs",  # the file that configures logging is among the flags
                "KAFKA_JMX_OPTS": "-Djava.awt.headless=true",  # otherwise a JMX agent listens, which is not needed
                "EXTRA_ARGS": "-name kafkaServer",  # otherwise the garbage collector writes a log as well
                "LOG_DIR": "logs",  # otherwise the scripts make a folder of the image's own user
            },
        )


@dataclass(frozen=True, slots=True)
class EntryLaunch:
    """Implements `Launch` by ENTRYPOINT and CMD of an image, under the conventions of its makers.

    The makers' scripts format storage unless that was done. The harness has done it, so the cluster id has to be the
    same. The JVM that checks the storage gets the heap, flags and logging of the node. Then the script execs the start
    script, and that execs the JVM, so signals reach the JVM.
    """

    image: BrokerImage

    @property
    def machine(self) -> str:
        """See `Launch`."""
        return self.image.id

    @property
    def java_version(self) -> str | None:
        """See `Launch`."""
        return self.image.java

    def prepare(self, directory: Path, settings: Settings, flags: Sequence[str]) -> Command:
        """See `Launch`. BadInput for a setting that cannot be passed to the image."""
        script = ImageLaunch(self.image).prepare(directory, settings, flags)
        layout = self.image.layout
        for folder in layout.folders.values():
            (directory / folder).mkdir(exist_ok=True)
        if layout.settings_file:
            replace(settings, file=directory / layout.settings_file).write()
            given = self._overridden_variables(settings.properties)
        else:
            # Its preflight check needs one writable folder, and does not know where our log directories are.
            given = {**self._as_variables(settings.properties), "KAFKA_DATA_DIRS": str(directory)}
        entry = self.image.entry
        if _is_controller(settings.properties) and _ADVERTISED in self.image.variables:
            # Both makers' scripts refuse a controller with any value in it. Kafka 4.x refuses an empty value as well.
            given.pop(_ADVERTISED, None)
            entry = ("/bin/sh", "-c", f'unset {_ADVERTISED}; exec "$@"', "sh", *entry)
        return Command(entry, {**script.env, "CLUSTER_ID": settings.cluster_id, **given})

    def _overridden_variables(self, properties: Mapping[str, str]) -> dict[str, str]:
        """The settings for which the image sets variables: the image's values would override those of the file."""
        named = {variable: setting_of(variable) for variable in self.image.variables}
        return {variable: escaped(properties[key]) for variable, key in named.items() if key and key in properties}

    def _as_variables(self, properties: Mapping[str, str]) -> dict[str, str]:
        """All settings as variables.

        A controller must not be given advertised.listeners. So its listener gets that host name: the controller
        resolves it to its own address, and other nodes resolve it to the controller's proxy.
        """
        reported = dict(properties)
        if _is_controller(reported) and "advertised.listeners" in reported:
            reported["listeners"] = reported.pop("advertised.listeners")
        named = {key: variable_of(key) for key in reported}
        if lost := sorted(key for key, variable in named.items() if variable is None):
            raise BadInput(
                f"{self.image.spec} takes settings as variables, and {', '.join(lost)} cannot be written as one: "
                "remove it from the config of the shape, or give --kafka a version"
            )
        return {variable: escaped(reported[key]) for key, variable in named.items() if variable}


def _is_controller(properties: Mapping[str, str]) -> bool:
    return properties.get("process.roles") == "controller"


def argument_file(arguments: Sequence[str]) -> str:
    """The text of FILE for `java @FILE` (JEP 293), each argument quoted. A class path of 100 jars would flood `ps`."""
    quoted = (argument.replace("\\", "\\\\").replace('"', '\\"') for argument in arguments)
    return "".join(f'"{argument}"\n' for argument in quoted)

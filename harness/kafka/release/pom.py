"""POMs as far as a runtime classpath needs them: parents, properties, dependencyManagement, imported BOMs, relocations.

Profiles and version ranges are not supported, because no POM below Kafka's needs them. One that did would show as an
unresolved `${…}` or as a range, and both are refused with a sentence.
Source: the Maven POM reference and "Introduction to the Dependency Mechanism" on maven.apache.org.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from harness.model.errors import BadInput

_PLACEHOLDER = re.compile(r"\$\{([^}]+)\}")
_DEPTH_MAX = 20


@dataclass(frozen=True, slots=True, order=True)
class Coordinates:
    """group:artifact:version, which also decides the path of its files below the root of a repository."""

    group: str
    artifact: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"

    def path(self, extension: str, classifier: str = "") -> str:
        tail = f"-{classifier}" if classifier else ""
        folder = self.group.replace(".", "/")
        return f"{folder}/{self.artifact}/{self.version}/{self.artifact}-{self.version}{tail}.{extension}"


@dataclass(frozen=True, slots=True)
class Dependency:
    """One `<dependency>`. Before interpolation its texts may hold `${…}`; an empty text means that it is not given."""

    group: str
    artifact: str
    version: str = ""
    scope: str = ""
    type: str = "jar"
    classifier: str = ""
    optional: bool = False
    exclusions: frozenset[tuple[str, str]] = frozenset()

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The identity of a dependency in Maven. Its version is what the resolver chooses."""
        return (self.group, self.artifact, self.type, self.classifier)

    @property
    def coordinates(self) -> Coordinates:
        return Coordinates(self.group, self.artifact, self.version)


@dataclass(slots=True)
class Pom:
    """A POM with everything that it inherits; `dependencies` and `managed` keep the order of their declaration."""

    coordinates: Coordinates
    properties: dict[str, str] = field(default_factory=dict)
    managed: list[Dependency] = field(default_factory=list)
    dependencies: list[Dependency] = field(default_factory=list)
    relocation: Coordinates | None = None  # slf4j-log4j12 1.7.36 of Kafka 3.8 was relocated to slf4j-reload4j


Load = Callable[[Coordinates], bytes]


def effective(coordinates: Coordinates, load: Load) -> Pom:
    """The POM with parents merged, placeholders replaced and managed versions, scopes and exclusions applied.

    `load` returns the text of a POM. BadInput when a POM cannot be understood.
    """
    pom = _interpolated(_inherited(coordinates, load, 0))
    managed = _managed(pom, load, 0)
    pom.dependencies = [_apply(dependency, managed) for dependency in pom.dependencies]
    return pom


def _inherited(coordinates: Coordinates, load: Load, depth: int) -> Pom:
    if depth > _DEPTH_MAX:
        raise BadInput(
            f"the POM of {coordinates} has more than {_DEPTH_MAX} parents, so it seems to be its own ancestor: use "
            "another repository"
        )
    root = _parse(load(coordinates), coordinates)
    parent_node = root.find("parent")
    own = Pom(
        coordinates,
        {node.tag: (node.text or "").strip() for node in root.iterfind("properties/*")},
        [_dependency(node) for node in root.iterfind("dependencyManagement/dependencies/dependency")],
        [_dependency(node) for node in root.iterfind("dependencies/dependency")],
        _relocation(root, coordinates),
    )
    if parent_node is None:
        return own
    parent_at = Coordinates(*(_text(parent_node, tag) for tag in ("groupId", "artifactId", "version")))
    parent = _inherited(parent_at, load, depth + 1)
    keys = {dependency.key for dependency in own.dependencies}
    own.properties = {
        **parent.properties,
        "project.parent.version": parent_at.version,
        "project.parent.groupId": parent_at.group,
        **own.properties,
    }
    own.managed += parent.managed  # the first entry of a key decides
    own.dependencies += [dependency for dependency in parent.dependencies if dependency.key not in keys]
    return own


def _parse(content: bytes, coordinates: Coordinates) -> ET.Element:
    try:
        root = ET.fromstring(content)
    except ET.ParseError as error:
        raise BadInput(
            f"the POM of {coordinates} is not XML ({error}): the repository is damaged, or the URL is not that of one"
        ) from error
    for node in root.iter():
        node.tag = node.tag.rpartition("}")[2] if isinstance(node.tag, str) else ""
    return root


def _text(node: ET.Element, tag: str, default: str = "") -> str:
    return (node.findtext(tag) or default).strip()


def _dependency(node: ET.Element) -> Dependency:
    return Dependency(
        group=_text(node, "groupId"),
        artifact=_text(node, "artifactId"),
        version=_text(node, "version"),
        scope=_text(node, "scope"),
        type=_text(node, "type", "jar"),
        classifier=_text(node, "classifier"),
        optional=_text(node, "optional") == "true",
        exclusions=frozenset(
            (_text(one, "groupId", "*"), _text(one, "artifactId", "*")) for one in node.iterfind("exclusions/exclusion")
        ),
    )


def _relocation(root: ET.Element, at: Coordinates) -> Coordinates | None:
    node = root.find("distributionManagement/relocation")
    if node is None:
        return None
    return Coordinates(
        _text(node, "groupId", at.group), _text(node, "artifactId", at.artifact), _text(node, "version", at.version)
    )


def _interpolated(pom: Pom) -> Pom:
    at = pom.coordinates
    values = dict(pom.properties)
    for prefix in ("project.", "pom."):
        values |= {f"{prefix}groupId": at.group, f"{prefix}artifactId": at.artifact, f"{prefix}version": at.version}
    fill = _filler(values)
    return Pom(at, values, [fill(one) for one in pom.managed], [fill(one) for one in pom.dependencies], pom.relocation)


def _filler(values: Mapping[str, str]) -> Callable[[Dependency], Dependency]:
    def text(raw: str) -> str:
        for _ in range(_DEPTH_MAX):
            filled = _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), raw)
            if filled == raw:
                break
            raw = filled
        return raw

    def fill(one: Dependency) -> Dependency:
        return replace(
            one,
            group=text(one.group),
            artifact=text(one.artifact),
            version=text(one.version),
            scope=text(one.scope),
            type=text(one.type),
            classifier=text(one.classifier),
        )

    return fill


def _managed(pom: Pom, load: Load, depth: int) -> dict[tuple[str, str, str, str], Dependency]:
    """The managed entries by key. Own entries take precedence over imported ones, earlier imports over later ones."""
    if depth > _DEPTH_MAX:
        raise BadInput(f"the BOMs of {pom.coordinates} import each other")
    imports = [one for one in pom.managed if one.scope == "import" and one.type == "pom"]
    managed: dict[tuple[str, str, str, str], Dependency] = {}
    for one in pom.managed:
        if one.scope != "import":
            managed.setdefault(one.key, one)
    for bom in imports:
        imported = _interpolated(_inherited(bom.coordinates, load, 0))
        for key, one in _managed(imported, load, depth + 1).items():
            managed.setdefault(key, one)
    return managed


def _apply(dependency: Dependency, managed: Mapping[tuple[str, str, str, str], Dependency]) -> Dependency:
    rule = managed.get(dependency.key)
    if rule is None:
        return dependency
    return replace(
        dependency,
        version=dependency.version or rule.version,
        scope=dependency.scope or rule.scope,
        exclusions=dependency.exclusions or rule.exclusions,
    )

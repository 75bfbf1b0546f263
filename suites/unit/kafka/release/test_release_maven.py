"""The jars of a classpath: Maven's rules as far as Kafka's dependencies need them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.kafka.release.maven import ROOTS, Sources, fitting_binding, runtime_dependencies
from harness.kafka.release.repository import Repository
from harness.model.errors import BadInput
from suites.unit.kafka.release.maven_repository import KAFKA, MavenRepository, needs

BOM = "<dependency><groupId>g</groupId><artifactId>bom</artifactId><version>1</version><type>pom</type><scope>import</scope></dependency>"  # noqa: E501 - one element


@pytest.fixture
def repo(tmp_path: Path) -> MavenRepository:
    return MavenRepository(tmp_path / "repository")


def classpath(repo: MavenRepository, *of_core: str, body: str = "") -> list[str]:
    """artifact:version of the jars of a Kafka with a core that depends on `of_core`, without the two roots."""
    repo.artifact(f"{KAFKA}:kafka_2.13:1.0.0", *of_core, body=body)
    repo.artifact(f"{KAFKA}:kafka-tools:1.0.0")
    with Repository(repo.url) as repository:
        chosen = runtime_dependencies(Sources(repository, None), "1.0.0")
    return [f"{one.artifact}:{one.version}" for one in chosen if one.artifact not in ROOTS]


def test_only_runtime_dependencies_are_on_the_classpath(repo: MavenRepository) -> None:
    for name in ("plain", "compiled", "run"):
        repo.artifact(f"g:{name}:1")
    assert classpath(
        repo,
        needs("g:plain:1"),
        needs("g:compiled:1", scope="compile"),
        needs("g:run:1", scope="runtime"),
        needs("g:tested:1", scope="test"),
        needs("g:provided:1", scope="provided"),
        needs("g:on-the-machine:1", scope="system"),
        needs("g:extra:1", optional=True),
    ) == ["plain:1", "compiled:1", "run:1"]


def test_the_nearest_declaration_decides_and_the_first_among_equals(repo: MavenRepository) -> None:
    repo.artifact("g:far:1", needs("g:both:9"))
    repo.artifact("g:other:1", needs("g:deep:1"))
    repo.artifact("g:another:1", needs("g:deep:2"))
    for coordinates in ("g:both:1", "g:deep:1"):
        repo.artifact(coordinates)
    wanted = [needs(f"g:{name}:1") for name in ("far", "both", "other", "another")]
    assert classpath(repo, *wanted) == ["far:1", "both:1", "other:1", "another:1", "deep:1"]


def test_exclusions_hold_for_everything_below(repo: MavenRepository) -> None:
    repo.artifact("g:top:1", needs("g:middle:1"))
    repo.artifact("g:middle:1", needs("g:unwanted:1"), needs("h:jline:1"), needs("g:wanted:1"))
    repo.artifact("g:wanted:1")
    assert classpath(repo, needs("g:top:1", exclude=["g:unwanted", "*:jline"])) == ["top:1", "middle:1", "wanted:1"]


def test_an_exclusion_holds_on_its_own_branch_only(repo: MavenRepository) -> None:
    repo.artifact("g:left:1", needs("g:shared:1"))
    repo.artifact("g:right:1", needs("g:shared:1"))
    repo.artifact("g:shared:1")
    found = classpath(repo, needs("g:left:1", exclude=["g:shared"]), needs("g:right:1"))
    assert found == ["left:1", "right:1", "shared:1"]


def test_parents_properties_and_management(repo: MavenRepository) -> None:
    leaf = needs("g:leaf:${leaf}")
    managed = f"<dependencyManagement><dependencies>{leaf}</dependencies></dependencyManagement>"
    repo.pom("g:parent:7", f"<properties><leaf>1</leaf><deeper>${{project.version}}</deeper></properties>{managed}")
    parent = "<parent><groupId>g</groupId><artifactId>parent</artifactId><version>7</version></parent>"
    body = f"{parent}<properties><leaf>2</leaf></properties>"  # replaces a placeholder of the parent
    repo.artifact(
        "g:child:3",
        needs("g:leaf"),
        needs("g:sibling:${deeper}"),
        needs("${project.groupId}:up:${project.parent.version}"),
        body=body,
    )
    for coordinates in ("g:leaf:2", "g:sibling:3", "g:up:7"):
        repo.artifact(coordinates)
    assert classpath(repo, needs("g:child:3")) == ["child:3", "leaf:2", "sibling:3", "up:7"]


def test_a_bom_gives_versions_and_scopes_and_own_management_comes_first(repo: MavenRepository) -> None:
    def managing(*dependencies: str) -> str:
        return f"<dependencyManagement><dependencies>{''.join(dependencies)}</dependencies></dependencyManagement>"

    repo.pom("g:bom:1", managing(needs("g:a:1"), needs("g:b:1"), needs("g:c:1", scope="test")))
    repo.artifact("g:lib:1", needs("g:a"), needs("g:b"), needs("g:c"), body=managing(BOM, needs("g:b:2")))
    for coordinates in ("g:a:1", "g:b:2"):
        repo.artifact(coordinates)
    assert classpath(repo, needs("g:lib:1")) == ["lib:1", "a:1", "b:2"]


def test_a_relocated_artifact_is_replaced_by_its_new_coordinates(repo: MavenRepository) -> None:
    """As slf4j-log4j12 1.7.36 of Kafka 3.8 by slf4j-reload4j."""
    moved = "<distributionManagement><relocation><artifactId>new</artifactId></relocation></distributionManagement>"
    repo.pom("g:old:1", moved)  # no jar
    repo.artifact("g:new:1", needs("g:below:1"))
    repo.artifact("g:below:1")
    assert classpath(repo, needs("g:old:1")) == ["new:1", "below:1"]


@pytest.mark.parametrize(
    ("version", "said"), [("[1.0,2.0)", r"'\[1\.0,2\.0\)'"), ("${nowhere}", "nowhere"), ("", "''")]
)
def test_a_version_that_is_not_a_single_one_is_refused(repo: MavenRepository, version: str, said: str) -> None:
    with pytest.raises(BadInput, match=f"^a POM asks for g:odd in version .*{said}.*, which is not a single version: "):
        classpath(repo, needs(f"g:odd:{version}" if version else "g:odd"))


def test_a_pom_that_is_its_own_parent_is_refused(repo: MavenRepository) -> None:
    parent = "<parent><groupId>g</groupId><artifactId>loop</artifactId><version>1</version></parent>"
    repo.artifact("g:loop:1", body=parent)
    with pytest.raises(BadInput, match="seems to be its own ancestor"):
        classpath(repo, needs("g:loop:1"))


@pytest.mark.parametrize(
    ("jars", "binding"),
    [
        (["slf4j-api-1.7.36.jar", "log4j-core-2.25.4.jar"], "log4j-slf4j-impl:2.25.4"),
        (["slf4j-api-2.0.17.jar", "log4j-core-2.25.4.jar"], "log4j-slf4j2-impl:2.25.4"),
        (["slf4j-api-1.7.36.jar"], "slf4j-reload4j:1.7.36"),
        (["slf4j-api-1.7.36.jar", "slf4j-reload4j-1.7.36.jar"], None),
        (["slf4j-api-1.7.36.jar", "log4j-core-2.25.4.jar", "log4j-slf4j-impl-2.25.4.jar"], None),
        (["anything-1.jar"], None),
    ],
)
def test_brokers_get_the_binding_that_they_lack(jars: list[str], binding: str | None) -> None:
    found = fitting_binding(jars)
    assert (f"{found.artifact}:{found.version}" if found else None) == binding

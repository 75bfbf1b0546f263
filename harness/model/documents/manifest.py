"""manifest.json: what a bundle is, and the digest of every file in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import field

from harness.model.documents.record import Record, meaning

SealedBy = Literal["harness", "hand"]
DigestOf = Literal["tarball", "jars", "image"]


class Digest(Record, frozen=True, kw_only=True):
    """The size and the digest of a file."""

    bytes: Annotated[int, meaning("its size")]
    sha256: Annotated[str, meaning("its SHA-256, in hexadecimal")]


_Files = Annotated[Mapping[str, Digest], meaning("every document, table part and log, by their relative paths")]
_SealedFrom = Annotated[
    Mapping[str, Digest], meaning("JSON lines that `durability seal` turned into Parquet, by their relative paths")
]


class BuildDigest(Record, frozen=True, kw_only=True):
    """The digest that identifies the files of a release."""

    if_said: ClassVar[Collection[str]] = ("jars",)
    of: Annotated[
        DigestOf,
        meaning(
            "`tarball`: the file that was given; `jars`: the list of all jars, which is `release-jars.sha512` in OUT; "
            "`image`: the container image, by its id"
        ),
    ]
    digest: Annotated[str, meaning("`sha512:` or `sha256:`, and the digest in hexadecimal")]
    jars: Annotated[int | None, meaning("how many jars the brokers run with")] = None


class NamedRelease(Record, frozen=True, kw_only=True):
    """A release of Kafka, as far as it is known."""

    if_said: ClassVar[Collection[str]] = ("kafka", "maven_repo", "build", "java")
    version: Annotated[str | None, meaning("its version")] = None
    commit: Annotated[str | None, meaning("the commit that it was built from")] = None
    source: Annotated[str | None, meaning("where it was taken from, in words")] = None
    kafka: Annotated[
        str | None,
        meaning("the value of `--kafka` that names it; older bundles, and those of clusters of somebody else, lack it"),
    ] = None
    maven_repo: Annotated[
        str | None, meaning("the value of `--maven-repo`, for a release of another repository than Maven Central")
    ] = None
    build: Annotated[
        BuildDigest | None, meaning("the digest of its files; bundles of before December 2026 lack it")
    ] = None
    java: Annotated[
        str | None,
        meaning("version and vendor of the Java of the brokers, as its `release` file says; gate.json has none"),
    ] = None


class UsedPlugin(Record, frozen=True, kw_only=True):
    """A plugin (`--plugins`) that played a run, or judged it."""

    name: Annotated[str, meaning("the name of its folder")]
    files: Annotated[Mapping[str, Digest], meaning("its files, by their paths in the folder")]
    faults: Annotated[tuple[str, ...], meaning("the words of its steps")]
    scenarios: Annotated[tuple[str, ...], meaning("names of its scenarios")]
    checks: Annotated[Mapping[str, str], meaning("the promise of each of its checks")]
    kinds: Annotated[Mapping[str, str], meaning("the meaning of each kind of findings that its checks introduce")]


class AnyManifest(Record, frozen=True, kw_only=True):
    """The keys of a manifest that every format version has."""

    format_version: Annotated[int, meaning("the version of this format")]
    files: Annotated[Mapping[str, object], meaning("what every document, table part and log has")]


class SealedFiles(Record, frozen=True, kw_only=True):
    """The files of a sealed bundle."""

    files: _Files
    sealed_from: _SealedFrom = field(default_factory=dict)


class Origin(Record, frozen=True, kw_only=True):
    """Where the evidence comes from."""

    if_said: ClassVar[Collection[str]] = ("starts_on", "plugins", "tier_storage", "agent", "clock")
    release: Annotated[NamedRelease | None, meaning("the release under test")] = None
    starts_on: Annotated[
        NamedRelease | None, meaning("an earlier release, if nodes began on one and were upgraded")
    ] = None
    scenario: Annotated[str | None, meaning("name of the scenario")] = None
    seed: Annotated[int | None, meaning("from which all random choices follow")] = None
    plugins: Annotated[
        tuple[UsedPlugin, ...],
        meaning(
            "the plugins that the run was played with. A bundle is judged without them, because steps state their "
            "facts; but each of their `checks` that the judge does not have is a doubt (`check_missing`)"
        ),
    ] = ()
    backend: Annotated[str | None, meaning("`processes`, `containers` or `attached`; not judged")] = None
    tier_storage: Annotated[str | None, meaning("class of the user's own remote storage manager; not judged")] = None
    agent: Annotated[
        str | None,
        meaning(
            "the agent in the JVMs of the nodes, if faults changed Kafka's own code; a note of the verdict names it"
        ),
    ] = None
    versions: Annotated[object, meaning("of Python and of client libraries; not judged")] = None
    limits: Annotated[
        object,
        meaning("{`memory`: bytes, `cpus`} of a node in a container; null = no limit was given; not judged"),
    ] = None
    clock: Annotated[object, meaning("{`anchor_ns`}; not judged")] = None


class Manifest(Origin, frozen=True, kw_only=True):
    """The whole document."""

    format_version: Annotated[int, meaning("the version of this format")]
    files: _Files
    sealed_by: Annotated[SealedBy | None, meaning("the harness that ran the scenario, or `durability seal`")] = None
    sealed_from: _SealedFrom = field(default_factory=dict)
    own_sha256: Annotated[
        str | None,
        meaning(
            "SHA-256, in hexadecimal, of this document without this key, as JSON in ASCII with keys in order and "
            "without spaces. Manifests of before November 2026 lack it"
        ),
    ] = None

    @property
    def by_harness(self) -> bool:
        """Whether the harness itself wrote all of the evidence."""
        return self.sealed_by == "harness"

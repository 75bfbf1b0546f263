"""The Java of the brokers is added to the origin of a bundle when a cluster runs."""

from __future__ import annotations

from harness.model.documents.manifest import NamedRelease, Origin
from harness.run.scenario_run import with_java

RELEASE = NamedRelease(version="4.3.1", commit="c", source="here")


def test_the_release_of_a_bundle_gets_the_java_of_its_brokers() -> None:
    added = with_java(Origin(release=RELEASE, seed=5), "21.0.8 (Debian)")
    assert added == Origin(
        release=NamedRelease(version="4.3.1", commit="c", source="here", java="21.0.8 (Debian)"), seed=5
    )


def test_without_a_known_java_or_release_nothing_is_added() -> None:
    assert with_java(Origin(release=RELEASE), None) == Origin(release=RELEASE)
    assert with_java(Origin(), "21.0.8") == Origin()

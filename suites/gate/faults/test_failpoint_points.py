"""Every point of failpoints is in the tested release, and Byteman's own checker accepts each rule for it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.faults.failpoints.code_point import IO_EXCEPTION
from harness.faults.failpoints.points import POINTS
from harness.faults.failpoints.rule import Act, Rule
from harness.kafka.release.byteman import with_agent
from harness.kafka.release.cache import default_cache
from harness.kafka.release.java import find_java
from harness.kafka.release.release import Release, resolve
from suites.gate.playing import RELEASE

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def release() -> Release:
    found = resolve(RELEASE, maven_repo=None, cache=default_cache(), progress=print)
    return with_agent(found, maven_repo=None, cache=default_cache(), progress=print)


def test_the_release_has_every_point(release: Release) -> None:
    found = {name: point.site_in(release) for name, point in POINTS.items()}
    assert [name for name, site in found.items() if site is None] == []
    throwing = {name for name, site in found.items() if site and IO_EXCEPTION in site[1].declares}
    assert {name for name, point in POINTS.items() if point.io_error} <= throwing


def test_the_checker_of_the_agent_accepts_every_rule(release: Release, tmp_path: Path) -> None:
    rules = list(_rules(release))
    script = tmp_path / "rules.btm"
    script.write_text("\n\n".join(rules) + "\n")
    classpath = ":".join(map(str, (release.agent, *release.classpath)))
    java = find_java(release.version).executable
    command = [str(java), "-cp", classpath, "org.jboss.byteman.check.TestScript", "-v", str(script)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "TestScript: no errors" in checked.stdout, checked.stdout[-2000:]
    assert checked.stdout.count("Type checked rule") == len(rules)


def _rules(release: Release) -> Iterator[str]:
    for name, point in POINTS.items():
        site = point.site_in(release)
        assert site is not None
        acts: tuple[Act, ...] = ("kill", "delay", "io_error") if point.io_error else ("kill", "delay")
        for act in acts:
            for of in (None, ("plain", 0)) if point.log else (None,):
                called = f"failpoint {name} {act} {of}"
                yield Rule(name=called, point=point, site=site[0], method=site[1], act=act, of=of).text

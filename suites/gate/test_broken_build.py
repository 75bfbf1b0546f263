"""A build whose nodes do not start at all is condemned for that, with the logs of its nodes in the bundle."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.commands.gate import gate
from harness.commands.options import GateOptions
from harness.evidence.verdicts import read_verdict
from harness.kafka.release.cache import default_cache
from harness.kafka.release.release import resolve
from harness.model.doubt_names import DoubtName
from harness.model.finding import Kind
from harness.model.verdict import Status
from suites.gate.cluster_probes import RELEASE
from suites.unit.run.test_cluster_pool import Lines

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

NAME = "calm"
LEFT_OUT = "HdrHistogram"  # brokers need it when they start, and the tool that formats their storage does not


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """A folder with all jars of a release but one."""
    release = resolve(RELEASE, maven_repo=None, cache=default_cache(), progress=print)
    libs = tmp_path / "build" / "libs"
    libs.mkdir(parents=True)
    for jar in release.classpath:
        if not jar.name.startswith(LEFT_OUT):
            shutil.copy(jar, libs)
    return libs.parent


def test_a_build_whose_brokers_end_when_they_start_fails(build: Path, tmp_path: Path, backend: str) -> None:
    out = tmp_path / "out"
    result = gate(GateOptions(kafka=str(build), only=(NAME,), seed=1, backend=backend, out=out), Lines())
    (scenario,) = result.summary.results
    assert (scenario.status, scenario.bundles) == (Status.FAIL, (NAME,))  # a second try would only repeat it
    verdict = read_verdict(out / NAME)
    assert {finding.kind for finding in verdict.findings} == {Kind.CRASHED}
    assert all(LEFT_OUT in (finding.detail or "") for finding in verdict.findings)
    assert {doubt.name for doubt in verdict.doubts} == {DoubtName.HARNESS_FAILED, DoubtName.UNFINISHED}
    assert "server-1.log" in [path.name for path in (out / NAME / "logs").iterdir()]

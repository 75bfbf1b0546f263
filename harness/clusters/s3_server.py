"""The S3 server of a run: its bucket is a folder of the run's store, so what lies there can be looked at as files."""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

from harness.clusters.plan import Plan
from harness.clusters.runner import Runner
from harness.clusters.tier import store_of
from harness.kafka.tier import S3_ACCESS, S3_SECRET
from harness.model.errors import HarnessFailure, HarnessTimeout
from harness.model.waiting import wait_for

S3_SERVER: Final = "s3-server"
_UP_S: Final = 20.0
_WORDS_MAX: Final = 300


def start_s3_server(binary: Path, run: Path, plan: Plan, runner: Runner, environment: Mapping[str, str]) -> None:
    """Returns when it answers. HarnessFailure, with its last words, when it does not."""
    log = s3_log(run)
    log.parent.mkdir()
    # Without metadata of its own beside the objects: not every file system keeps extended attributes.
    keys = ["--access", S3_ACCESS, "--secret", S3_SECRET]
    command = [str(binary), "--port", "{}:{}".format(*plan.s3), *keys, "--quiet", "posix", "--nometa"]
    runner.start(S3_SERVER, [*command, str(store_of(run))], cwd=log.parent, output=log, env=environment)
    try:
        wait_for(
            lambda: _silence(*plan.s3_direct),
            until=lambda why: not why,
            deadline_s=_UP_S,
            what="the S3 server to answer",
        )
    except HarnessTimeout as late:
        words = log.read_text("utf-8", "replace").split()[-_WORDS_MAX:] if log.exists() else []
        raise HarnessFailure(f"the S3 server does not answer ({late}): {' '.join(words)}") from late


def s3_log(run: Path) -> Path:
    """Where the server of a run writes."""
    return run / S3_SERVER / f"{S3_SERVER}.log"


def _silence(host: str, port: int) -> str:
    """Why it does not answer; nothing where it does, were it to refuse who has no keys. A proxy takes connections for
    a server that is not there yet."""
    asking = HTTPConnection(host, port, timeout=1.0)
    try:
        asking.request("GET", "/")
        asking.getresponse()
    except (OSError, HTTPException) as error:
        return str(error) or type(error).__name__
    finally:
        asking.close()
    return ""

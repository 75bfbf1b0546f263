"""The S3 server of a run. Its bucket is a folder in the tier folder of the run, so objects can be read as files."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

from harness.clusters.network.address_plan import Plan
from harness.clusters.nodes.tier_folder import store_of
from harness.clusters.processes.runner import Runner
from harness.kafka.settings.tier_settings import S3_ACCESS, S3_SECRET
from harness.model.errors import HarnessTimeout, MachineFailure
from harness.model.waiting import wait_for

S3_SERVER: Final = "s3-server"
_OTHER_SECRET: Final = "not-of-the-brokers"
_UP_S: Final = 20.0
_WORDS_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class S3Server:
    """Implements `base.TierServer`."""

    binary: Path
    run: Path
    plan: Plan
    runner: Runner
    environment: Mapping[str, str]

    def admit(self) -> None:
        """See `base.TierServer`. HarnessFailure, with the end of its log, when it does not answer."""
        self._start(S3_SECRET)

    def turn_away(self) -> None:
        """See `base.TierServer`."""
        self._start(_OTHER_SECRET)

    def _start(self, secret: str) -> None:
        self._end()
        log = s3_log(self.run)
        log.parent.mkdir(exist_ok=True)
        # --nometa: not every file system has the extended attributes in which it would keep metadata.
        keys = ["--access", S3_ACCESS, "--secret", secret]
        command = [str(self.binary), "--port", "{}:{}".format(*self.plan.s3), *keys, "--quiet", "posix", "--nometa"]
        command += [str(store_of(self.run))]
        self.runner.start(S3_SERVER, command, cwd=log.parent, output=log, env=self.environment)
        try:
            wait_for(
                lambda: _why_silent(*self.plan.s3_direct),
                until=lambda why: not why,
                deadline_s=_UP_S,
                what="the S3 server to answer",
            )
        except HarnessTimeout as late:
            words = log.read_text("utf-8", "replace").split()[-_WORDS_MAX:] if log.exists() else []
            raise MachineFailure(f"the S3 server does not answer ({late}): {' '.join(words)}") from late

    def _end(self) -> None:
        if S3_SERVER not in self.runner.status():
            return
        self.runner.signal([S3_SERVER], signal.SIGKILL)
        wait_for(
            lambda: self.runner.status()[S3_SERVER].status,
            until=lambda status: status != "running",
            deadline_s=_UP_S,
            what="the S3 server to end",
        )


def s3_log(run: Path) -> Path:
    """The log of a run's S3 server."""
    return run / S3_SERVER / f"{S3_SERVER}.log"


def _why_silent(host: str, port: int) -> str:
    """Why the server does not answer; empty if it does. A refusal for missing keys is an answer.

    A connection alone proves nothing: a proxy accepts it before the server is up.
    """
    asking = HTTPConnection(host, port, timeout=1.0)
    try:
        asking.request("GET", "/")
        asking.getresponse()
    except (OSError, HTTPException) as error:
        return str(error) or type(error).__name__
    finally:
        asking.close()
    return ""

"""The agent that a node loads when its shape says `agent = true`: Byteman, which injects rules into Kafka's methods.

It takes rules at a port of its own, on the address of the node. Without a rule it changes no class. It makes the start
of a node slower, so only scenarios that need it have it.
"""

from __future__ import annotations

from typing import Final

from harness.kafka.release.release import Release
from harness.model.errors import HarnessFailure

AGENT: Final = "agent"  # the capability
_PORT: Final = 21096


def address(host: str) -> tuple[str, int]:
    """Host and port at which the agent of a node with this address takes rules."""
    return host, _PORT


def flag(release: Release, host: str) -> str:
    """The JVM flag that loads the agent. HarnessFailure for a release that was not given one."""
    if release.agent is None:
        raise HarnessFailure("the shape says agent = true, and the release was not given the jar of an agent")
    return f"-javaagent:{release.agent}=listener:true,address:{host},port:{_PORT}"

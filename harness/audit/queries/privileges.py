"""The permissions of an auditor: commands of kafka-acls.sh for each level, and what each level cannot see."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

OBSERVE, READ, CONTROLLER = LEVELS = ("observe", "read", "controller")
_WARNING: Final = (
    "CLUSTER_ACTION is the permission of brokers: with it a client can also change leaders and ISRs, by requests "
    "that brokers send. Prefer --metadata-dir, which needs only the level observe, where the auditor can run beside a "
    "node."
)
# The blind spots of a level, and the level that sees them.
_NOT_SEEN: Final[Mapping[str, tuple[str, ...]]] = {
    OBSERVE: (
        "the metadata log: elections, ISRs and settings in their order (level controller, or --metadata-dir)",
        "records of replicas: whether two logs have the same records (level read)",
        "producers of a partition, and so which transaction hangs (level read)",
        "segments in the remote tier, by __remote_log_metadata (level read)",
    ),
    READ: ("the metadata log: elections, ISRs and settings in their order (level controller, or --metadata-dir)",),
    CONTROLLER: (),
}
_NEVER: Final = (
    "the user that changed a setting or deleted records: only the authorizer log of Kafka has it",
    "objects of the remote tier: only its folder shows them (--tier-dir)",
    "why a log start offset moved: only the logs of brokers say it (--logs)",
)


def privileges(
    level: str, principal: str, bootstrap: str, topics: Sequence[str], groups: Sequence[str]
) -> Iterator[str]:
    """Lines that a shell can run, with everything else as comments."""
    yield f"# Level {level} of `durability audit`, for {principal}"
    yield "# See the settings and the state of topics, brokers and the quorum"
    command = _Command(principal, bootstrap)
    yield command.line(["Describe", "DescribeConfigs"], ["--cluster"])
    for resource in _topics(topics):
        yield command.line(["Describe", "DescribeConfigs"], resource)
    for resource in _named("--group", groups):
        yield command.line(["Describe"], resource)
    if not groups:
        yield "# Without --groups no committed offsets are watched"
    if level in (READ, CONTROLLER):
        yield "# Read records, producers, and the state topics of Kafka. Nothing is ever written."
        for resource in _topics(topics):
            yield command.line(["Read"], resource)
        if topics:
            yield command.line(["Read"], ["--topic", "__remote_log_metadata"])
        yield "# See transactions that hang"
        yield command.line(["Describe"], ["--transactional-id", "*"])
    if level == CONTROLLER:
        yield f"# {_WARNING}"
        yield command.line(["ClusterAction"], ["--cluster"])
    yield "#"
    yield f"# {level} does not see:"
    for line in not_seen(level):
        yield f"# - {line}"
    yield "# --probe TOPIC also needs Create, Describe, Read and Write on that topic."
    yield "# `durability audit selftest` also needs Create, AlterConfigs, Write and Delete on its topic."


def not_seen(level: str) -> tuple[str, ...]:
    """What an auditor of this level cannot see, one sentence each."""
    return (*_NOT_SEEN[level], *_NEVER)


class _Command:
    def __init__(self, principal: str, bootstrap: str) -> None:
        self._head = ["kafka-acls.sh", "--bootstrap-server", bootstrap, "--add", "--allow-principal", principal]

    def line(self, operations: Sequence[str], resource: Sequence[str]) -> str:
        words = [*self._head, *(word for one in operations for word in ("--operation", one)), *resource]
        return shlex.join(words)


def _topics(names: Sequence[str]) -> Iterator[list[str]]:
    return _named("--topic", names or ("*",))


def _named(option: str, names: Sequence[str]) -> Iterator[list[str]]:
    """The resources of kafka-acls.sh: one name, or all names with a prefix."""
    for name in names:
        if name != "*" and name.endswith("*"):
            yield [option, name[:-1], "--resource-pattern-type", "prefixed"]
        else:
            yield [option, name]

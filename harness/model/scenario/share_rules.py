"""What must hold of the members of share groups (KIP-932), which only the release's own client has."""

from __future__ import annotations

from typing import Final

from harness.model.contract.contract import DELIVERY_LIMIT, LOCK, RECREATE_TOPIC
from harness.model.errors import BadInput
from harness.model.scenario.scenario import JAVA, SHARE, SHARE_GROUPS_SINCE, Reader, Scenario
from harness.model.version import numbers_of

ISOLATION: Final = "share.isolation.level"
FROM: Final = "share.auto.offset.reset"


def check(scenario: Scenario, where: str) -> None:
    """BadInput, in one sentence, on the first rule that does not hold."""
    for reader in scenario.readers:
        _reader(reader, f"{where}: readers.{reader.name}")
    for group, members in scenario.share_groups.items():
        _group(group, members, scenario, f"{where}: readers.{members[0].name}")
        topics = {topic for member in members for topic in member.topics}
        if anew := [s.name for s in scenario.steps if s.do == RECREATE_TOPIC and s.args.get("topic") in topics]:
            raise BadInput(f"{where}: steps: {anew[0]}: share group {group} would begin anew there; name another topic")
    start = scenario.shape.starts_on
    if scenario.share_groups and start is not None and numbers_of(start) < SHARE_GROUPS_SINCE:
        since = ".".join(map(str, SHARE_GROUPS_SINCE))
        raise BadInput(f"{where}: shape: starts_on = {start!r} has no share groups; begin on {since} or a later one")


def _reader(reader: Reader, where: str) -> None:
    if not reader.shares:
        if reader.group_config or reader.releases_every or reader.rejects_every:
            raise BadInput(
                f'{where}: group_config, releases_every and rejects_every are of a share group; say protocol = "share"'
            )
        return
    if reader.client != JAVA:
        raise BadInput(f'{where}: librdkafka has no share groups; say client = "java" with protocol = "share"')
    if reader.static or reader.commits != "after":
        raise BadInput(f"{where}: who is in a share group acknowledges each record; leave out static and commits")
    if reader.releases_every and reader.rejects_every:
        raise BadInput(f"{where}: releases_every and rejects_every exclude each other; leave one away")


def _group(group: str, members: tuple[Reader, ...], scenario: Scenario, where: str) -> None:
    others = [p.processes.group for p in scenario.producers if p.processes is not None]
    others += [p.transactions.offsets_of for p in scenario.producers if p.transactions and p.transactions.offsets_of]
    if not all(r.shares for r in members) or group in others:
        raise BadInput(f"{where}: {group} is a share group, and nobody of another protocol can be in it")
    for key, value in members[0].group_config.items():
        if not key.startswith(f"{SHARE}."):
            raise BadInput(f"{where}: group_config: {key} is no setting of a share group; those begin with {SHARE}.")
        if key == ISOLATION:
            raise BadInput(f"{where}: group_config: say isolation = {value!r} instead of {key}")
        if key in (DELIVERY_LIMIT, LOCK) and not value.isdecimal():
            raise BadInput(f"{where}: group_config: {key} = {value!r} is no whole number")
    for member in members[1:]:
        if (member.group_config, member.isolation) != (members[0].group_config, members[0].isolation):
            raise BadInput(f"{where}: members of {group} disagree on group_config or isolation; both are the group's")

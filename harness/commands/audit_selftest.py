"""`durability audit selftest`: lowers the retention of a topic of its own, and waits for the alarm."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from harness.audit.alarms.alarm import Alarm
from harness.audit.alarms.event import duration
from harness.audit.alarms.incidents import alarm_from
from harness.audit.queries.status import Status, status_of
from harness.audit.rules.setting_weakened import SettingWeakened
from harness.audit.service.child import command, last_line
from harness.audit.service.watch_list import watched
from harness.audit.store.database import Database
from harness.kafka.admin.addresses import check_addresses
from harness.kafka.admin.client_config import client_config
from harness.model.clock import NS_PER_S
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.scratch import scratch
from harness.model.waiting import wait_for

ALARM_S: Final = 30.0
_RULE: Final = SettingWeakened.name
_KEY: Final = "retention.ms"
_BEFORE_MS: Final = 7 * 24 * 3600 * 1000
_AFTER_MS: Final = 3600 * 1000  # nothing is deleted during the test
_RECORDS: Final = 10
_ASK_S: Final = 15.0
_START_S: Final = 90.0
_KNOWN_S: Final = 20.0
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SelfTest:
    """db: of the auditor that must alarm; None = one that the test starts, with the other options."""

    bootstrap: str
    command_config: Path | None
    controllers: str | None
    metadata_dir: Path | None
    db: Path | None
    topic: str


@dataclass(frozen=True, slots=True)
class Result:
    passed: bool
    sentence: str


def play(test: SelfTest, say: Say) -> Result:
    """BadInput if the test cannot be made: a topic that exists, an auditor that does not watch it."""
    check_addresses(test.bootstrap)
    cluster = _Cluster(test)
    cluster.refuse_existing()
    with _auditor(test, say) as folder:
        _check(status_of(folder), test)
        say(f"creates the topic {test.topic}, and lowers its {_KEY} from {_BEFORE_MS} to {_AFTER_MS}")
        try:
            cluster.create()
            if not _known(folder, test.topic):
                return Result(False, f"FAIL: the auditor did not see the new topic within {_KNOWN_S:g} s")
            since_ns = time.time_ns()
            cluster.lower()
            return _result(folder, test.topic, since_ns)
        finally:
            cluster.delete()
            say(f"deleted the topic {test.topic}")


@contextmanager
def _auditor(test: SelfTest, say: Say) -> Iterator[Path]:
    """The folder of the database of an auditor that runs."""
    if test.db is not None:
        yield test.db
        return
    if test.controllers is None and test.metadata_dir is None:
        raise BadInput(
            "an auditor of its own needs the metadata log: add --controllers or --metadata-dir, or give --db"
        )
    with scratch("selftest") as name:
        folder, errors = Path(name, "db"), Path(name, "errors")
        say("starts an auditor for the test")
        with errors.open("wb") as file:
            process = subprocess.Popen(_command(test, folder), stdout=subprocess.DEVNULL, stderr=file)
        try:
            _wait_watching(process, folder, errors)
            yield folder
        finally:
            process.terminate()
            process.wait()


def _command(test: SelfTest, folder: Path) -> list[str]:
    given = {
        "--bootstrap": test.bootstrap,
        "--controllers": test.controllers,
        "--metadata-dir": test.metadata_dir,
        "--command-config": test.command_config,
        "--db": folder,
        "--topics": test.topic,
    }
    return command(given)


def _wait_watching(process: subprocess.Popen[bytes], folder: Path, errors: Path) -> None:
    def seen() -> str:
        if process.poll() is not None:
            raise BadInput(f"the auditor of the test ended: {last_line(errors)}")
        try:
            status = status_of(folder)
        except BadInput as not_yet:
            return str(not_yet)
        return "" if status.vitals.metadata_offset >= 0 else "it has read nothing of the metadata log"

    wait_for(seen, until=lambda why: not why, deadline_s=_START_S, what="the auditor of the test to start")


def _check(status: Status, test: SelfTest) -> None:
    vitals = status.vitals
    if status.process is None:
        raise BadInput(f"no auditor writes --db {test.db} now; start it, or leave out --db")
    if "metadata" not in vitals.covered_now:
        raise BadInput("the auditor does not follow the metadata log now; `durability audit status` says why")
    if not watched(vitals.watch.topics)(test.topic):
        only = ", ".join(vitals.watch.topics)
        raise BadInput(f"the auditor watches only the topics {only}; give a name that matches with --topic")
    if _RULE not in vitals.watch.rules:
        raise BadInput(f"the rule {_RULE} is switched off in the auditor, so it cannot alarm; switch it on")


def _known(folder: Path, topic: str) -> bool:
    """Waits until the auditor knows the topic: else the lower retention is that of a new topic, and no change."""

    def has() -> bool:
        database = Database(folder, read_only=True)
        try:
            return database.has_topic(topic)
        finally:
            database.close()

    try:
        return wait_for(has, until=bool, deadline_s=_KNOWN_S, what="the auditor to know the topic")
    except HarnessTimeout:
        return False


def _result(folder: Path, topic: str, since_ns: int) -> Result:
    try:
        alarm = wait_for(
            lambda: _alarm(folder, topic, since_ns),
            until=lambda found: found is not None,
            deadline_s=ALARM_S,
            what="the alarm",
        )
    except HarnessTimeout:
        missing = status_of(folder).vitals
        lacks = ", ".join(sorted({*missing.watch.not_covered, *missing.refusals})) or "nothing"
        return Result(
            False, f"FAIL: no alarm {_RULE} came within {ALARM_S:g} s after {_KEY} was lowered; not covered: {lacks}"
        )
    assert alarm is not None  # see until
    took_s = (alarm.opened_ns - since_ns) / NS_PER_S
    return Result(True, f"PASS: the alarm {_RULE} came {duration(took_s)} after the request that lowered {_KEY}")


def _alarm(folder: Path, topic: str, since_ns: int) -> Alarm | None:
    database = Database(folder, read_only=True)
    try:
        alarms = [alarm_from(text) for _, _, text in database.alarms(last=100)]
    finally:
        database.close()
    about = (a for a in alarms if a.rule == _RULE and any(s.topic == topic for s in a.suspicions))
    return next((alarm for alarm in about if alarm.opened_ns >= since_ns), None)


class _Cluster:
    """The admin client of the test. Its user may create, alter and delete the topic."""

    def __init__(self, test: SelfTest) -> None:
        self._topic = test.topic
        given = {} if test.command_config is None else client_config(test.command_config)
        self._settings: dict[str, str | int | float | bool] = {
            "log_level": 0,
            **given,
            "bootstrap.servers": test.bootstrap,
        }
        try:
            self._admin = AdminClient(self._settings)
        except KafkaException as refused:
            raise BadInput(f"no client can be created: {refused.args[0].str()}; correct --command-config") from refused

    def refuse_existing(self) -> None:
        try:
            metadata = self._admin.list_topics(timeout=_ASK_S)
        except KafkaException as refused:
            why = refused.args[0].str()
            raise BadInput(f"no broker answers ({why}); correct --bootstrap or --command-config") from refused
        if self._topic in metadata.topics:
            raise BadInput(f"the topic {self._topic} exists; the test deletes its topic, so give a name that is free")
        self._replicas = min(3, len(metadata.brokers))

    def create(self) -> None:
        """With some records, so that there is something to lose."""
        new = NewTopic(self._topic, 1, self._replicas, config={_KEY: str(_BEFORE_MS)})
        _done(self._admin.create_topics([new], request_timeout=_ASK_S)[self._topic].result, "create")
        producer = Producer(self._settings)
        for number in range(_RECORDS):
            producer.produce(self._topic, b"%d" % number)
        producer.flush(_ASK_S)

    def lower(self) -> None:
        entry = ConfigEntry(_KEY, str(_AFTER_MS), incremental_operation=AlterConfigOpType.SET)
        changed = ConfigResource(ResourceType.TOPIC, self._topic, incremental_configs=[entry])
        (asked,) = self._admin.incremental_alter_configs([changed], request_timeout=_ASK_S).values()
        _done(asked.result, "alter the settings of")

    def delete(self) -> None:
        """If it was created. A failure is not the test's result."""
        with suppress(KafkaException, TimeoutError):
            self._admin.delete_topics([self._topic], request_timeout=_ASK_S)[self._topic].result(_ASK_S + 5)


def _done(result: Callable[[float], object], what: str) -> None:
    try:
        result(_ASK_S + 5)
    except KafkaException as refused:
        raise BadInput(
            f"this client may not {what} the topic of the test: {refused.args[0].str()}; give it the permission"
        ) from refused

"""A setting changed so that records are deleted earlier, or are protected less."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar, Final

from harness.audit.engine.view import View
from harness.audit.rules.ending import KEEP, KEEP_S, forgotten
from harness.audit.rules.retention import (
    POLICY,
    RETENTION_BYTES,
    RETENTION_MS,
    broker_default,
    has_partitions,
    setting_of,
    whole,
)
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.audit.rules.sentences import NAMED_MAX, lasting
from harness.audit.store.partitions import UNKNOWN
from harness.model.contract.configuration import AS_RETENTION
from harness.model.history.changes import HIDDEN, AnyChange, ConfigChange, PartitionChange, ResourceKind
from harness.model.history.history import CLUSTER_DEFAULT, broker_keys
from harness.model.severity import Severity

_OLD: Final = "old"
_NEW: Final = "new"
_KEY: Final = "key"
_OF: Final = "of"  # the resource
_CHECK_MS: Final = "log.retention.check.interval.ms"
_CHECK_MS_DEFAULT: Final = 300_000
_AGAIN: Final = "If it was a mistake, set {key}={old} again."
_WHO: Final = "The controllers' request or authorizer log names the user."
_AT_ONCE: Final = "may be deleted from now on, at the next check of the brokers"


@dataclass(frozen=True, slots=True)
class Watched:
    """A setting that is watched. weaker: whether the second value protects less than the first.

    deletes: records may be deleted as soon as it holds. default: Kafka's, for clusters that do not report theirs.
    remedy: what to do if the change was a mistake, beside setting the old value again.
    """

    weaker: Callable[[str, str], bool]
    default: str
    effect: str  # a sentence about the records
    severity: Severity
    remedy: str
    deletes: bool = False


def _lower(old: str, new: str) -> bool:
    """Whether a limit is lower; -1 = there is none."""
    was, now = whole(old), whole(new)
    if was is None or now is None or now < 0:
        return False
    return was < 0 or now < was


def _smaller(old: str, new: str) -> bool:
    was, now = whole(old), whole(new)
    return was is not None and now is not None and now < was


def _true(old: str, new: str) -> bool:
    return new == "true" != old


def _false(old: str, new: str) -> bool:
    return new == "false" != old


def _policy(old: str, new: str) -> bool:
    """Whether deletion or compaction begins."""
    was, now = _policies(old), _policies(new)
    return bool(now - was)


def _policies(text: str) -> set[str]:
    return {part.strip() for part in text.split(",")} & {"delete", "compact"}


_DANGER: Final = Severity.DANGER
_NOTICE: Final = Severity.NOTICE
_LOCAL: Final = "Brokers delete their own copies of tiered segments earlier; then the tier has the only copy."
_ROLLS: Final = "Segments end earlier, so retention deletes their records earlier."
_COMPACTS: Final = "Compaction removes records earlier, and readers that are behind miss them."
_BEFORE_CHECK: Final = (
    "Do it before the brokers check retention, every log.retention.check.interval.ms: what they delete does not return."
)
_BEFORE_TIER: Final = "Brokers do not fetch deleted local copies back, and the tier still serves them."
_KEEP_READERS: Final = "Let readers that are behind catch up before the cleaner runs."
WATCHED: Final[Mapping[str, Watched]] = {
    RETENTION_MS: Watched(
        _lower, "604800000", f"Records older than that {_AT_ONCE}.", _DANGER, _BEFORE_CHECK, deletes=True
    ),
    RETENTION_BYTES: Watched(
        _lower, "-1", f"The oldest records beyond that size {_AT_ONCE}.", _DANGER, _BEFORE_CHECK, deletes=True
    ),
    POLICY: Watched(
        _policy,
        "delete",
        f"Records beyond the limits of retention, or with a newer record of their key, {_AT_ONCE}.",
        _DANGER,
        "Do it before the brokers check retention or the cleaner runs: what they remove does not return.",
        deletes=True,
    ),
    "local.retention.ms": Watched(_lower, str(AS_RETENTION), _LOCAL, _NOTICE, _BEFORE_TIER),
    "local.retention.bytes": Watched(_lower, str(AS_RETENTION), _LOCAL, _NOTICE, _BEFORE_TIER),
    "segment.ms": Watched(
        _smaller, "604800000", _ROLLS, _NOTICE, "Segments that ended early stay as they are; only new ones are longer."
    ),
    "segment.bytes": Watched(
        _smaller,
        "1073741824",
        f"{_ROLLS} A follower that is behind may give the partition up (KAFKA-17375).",
        _NOTICE,
        "Wait until all replicas are in the ISR before it is lowered. A follower that gave up needs a restart of its "
        "broker.",
    ),
    "delete.retention.ms": Watched(_smaller, "86400000", _COMPACTS, _NOTICE, _KEEP_READERS),
    "min.compaction.lag.ms": Watched(_smaller, "0", _COMPACTS, _NOTICE, _KEEP_READERS),
    "max.compaction.lag.ms": Watched(_smaller, "9223372036854775807", _COMPACTS, _NOTICE, _KEEP_READERS),
    "min.insync.replicas": Watched(
        _smaller,
        "1",
        "From now on records are acknowledged that fewer replicas have.",
        _DANGER,
        "Until then stop producers that rely on acks=all, and keep the leaders running until the ISR is complete: "
        "records that were acknowledged meanwhile may be on one replica.",
    ),
    "unclean.leader.election.enable": Watched(
        _true,
        "false",
        "From now on a replica may be elected that lacks committed records.",
        _DANGER,
        "Until then start brokers that are down before the last replica of an ISR stops: an election that happened "
        "cannot be undone.",
    ),
    "remote.storage.enable": Watched(
        _false,
        "false",
        "Records that only the tier has may not be readable any more, or are deleted.",
        _DANGER,
        "Set remote.log.delete.on.disable=false first, and keep the objects of the tier until the topic is read again.",
    ),
    "remote.log.delete.on.disable": Watched(
        _true,
        "false",
        "The tier's records are deleted when the topic is taken out of the tier.",
        _NOTICE,
        "Do it before remote.storage.enable is set to false.",
    ),
}
_TOPIC_KEYS: Final = {name: key for key in WATCHED for name in broker_keys(key)}  # of a setting of brokers


class SettingWeakened(Rule):
    """One change of one setting is one cause, whatever number of partitions it concerns. The settings of a new topic
    are no change, and neither are those with the value that held before."""

    name: ClassVar[str] = "setting_weakened"
    severity: ClassVar[Severity] = Severity.DANGER
    explanation: ClassVar[str] = (
        "A setting of a topic or of the brokers changed: records are deleted earlier, or are protected less. A change "
        "of one setting may remove another one by mistake."
    )
    remedy: ClassVar[str] = (
        "Set the old value again, if the change was a mistake; the alarm says what else this setting needs. The "
        "controllers' request or authorizer log names the user."
    )
    source: ClassVar[str] = "KIP-248, KIP-339 (incremental changes of settings); KIP-405; KAFKA-17375"
    needs: ClassVar[frozenset[str]] = frozenset({"metadata"})
    limits: ClassVar[Mapping[str, Limit]] = {KEEP: KEEP_S}

    def on_change(self, after: AnyChange, before: AnyChange | None, view: View) -> Iterable[Suspicion]:
        if not isinstance(after, ConfigChange) or (before is None and after.from_snapshot):
            return ()
        known = before.value if isinstance(before, ConfigChange) else None
        if HIDDEN in (after.value, known):
            return ()
        change: _Change | None = None
        if after.kind is ResourceKind.TOPIC and after.key in WATCHED and has_partitions(after.name, view):
            default = setting_of("", after.key, view)
            new = default if after.value is None else after.value
            change = _Change(after, after.key, default if known is None else known, new)
        elif after.kind is ResourceKind.BROKER and after.key in _TOPIC_KEYS:
            key = _TOPIC_KEYS[after.key]
            default = broker_default(after.key, key, view)
            new = default if after.value is None else after.value
            change = _Change(after, key, default if known is None else known, new)
        if change is None or not change.is_weaker:
            return ()
        return self._suspicions(change, view)

    def over(self, suspicion: Suspicion, view: View) -> bool:
        """It ends when the setting is as strict as it was, too."""
        key, of, old = (suspicion.detail[name] for name in (_KEY, _OF, _OLD))
        now = setting_of(of, key, view)
        if now is not None and not WATCHED[key].weaker(old, now):
            return True
        return forgotten(self, suspicion, view)

    def _suspicions(self, change: _Change, view: View) -> Iterator[Suspicion]:
        """One for each partition, up to a number, and one without a partition if there is none."""
        record = change.record
        first = Suspicion(
            rule=self.name,
            cause=f"{record.key} of {change.resource}, metadata offset {record.offset}",
            what=_sentence(change, view),
            at_ns=record.time_ns,
            metadata_offset=record.offset,
            severity=WATCHED[change.key].severity,
            remedy=f"{_AGAIN.format(key=record.key, old=change.old)} {WATCHED[change.key].remedy} {_WHO}",
            detail={_KEY: change.key, _OF: change.topic, _OLD: change.old, _NEW: change.new},
        )
        states = _concerned(change, view)
        named = list(islice(states, NAMED_MAX))
        others = sum(1 for _ in states)
        for state in named:
            yield replace(_at_risk(first, state, change, view), others=others)
            others = 0
        if not named:
            yield first


@dataclass(frozen=True, slots=True)
class _Change:
    """key: as topics name it. Values that are not known are Kafka's defaults."""

    record: ConfigChange
    key: str
    known_old: str | None
    known_new: str | None

    @property
    def old(self) -> str:
        return WATCHED[self.key].default if self.known_old is None else self.known_old

    @property
    def new(self) -> str:
        return WATCHED[self.key].default if self.known_new is None else self.known_new

    @property
    def is_weaker(self) -> bool:
        return WATCHED[self.key].weaker(self.old, self.new)

    @property
    def topic(self) -> str:
        """ "" = it is of brokers."""
        return self.record.name if self.record.kind is ResourceKind.TOPIC else ""

    @property
    def resource(self) -> str:
        if self.topic:
            return self.topic
        return "all brokers" if self.record.name == CLUSTER_DEFAULT else f"broker {self.record.name}"


def _concerned(change: _Change, view: View) -> Iterator[PartitionChange]:
    """The partitions for which the changed value counts."""
    if change.topic:
        yield from view.partitions(change.topic)
        return
    broker = change.record.name
    for state in view.partitions():
        here = broker == CLUSTER_DEFAULT or broker in map(str, state.replicas)
        if here and view.own_setting(state.topic, change.key) is None:
            yield state


def _at_risk(first: Suspicion, state: PartitionChange, change: _Change, view: View) -> Suspicion:
    """The suspicion about one partition. Which of its records are old enough is not known, so it names all."""
    found = replace(
        first,
        topic=state.topic,
        topic_id=state.topic_id,
        partition=state.partition,
        leader_epoch=state.leader_epoch,
    )
    if not WATCHED[change.key].deletes:
        return found
    seen = view.offsets(state.topic_id, state.partition)
    known = UNKNOWN not in (seen.log_start, seen.high_watermark)
    return replace(
        found,
        first_offset=seen.log_start if known else None,
        end_offset=seen.high_watermark if known else None,
        deleted_at_ns=change.record.time_ns,
    )


def _sentence(change: _Change, view: View) -> str:
    old, new = (_shown(change.key, value) for value in (change.old, change.new))
    how = "was removed, so it changed" if change.record.value is None else "changed"
    watched = WATCHED[change.key]
    every_ms = whole(view.broker_setting(_CHECK_MS)) or _CHECK_MS_DEFAULT
    check = f" They check every {lasting(every_ms)}." if watched.deletes else ""
    late = " It changed while the auditor did not follow the metadata log." if change.record.from_snapshot else ""
    return (
        f"{change.record.key} of {change.resource} {how} from {old} to {new}. {watched.effect}{check}{late} Kafka does "
        "not record the user."
    )


def _shown(key: str, value: str) -> str:
    """Such as "604800000 (7 days)"."""
    number = whole(value)
    in_words = key.endswith(".ms") and number is not None and number >= 1_000
    return f"{value} ({lasting(number)})" if in_words and number is not None else value

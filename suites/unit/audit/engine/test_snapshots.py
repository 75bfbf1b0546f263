"""What a snapshot changes: settings that are new in it were not set before, if their topic was known."""

from __future__ import annotations

from harness.audit.engine.cluster_state import ClusterState
from harness.model.history.changes import AnyChange, ConfigChange
from harness.model.history.log import Record
from suites.unit.model.history.logs import TOPIC, partition, record, snapshot, topic


class Loaded:
    def __init__(self) -> None:
        self.seen: list[tuple[str | None, str | None]] = []  # the value after, and before; "unknown" = no one knows
        self.state = ClusterState(self._saw)

    def load(self, end: int, *records: Record) -> list[tuple[str | None, str | None]]:
        self.seen.clear()
        self.state.load(snapshot(end, *records))
        return [*self.seen]

    def _saw(self, after: AnyChange, before: AnyChange | None) -> None:
        if isinstance(after, ConfigChange):
            self.seen.append((after.value, before.value if isinstance(before, ConfigChange) else "unknown"))


def retention(value: str, name: str = TOPIC, kind: int = 2, key: str = "retention.ms") -> Record:
    return record("Config", ResourceType=kind, ResourceName=name, Name=key, Value=value)


def test_before_the_first_snapshot_nothing_is_known() -> None:
    assert Loaded().load(5, topic(), partition(), retention("1000")) == [("1000", "unknown")]


def test_a_setting_that_is_new_in_a_snapshot_was_not_set_before() -> None:
    loaded = Loaded()
    loaded.load(5, topic(), partition())
    assert loaded.load(9, topic(), partition(), retention("1000")) == [("1000", None)]
    assert loaded.load(12, topic(), partition(), retention("500")) == [("500", "1000")]


def test_a_default_of_all_brokers_that_is_new_was_not_set_before() -> None:
    loaded = Loaded()
    loaded.load(5, topic(), partition())
    default = retention("1000", name="", kind=4, key="log.retention.ms")
    assert loaded.load(9, topic(), partition(), default) == [("1000", None)]


def test_the_settings_of_a_new_topic_replace_none() -> None:
    loaded = Loaded()
    loaded.load(5, topic(), partition())
    other = topic("bills", "bills-id")
    assert loaded.load(9, topic(), partition(), other, retention("1000", "bills")) == [("1000", "unknown")]


def test_a_recreated_topic_is_a_new_one() -> None:
    loaded = Loaded()
    loaded.load(5, topic(), partition(), retention("1000"))
    again = topic(topic_id="orders-again")
    new = partition(TopicId="orders-again")
    assert loaded.load(9, again, new, retention("500"))[0] == ("500", "unknown")

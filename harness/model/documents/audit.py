"""The alarms of the auditor that watched the cluster of a run."""

from __future__ import annotations

from typing import Annotated

from harness.model.documents.record import Record, meaning
from harness.model.severity import Severity


class AlarmPlace(Record, frozen=True, kw_only=True):
    """A partition that an alarm is about."""

    topic: Annotated[str, meaning("name of the topic")]
    topic_id: Annotated[str, meaning("the id that Kafka gave the topic")]
    partition: Annotated[int, meaning("number of the partition")]
    first_offset: Annotated[int | None, meaning("the first offset at risk; null = not known")] = None
    end_offset: Annotated[int | None, meaning("the offset behind the last one at risk; null = not known")] = None
    metadata_offset: Annotated[int | None, meaning("the metadata record that shows it; null = a look does")] = None


class AuditAlarm(Record, frozen=True, kw_only=True):
    """One incident: everything of one rule with one cause."""

    rule: Annotated[str, meaning("name of the rule, as harness/audit/rules/CATALOGUE.md has it")]
    severity: Annotated[Severity, meaning("how bad it is")]
    cause: Annotated[str, meaning("the same for everything that has one reason")]
    what: Annotated[str, meaning("one sentence; not judged")]
    opened_ns: Annotated[int, meaning("when the alarm was raised")]
    ended_ns: Annotated[int | None, meaning("when it ended; null = it was open at the end of the run")] = None
    places: Annotated[tuple[AlarmPlace, ...], meaning("at most 100 partitions; empty if it is about none")] = ()


class AuditReport(Record, frozen=True, kw_only=True):
    """What the auditor saw, and what it did not see."""

    alarms: Annotated[tuple[AuditAlarm, ...], meaning("in the order in which they were raised")] = ()
    coverage: Annotated[tuple[str, ...], meaning("the sources that it had, such as `metadata` and `offsets`")] = ()
    whole: Annotated[
        bool, meaning("it followed the metadata log to its end, and looked at every partition after the load")
    ] = False
    cpu_s: Annotated[int | float | None, meaning("processor time that it used; not judged")] = None
    problem: Annotated[
        str | None, meaning("why it saw nothing or less, or stopped early; null = it ran to the end as a whole")
    ] = None

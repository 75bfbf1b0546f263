"""`facts` in verdict.json: figures that decide nothing. A verdict of an earlier harness may lack any of them."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from harness.model.documents.manifest import NamedRelease, UsedPlugin
from harness.model.documents.record import Record, meaning
from harness.model.documents.steps import Effect

ByPlace = dict[str, int]  # by "topic/partition"


class Totals(Record, frozen=True, kw_only=True):
    """How many records there were."""

    attempted: Annotated[int, meaning("sent")]
    acked: Annotated[int, meaning("acknowledged")]
    promised: Annotated[int, meaning("acknowledged, and of a committed transaction if they are in one")]
    refused: Annotated[int, meaning("certainly not written")]
    unknown: Annotated[int, meaning("sent, with any other outcome")]


class AckTimes(Record, frozen=True, kw_only=True):
    """How long acknowledgements took, in milliseconds."""

    acks: Annotated[int, meaning("how many there were")]
    p50: Annotated[float, meaning("the median")]
    p99: Annotated[float, meaning("the 99th percentile")]


class ReadTimes(Record, frozen=True, kw_only=True):
    """How long records took to arrive, in milliseconds."""

    records: Annotated[int, meaning("how many there were")]
    p50: Annotated[float, meaning("the median")]
    p99: Annotated[float, meaning("the 99th percentile")]


class LongestStall(Record, frozen=True, kw_only=True):
    """The longest time in which records waited and none was acknowledged."""

    place: Annotated[str, meaning("`topic/partition`")]
    s: Annotated[float, meaning("how long it was")]
    fault: Annotated[str | None, meaning("the most recent fault that was active for most of it")] = None
    also_open: Annotated[tuple[str, ...], meaning("the other faults that were active then")] = ()


class Availability(Record, frozen=True, kw_only=True):
    """How long clients waited."""

    ack_ms: Annotated[
        dict[str, AckTimes],
        meaning(
            "by window `before`, `during`, `after`: from the call to the report; a record that waited during a part of "
            "a fault is `during`"
        ),
    ] = field(default_factory=dict)
    read_ms: Annotated[
        dict[str, ReadTimes], meaning("likewise, from the call to when a live reader received the record")
    ] = field(default_factory=dict)
    longest_stall: Annotated[LongestStall | None, meaning("null = each gap was shorter than 0.5 s")] = None
    without_acks_s: Annotated[
        dict[str, dict[str, float]],
        meaning(
            "by fault and partition: the seconds in gaps of 0.5 s and more in which records waited and none was "
            "acknowledged; 0 if each gap was shorter. A gap belongs to the most recent fault that was active for "
            "most of it"
        ),
    ] = field(default_factory=dict)
    also_open: Annotated[dict[str, tuple[str, ...]], meaning("by fault: the other faults that were active then")] = (
        field(default_factory=dict)
    )
    without_commits_s: Annotated[
        dict[str, dict[str, float]],
        meaning("the same as `without_acks_s` for commits, where a group had records to commit"),
    ] = field(default_factory=dict)
    tier_caught_up_s: Annotated[
        dict[str, float],
        meaning(
            "by fault of the remote tier: the seconds from its healing to the `to_ns` of the next `tier_caught_up` "
            "that began after it"
        ),
    ] = field(default_factory=dict)


class ReadFromTier(Record, frozen=True, kw_only=True):
    """How many of the records that were read back came from the remote tier."""

    records: Annotated[int, meaning("those from the remote tier")]
    of: Annotated[int, meaning("all that were read back from its topics")]


class ReadBack(Record, frozen=True, kw_only=True):
    """How many copies of the log were read to the end."""

    partitions: Annotated[int, meaning("those with acknowledged records")]
    copies_read: Annotated[int, meaning("how many of their copies were read to the end")]
    copies: Annotated[int | None, meaning("how many there are; null = no broker reported it")] = None


class ShownStep(Record, frozen=True, kw_only=True):
    """One step, for people."""

    name: Annotated[str, meaning("its name")]
    do: Annotated[str, meaning("the word of its class")]
    is_fault: Annotated[bool, meaning("whether it was a fault")]
    effect: Annotated[Effect | None, meaning("as in steps.json")] = None


class VerdictFacts(Record, frozen=True, kw_only=True):
    """All figures."""

    release: Annotated[NamedRelease | None, meaning("the release under test, as in manifest.json")] = None
    starts_on: Annotated[NamedRelease | None, meaning("as in manifest.json")] = None
    seed: Annotated[int | None, meaning("as in manifest.json")] = None
    plugins: Annotated[
        tuple[UsedPlugin, ...],
        meaning("the plugins that judged, each as in manifest.json. A finding may be of one of their `kinds`"),
    ] = ()
    negative_control: Annotated[str | None, meaning("as in run.json")] = None
    complete: Annotated[bool | None, meaning("false = the run died half way")] = None
    records: Annotated[Totals | None, meaning("how many there were")] = None
    availability: Annotated[Availability | None, meaning("how long clients waited")] = None
    read_from_tier: Annotated[
        ReadFromTier | None, meaning("records that came from the remote tier; null without a tier")
    ] = None
    redelivered: Annotated[
        ByPlace,
        meaning(
            "by partition, how many offsets a group received again after it had processed them, because its member "
            "died before it committed them"
        ),
    ] = field(default_factory=dict)
    missed: Annotated[
        ByPlace, meaning("by partition, how many records were deleted or compacted before a group returned for them")
    ] = field(default_factory=dict)
    stopped: Annotated[
        ByPlace, meaning("by partition, how many readers refused to start anywhere but at their committed offset")
    ] = field(default_factory=dict)
    shown_undecided: Annotated[
        ByPlace, meaning("by partition, how many records of aborted transactions a group received")
    ] = field(default_factory=dict)
    deleted: Annotated[ByPlace, meaning("by partition, how many offsets were below the log start at the end")] = field(
        default_factory=dict
    )
    deleted_by: Annotated[
        dict[str, int],
        meaning(
            "by what deleted them, how many acknowledged records were deleted: the settings of retention with their "
            "values, such as `retention.ms=1000` or `compact,delete with retention.ms=1000`, "
            "`DeleteRecords`, `the end of tiered storage`, `compaction`, `the deletion of their topic`"
        ),
    ] = field(default_factory=dict)
    deleted_records: Annotated[
        int,
        meaning(
            "how many promised records were deleted as permitted and are in no finding, which those are that "
            "compaction removed"
        ),
    ] = 0
    read_back: Annotated[ReadBack | None, meaning("copies of the log that were read to the end")] = None
    returned: Annotated[ByPlace, meaning("by partition, how many deleted offsets are in the log again by design")] = (
        field(default_factory=dict)
    )
    unknown_outcomes: Annotated[ByPlace, meaning("by partition, how many sends have the outcome `unknown`")] = field(
        default_factory=dict
    )
    observations: Annotated[
        dict[str, int], meaning("by kind, isolation and name of a reader, how many records it received")
    ] = field(default_factory=dict)
    counts: Annotated[dict[str, dict[str, int]], meaning("by check, what else it counted, and how many")] = field(
        default_factory=dict
    )
    steps: Annotated[tuple[ShownStep, ...], meaning("the steps with their effects")] = ()

"""Known findings: a file of bugs that are open in released Kafka, each accepted by an owner until a date.

[[known]]
scenario = "kafka_17375"            # the exact name; wildcards are refused
kind = "not_recovered"              # the exact kind of finding
topic = "plain"                     # only findings in this topic; left out: in any topic, or in none
log = "is likely deleted"           # only with scenario = "episodes": a regular expression for a line in a log of the
                                    # brokers that has the partition of the finding, such as plain-0, or its group
first_release = "3.0.0"             # of Apache Kafka, both ends included; -rcN and -SNAPSHOT count as the release
last_release = "4.4.0"
records = 1                         # the most records, operations, nodes or differences in one try; more condemn
owner = "name or team"              # reviews the entry before it expires
reason = "one sentence"
link = "https://..."                # http or https
failed = 2                          # the rate that was seen: 2 of 2 tries failed
tries = 2
expires = 2027-02-28                # the last day on which it holds, in UTC
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Annotated, ClassVar, Final, cast
from urllib.parse import urlsplit

from harness.model.documents.record import Record, meaning
from harness.model.errors import BadInput
from harness.model.finding import kind_of, kinds
from harness.model.hints import hint, refuse_unknown
from harness.model.user_files import TEXT_MAX, read_bytes, reason
from harness.model.version import numbers_of

SHIPPED: Final = "shipped"  # in the place of a file: the list of this harness
EPISODES: Final = "episodes"  # in the place of a scenario: every generated one, whose log shows the cause
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_RELEASE: Final = re.compile(r"\d{1,6}\.\d{1,6}\.\d{1,6}")
_TESTED: Final = re.compile(r"\d{1,6}\.\d{1,6}\.\d{1,6}(-rc\d+|-SNAPSHOT)?")
_RECORDS_MAX: Final = 10**12


class KnownFinding(Record, frozen=True, kw_only=True):
    """One entry of a file of known findings."""

    scenario: Annotated[str, meaning("the exact name of the scenario")]
    kind: Annotated[str, meaning("the exact kind of finding")]
    topic: Annotated[str | None, meaning("only findings in this topic; null = in any topic, or in none")] = None
    log: Annotated[
        str | None,
        meaning(
            "of generated episodes: only where a line in a log of the brokers matches this regular expression and has "
            "the partition or the group of the finding; null = of one scenario, whatever the logs say"
        ),
    ] = None
    first_release: Annotated[str, meaning("the first version of Apache Kafka that has it")]
    last_release: Annotated[str, meaning("the last version of Apache Kafka that has it")]
    records: Annotated[int, meaning("the most records, operations, nodes or differences in one try; more condemn")]
    owner: Annotated[str, meaning("the person or team that reviews the entry before it expires")]
    reason: Annotated[str, meaning("why it is accepted, in one sentence")]
    link: Annotated[str, meaning("the address of the report")]
    failed: Annotated[int, meaning("how many of `tries` showed it when the entry was written")]
    tries: Annotated[int, meaning("how often the scenario was tried then")]
    expires: Annotated[str, meaning("the last day on which the entry holds, in UTC, as YYYY-MM-DD")]

    whole: ClassVar[tuple[str, ...]] = ("records", "failed", "tries")
    optional: ClassVar[tuple[str, ...]] = ("topic", "log")

    @property
    def title(self) -> str:
        """Such as "lost in kafka_20734, topic half"."""
        return f"{self.kind} in {self.scenario}" + (f", topic {self.topic}" if self.topic else "")

    @property
    def terms(self) -> str:
        """Its limits and its owner, such as "at most 20 in one try, Kafka 4.3.0 to 4.3.1, ..."."""
        return (
            f"at most {self.records:,} in one try, Kafka {self.first_release} to {self.last_release}, "
            f"seen in {self.failed} of {self.tries} tries, owner {self.owner}, expires {self.expires}"
        )

    def expired(self, day: date) -> bool:
        """Whether the entry holds no more on that day."""
        return day > date.fromisoformat(self.expires)

    def covers(self, release: str | None) -> bool:
        """Whether a release is in the range. Builds of vendors and unknown versions are in none."""
        if release is None or not _TESTED.fullmatch(release):
            return False
        return numbers_of(self.first_release) <= numbers_of(release) <= numbers_of(self.last_release)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFile:
    """The entries of one file. sha256: of its bytes, as hexadecimal digits. day: on which they are applied, in UTC."""

    file: str
    sha256: str
    entries: tuple[KnownFinding, ...]
    day: date


def read_known(file: Path | str, day: date | None = None) -> KnownFile:
    """Reads a file of known findings, or the shipped one. BadInput, in one sentence, if anything in it is wrong.

    day: today in UTC by default.
    """
    where = f"known findings {file}"
    try:
        content = _shipped() if str(file) == SHIPPED else read_bytes(Path(file), TEXT_MAX)
        text = content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as refused:
        raise BadInput(
            f"{where}: cannot be read ({reason(refused)}): give a TOML file, or the word {SHIPPED}"
        ) from None
    try:
        plain = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where}: not valid TOML: {error}") from None
    refuse_unknown(plain, ["known"], where, "key")
    tables = plain.get("known")
    if not isinstance(tables, list) or not tables:
        raise BadInput(f"{where}: it has no entry; write each one as a table [[known]], or leave --known out")
    entries = tuple(_entry(table, f"{where}: entry {number}") for number, table in enumerate(tables, 1))
    _refuse_overlaps(entries, where)
    return KnownFile(
        file=str(file),
        sha256=hashlib.sha256(content).hexdigest(),
        entries=entries,
        day=day or datetime.now(UTC).date(),
    )


def _shipped() -> bytes:
    return files("harness").joinpath("known.toml").read_bytes()


def _entry(table: object, where: str) -> KnownFinding:
    if not isinstance(table, dict):
        raise BadInput(f"{where}: it is not a table; write it as [[known]]")
    fields = KnownFinding.__struct_fields__
    refuse_unknown(table, fields, where, "key")
    if missing := [name for name in fields if name not in table and name not in KnownFinding.optional]:
        raise BadInput(f"{where}: {missing[0]!r} is missing")
    for name, value in table.items():
        _check_type(name, value, where)
    entry = KnownFinding(**{**cast(dict[str, str], table), "expires": table["expires"].isoformat()})
    _check(entry, where)
    return entry


def _check_type(name: str, value: object, where: str) -> None:
    if name == "expires":
        if not isinstance(value, date) or isinstance(value, datetime):
            raise BadInput(f"{where}: expires = {value!r} is not a date; write it without quotes, as 2027-02-28")
    elif name in KnownFinding.whole:
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _RECORDS_MAX:
            raise BadInput(f"{where}: {name} is not a whole number from 1 to {_RECORDS_MAX}")
    elif not isinstance(value, str) or not value.strip():
        raise BadInput(f"{where}: {name} is not a text, or it is empty")


def _check(entry: KnownFinding, where: str) -> None:
    if not _NAME.fullmatch(entry.scenario):
        raise BadInput(f"{where}: scenario {entry.scenario!r} is not the name of one scenario; wildcards are refused")
    try:
        kind_of(entry.kind)
    except ValueError:
        known = [kind.value for kind in kinds()]
        raise BadInput(f"{where}: there is no kind of finding {entry.kind!r}{hint(entry.kind, known)}") from None
    if (entry.scenario == EPISODES) != (entry.log is not None):
        raise BadInput(
            f'{where}: scenario = "{EPISODES}" and log belong together: the name of a generated scenario says nothing '
            "of the cause, and a line of a log does"
        )
    try:
        re.compile(entry.log or "")
    except re.error as error:
        raise BadInput(f"{where}: log = {entry.log!r} is no regular expression ({error}); mend it") from None
    if entry.topic is not None and not _TOPIC.fullmatch(entry.topic):
        raise BadInput(f"{where}: topic {entry.topic!r} is not the name of one topic; wildcards are refused")
    for name, version in (("first_release", entry.first_release), ("last_release", entry.last_release)):
        if not _RELEASE.fullmatch(version):
            raise BadInput(f"{where}: {name} = {version!r} is not a version with three numbers, such as 4.4.0")
    if numbers_of(entry.first_release) > numbers_of(entry.last_release):
        raise BadInput(f"{where}: first_release {entry.first_release} is after last_release {entry.last_release}")
    if entry.failed > entry.tries:
        raise BadInput(f"{where}: failed = {entry.failed} is more than tries = {entry.tries}")
    _check_link(entry.link, where)


def _check_link(link: str, where: str) -> None:
    try:
        parts = urlsplit(link)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and link.isprintable() and " " not in link
    except ValueError:
        usable = False
    if not usable:
        raise BadInput(f"{where}: link {link!r} is not an address that begins with https:// or http://")


def _refuse_overlaps(entries: Sequence[KnownFinding], where: str) -> None:
    """The limits of two entries for one finding would add up, and no owner has accepted the sum."""
    for (first, one), (second, other) in combinations(enumerate(entries, 1), 2):
        same = (one.scenario, one.kind, one.log) == (other.scenario, other.kind, other.log)
        topics = one.topic is None or other.topic is None or one.topic == other.topic
        apart = numbers_of(one.last_release) < numbers_of(other.first_release) or numbers_of(
            other.last_release
        ) < numbers_of(one.first_release)
        if same and topics and not apart:
            raise BadInput(
                f"{where}: entries {first} and {second} match the same findings ({one.title}); make them one entry"
            )

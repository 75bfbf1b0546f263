"""Links for the sources that a rule cites: Kafka's documentation, improvement proposals (KIP), and issues (KAFKA)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

_DOCUMENTATION: Final = "https://kafka.apache.org/documentation/"
# The address of a wiki page contains the title of the proposal, so the link is a search for its number.
_PROPOSALS: Final = "https://cwiki.apache.org/confluence/dosearchsite.action?queryString="
_ISSUES: Final = "https://issues.apache.org/jira/browse/"
_CHAPTERS: Final = {
    "balancing leadership": "basic_ops_leader_balancing",
    "delivery semantics": "semantics",
    "graceful shutdown": "basic_ops_restarting",
    "log compaction": "compaction",
    "replication": "replication",
    "last replica standing": "",
}
_PRODUCERS: Final = frozenset({"acks", "retries", "max.in.flight.requests.per.connection", "transactional.id"})
_CONSUMERS: Final = frozenset({"auto.offset.reset"})
_BROKERS: Final = ("offsets.", "producer.id.", "transactional.id.", "log.", "group.")
_NAMED: Final = re.compile(r"\b(KIP-\d+|KAFKA[-_]\d+)\b", re.IGNORECASE)
_PART: Final = re.compile(r"KIP-\d+|Kafka documentation|[^;,]+")


def links(source: str) -> Iterator[tuple[str, str | None]]:
    """Yields the parts of a source with their addresses; None = text without a link."""
    for part in _PART.findall(source):
        words = part.strip()
        if words.startswith("KIP-"):
            yield words, _PROPOSALS + words
        elif words.startswith("KAFKA-"):
            yield words, _ISSUES + words
        elif words == "Kafka documentation":
            yield words, _DOCUMENTATION
        elif words in _CHAPTERS:
            yield words, f"{_DOCUMENTATION}#{_CHAPTERS[words]}" if _CHAPTERS[words] else None
        elif "." in words or words in _PRODUCERS:
            yield words, f"{_DOCUMENTATION}#{_kind(words)}configs_{words}"
        elif words:
            yield words, None


def issues_in(texts: Iterable[str]) -> list[tuple[str, str]]:
    """The improvement proposals and issues that texts name, each once, with their addresses."""
    named = [found[0].upper().replace("_", "-") for text in texts for found in _NAMED.finditer(text)]
    each = [pair for name in dict.fromkeys(named) for pair in links(name)]
    return [(words, address) for words, address in each if address is not None]


def _kind(setting: str) -> str:
    if setting in _PRODUCERS:
        return "producer"
    if setting in _CONSUMERS:
        return "consumer"
    return "broker" if setting.startswith(_BROKERS) else "topic"

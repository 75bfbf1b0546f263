"""Known findings in words: those that were met with their entries, and the entries that were not needed."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from harness.evidence.gate import GateSummary
from harness.model.known_findings import KnownFinding
from reports.terminal import Line

UNUSED_SHOWN: Final = 3


def matched_lines(summary: GateSummary) -> list[str]:
    """One sentence for each entry that covers findings, with what was met in each try."""
    if summary.known is None:
        return []
    met: defaultdict[KnownFinding, list[str]] = defaultdict(list)
    for match in summary.known.matched:
        met[match.entry].append(f"{match.records:,} in {match.bundle}")
    return [f"{e.title}: {', '.join(found)}; {e.reason} {e.link} ({e.terms})" for e, found in met.items()]


def unused_lines(summary: GateSummary) -> list[str]:
    """One sentence for each entry that covers nothing, or not everything that it names."""
    known = summary.known
    return [] if known is None else [f"{one.entry.title}: {one.why}; {one.entry.link}" for one in known.unused]


def scenario_lines(summary: GateSummary, scenario: str) -> list[str]:
    """The sentences about one scenario, such as for its test case."""
    known = summary.known
    if known is None:
        return []
    met = [match for match in known.matched if match.entry.scenario == scenario]
    return [
        *(f"known finding: {m.entry.title}: {m.records:,} in {m.bundle}; {m.entry.reason} {m.entry.link}" for m in met),
        *(f"not a known finding: {u.entry.title}: {u.why}" for u in known.unused if u.entry.scenario == scenario),
    ]


def terminal_lines(summary: GateSummary) -> list[Line]:
    """For the terminal: a line for each entry that was met, and one line for those that were not."""
    lines = [(f"  known: {text}", "yellow") for text in matched_lines(summary)]
    if unused := unused_lines(summary):
        more = f"; and {len(unused) - UNUSED_SHOWN} more in gate.json" if len(unused) > UNUSED_SHOWN else ""
        lines.append((f"  known, but not met or not enough: {'; '.join(unused[:UNUSED_SHOWN])}{more}", "dim"))
    return lines

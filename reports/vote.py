"""Two lines for a vote on a release, as they are written to dev@kafka.apache.org: the vote, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.evidence.gate import PASS_WITH_KNOWN, GateSummary, backends_and_duration
from harness.model.verdict import Status, Verdict
from reports.review.content import doubts, incidents
from reports.summary import counted, headline_lines, score_lines, status_of
from reports.terminal import clean

_VOTES: Final = {Status.PASS: "+1", Status.INCONCLUSIVE: "0", Status.FAIL: "-1"}
_TEXT_MAX: Final = 600


def vote_lines(
    summary: GateSummary, verdicts: Mapping[str, Verdict], without: Mapping[str, str], *, gate: bool = True
) -> list[str]:
    """Returns the two lines. A part of a gate says of how many scenarios it is, and is no reason for a +1; nor is a
    night, which does not play the gate.

    gate: whether a gate says what it required; bundles alone do not.
    """
    status = status_of(summary, without)
    whole = gate and summary.night is None and set(summary.missing) <= {*summary.left_out, *summary.not_applicable}
    vote = _VOTES[Status.INCONCLUSIVE] if status is Status.PASS and not whole else _VOTES[status]
    headline = headline_lines(summary, verdicts, without)[0][0]
    seed = "" if summary.seed is None else f", seed {summary.seed}"
    played = f"{backends_and_duration(summary.backends, summary.took_s)}{seed}"
    first = f"{vote} (non-binding): kafka-durability says {headline}{played}"
    return [_one(first), _one(_ground(summary, verdicts, without, status))]


def _ground(summary: GateSummary, verdicts: Mapping[str, Verdict], without: Mapping[str, str], status: Status) -> str:
    """The worst incident of a FAIL, the first doubt of an INCONCLUSIVE, the score of a PASS."""
    if status is Status.FAIL and (found := incidents(verdicts, condemning=True)):
        one = found[0]
        more = _more(len(found) - 1, "incident")
        place = f" of {one.where}" if one.where else ""
        return f"{one.kind} in {one.scenario}: {one.amount}{place}{f', {one.when}' if one.when else ''}{more}"
    if status is Status.INCONCLUSIVE:
        if found_doubts := doubts(verdicts):
            first = found_doubts[0]
            more = _more(len(found_doubts) - 1, "doubt")
            return f"in {first.scenario}: {first.texts[0]}{more}"
        texts = [text for text, _ in headline_lines(summary, verdicts, without)]
        return texts[1] if len(texts) > 1 else "nothing was judged"
    score = score_lines(counted(summary, verdicts).values())
    texts = [text.strip() for text, _ in score[:2]]
    if summary.known is not None and summary.word == PASS_WITH_KNOWN:
        links = dict.fromkeys(match.entry.link for match in summary.known.matched)
        texts.insert(0, f"known findings: {', '.join(links)}")
    return "; ".join(texts) or "no score"


def _more(count: int, word: str) -> str:
    return f"; and {count} more {word}{'' if count == 1 else 's'}" if count else ""


def _one(text: str) -> str:
    said = " ".join(clean(text).split())
    return said if len(said) <= _TEXT_MAX else f"{said[:_TEXT_MAX]} ..."

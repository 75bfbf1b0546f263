"""Unknown words of a user are refused, with the nearest word that is known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from harness.model.errors import BadInput


def refuse_unknown(given: Iterable[str], known: Iterable[str], where: str, noun: str) -> None:
    """BadInput on the first of `given` that is not known, with the nearest known word."""
    known = sorted(known)
    for word in given:
        if word not in known:
            raise BadInput(f"{where}: unknown {noun} {word!r}{hint(word, known)}")


def hint(word: str, known: Iterable[str]) -> str:
    """'; did you mean ...?', or the list of known words if none is near."""
    known = sorted(known)
    near = get_close_matches(word, known, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known are {', '.join(known)}" if known else "; there are none"

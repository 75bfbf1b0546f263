"""The share of its machine and of the network that the auditor may use: --budget cpu=5%,mem=64MiB,bytes_s=1MiB."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from harness.model.errors import BadInput

_FORM: Final = "give it as cpu=5%,mem=64MiB,bytes_s=1MiB; each part may be left out"
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MEMORY_MIN: Final = 24 << 20  # an auditor of an empty cluster has this much


@dataclass(frozen=True, slots=True)
class BudgetOption:
    """cpu: the share of one processor. memory_bytes: resident. bytes_s: of the answers to looks; None = no limit."""

    cpu: float = 0.05
    memory_bytes: int = 64 << 20
    bytes_s: int | None = None

    def __str__(self) -> str:
        network = "" if self.bytes_s is None else f", {size_text(self.bytes_s)} a second of answers"
        return f"{100 * self.cpu:.3g} % of a processor, {size_text(self.memory_bytes)} of memory{network}"


def budget_of(text: str | None, where: str = "--budget") -> BudgetOption:
    """The budget that the user gave, with defaults for parts that are left out. BadInput for anything else."""
    found: dict[str, float | int] = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name not in _PARTS or not equals:
            raise BadInput(f"{where} {text!r}: {part.strip()!r} is none of {', '.join(_PARTS)}; {_FORM}")
        if name in found:
            raise BadInput(f"{where} {text!r}: {name} is given twice; {_FORM}")
        number = _PARTS[name](value)
        if number is None:
            raise BadInput(f"{where} {text!r}: {value!r} is no value of {name}; {_FORM}")
        found[name] = number
    if "mem" in found and found["mem"] < _MEMORY_MIN:
        raise BadInput(f"{where} {text!r}: mem is too small; give {size_text(_MEMORY_MIN)} or more")
    default = BudgetOption()
    bytes_s = found.get("bytes_s")
    return BudgetOption(
        float(found.get("cpu", default.cpu)),
        int(found.get("mem", default.memory_bytes)),
        None if bytes_s is None else int(bytes_s),
    )


def size_text(size_bytes: float) -> str:
    """A number of bytes as people say it: 64 MiB."""
    for unit, of in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= of:
            return f"{size_bytes / of:.3g} {unit}"
    return f"{size_bytes:.0f} B"


def _percent(text: str) -> float | None:
    found = re.fullmatch(r"(\d{1,4}(?:\.\d{1,6})?)%", text)
    share = float(found[1]) / 100 if found else 0.0
    return share if share > 0 else None


def _size(text: str) -> int | None:
    found = re.fullmatch(r"(\d{1,12})(?:([KMG])iB)?", text)
    size_bytes = int(found[1]) * _UNITS[found[2] or ""] if found else 0
    return size_bytes if size_bytes > 0 else None


_PARTS: Final[Mapping[str, Callable[[str], float | int | None]]] = {"cpu": _percent, "mem": _size, "bytes_s": _size}

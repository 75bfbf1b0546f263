"""Every plant: imports the modules that register them, which are all modules `of_...` of this package."""

from __future__ import annotations

import importlib
import pkgutil

from suites import planted
from suites.planted.plants import PLANTS

__all__ = ["PLANTS"]

for _found in pkgutil.iter_modules(planted.__path__):
    if _found.name.startswith("of_"):
        importlib.import_module(f"{planted.__name__}.{_found.name}")

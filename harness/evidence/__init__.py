"""The evidence bundle: written while a run goes on, sealed, and the only thing that a verdict rests on."""

from harness.evidence.bundle import Bundle
from harness.evidence.writer import BundleWriter, TableWriter

__all__ = ["Bundle", "BundleWriter", "TableWriter"]

"""The evidence bundle: written during a run, then sealed. A verdict rests on nothing else."""

from harness.evidence.bundle import Bundle
from harness.evidence.writer import BundleWriter, TableWriter

__all__ = ["Bundle", "BundleWriter", "TableWriter"]

"""The verifier: judges evidence bundles with Spark, without any broker."""

from harness.verify.judge import judge

__all__ = ["judge"]

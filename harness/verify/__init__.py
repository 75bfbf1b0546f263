"""The verifier: from an evidence bundle to a verdict, in Spark, with no broker near."""

from harness.verify.judge import judge

__all__ = ["judge"]

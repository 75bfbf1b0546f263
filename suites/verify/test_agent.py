"""The verdict on a run whose nodes had an agent in their JVMs says so, because a finding may be due to it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from suites.verify.history import History
from suites.verify.judging import verdicts


def test_a_run_with_an_agent_has_a_note_and_another_has_none(spark: SparkSession) -> None:
    with_it, without = History("AAA", name="with an agent").build(), History("AAA", name="without").build()
    with_it.manifest["agent"] = "Byteman 4.0.26"
    noted, plain = verdicts(spark, [with_it, without])
    assert noted.notes[0] == (
        "the nodes ran with an agent (Byteman 4.0.26) in their JVMs; confirm a finding without it"
    )
    assert not any("agent" in note for note in plain.notes)
    assert noted.status == plain.status

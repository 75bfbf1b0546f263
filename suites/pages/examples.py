"""--out folders of gates that the pages of this suite are made from."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from harness.evidence.gate import GateSummary, Try, decided, write_gate
from harness.evidence.verdicts import read_verdict
from harness.model.documents.manifest import NamedRelease, UsedPlugin
from harness.model.documents.steps import Effect
from harness.model.documents.verdict_facts import ShownStep, Totals
from harness.model.doubt_names import DoubtOrigin
from harness.model.finding import Finding, Kind, OwnKind
from harness.model.verdict import Doubt, Status, Verdict
from suites.unit.evidence_examples import judged, lost, verdict
from suites.unit.reports.timeline_examples import position, send, step, write_run, write_steps, write_table

RELEASE: Final = NamedRelease(
    version="4.3.1", commit="abc123", source="Maven Central https://repo1.maven.org/maven2", kafka="4.3.1"
)
FAIL_EXAMPLE: Final = Path(__file__).parents[1] / "unit" / "reports" / "fail_example"
MANY: Final = 200
MIB: Final = 1 << 20
# The worst text in a topic name or an exception: markup, scripts, colours of a terminal, control characters.
HOSTILE: Final = (
    "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
    '<a href="javascript:window.hacked = 3">\x1b[31mred\x1b[0m\x00\x07\u202e{{ 7 * 7 }}'
)


def gate(out: Path, *verdicts: Verdict, required: Sequence[str] = ()) -> Path:
    """A gate with these verdicts, each with the tables of a run of 4 s."""
    for one in verdicts:
        write_run(judged(out / one.scenario, with_plugin(one)))
        read_verdict(out / one.scenario)  # else the page would say that it was not judged, and show nothing of it
    results = tuple(decided(v.scenario, [Try(bundle=v.scenario, status=v.status)]) for v in verdicts)
    names = (*(v.scenario for v in verdicts), *required)
    write_gate(out, GateSummary(required=names, results=results, release=RELEASE, seed=7, took_s=61.0))
    return out


def with_plugin(given: Verdict) -> Verdict:
    """The verdict, with the plugin that introduces those kinds of its findings that are not built in."""
    own = {str(one.kind): one.kind.meaning for one in given.findings if isinstance(one.kind, OwnKind)}
    plugin = UsedPlugin(name="acme", files={}, faults=(), scenarios=(), checks={}, kinds=own)
    return replace(given, facts=replace(given.facts, plugins=(plugin,))) if own else given


def in_fault(given: Verdict, name: str = "kill_leader", do: str = "kill") -> Verdict:
    """The verdict of a scenario with one fault, and with counts of records."""
    shown = ShownStep(name=name, do=do, is_fault=True, effect=Effect(held=True, because="its leader epoch rose"))
    records = Totals(attempted=32, acked=30, promised=30, refused=1, unknown=1)  # as `write_run` has them
    return replace(given, facts=replace(given.facts, steps=(shown,), records=records))


def passed(out: Path) -> Path:
    """A gate that passed."""
    return gate(out, in_fault(verdict("calm", Status.PASS)), in_fault(verdict("leader_killed", Status.PASS)))


def every_kind() -> tuple[Finding, ...]:
    """A finding of each kind and of one of a plugin, in different partitions, each with another number of records."""
    kinds = (*Kind, OwnKind("late_ack", "A record was acknowledged more than 12 s after its send."))
    return tuple(
        replace(lost(1001 + 7 * number, first=number), kind=kind, partition=number % 6)
        for number, kind in enumerate(kinds)
    )


def failed(out: Path) -> Path:
    """A gate with a finding of each kind, permitted ones, doubts, and a scenario that was not reached."""
    allowed = (lost(31, excused_by="acks=1"), replace(lost(17), explained_by="the client gave up"))
    broken = in_fault(verdict("broken", Status.FAIL, *every_kind(), *allowed))
    doubts = (Doubt("client_hung", "a client hangs", DoubtOrigin.RELEASE), Doubt("client_hung", "a client hangs"))
    durable = 100_000 - sum(one.count for one in every_kind())
    assert broken.score is not None
    score = replace(broken.score, acked=100_000, durable_raw=durable)
    broken = replace(broken, promised=100_000, durable=durable, score=score)
    broken = replace(broken, doubts=doubts, notes=("a note",), not_covered=("power loss", "a slow disk"))
    return gate(out, broken, in_fault(verdict("calm", Status.PASS)), required=("left",))


def example(out: Path) -> Path:
    """The FAIL in the README: a real run on a broken broker, without its tables."""
    shutil.copytree(FAIL_EXAMPLE, out)
    (bundle := out / "kafka_20734").mkdir()
    (out / "verdict.json").rename(bundle / "verdict.json")
    return out


def inconclusive(out: Path) -> Path:
    """A gate with a doubt."""
    return gate(out, in_fault(verdict("slow", Status.INCONCLUSIVE)), in_fault(verdict("calm", Status.PASS)))


def many(out: Path) -> Path:
    """More scenarios than a gate has, each with 20 permitted findings. One has 100,000 records."""
    found = [lost(1 + n % 3, first=1000 * n, excused_by="acks=1") for n in range(20)]
    made = [in_fault(verdict(f"scenario_{n}", Status.PASS, *found), do=f"fault_{n % 40}") for n in range(MANY)]
    gate(out, *made)
    write_table(out / "scenario_0", "ledger", [send(i / 500, (i % 97) / 100) for i in range(100_000)], part="two-0")
    return out


def damaged(out: Path) -> Path:
    """A gate in which each bundle lacks another part of the evidence."""
    names = ("cut", "empty", "garbled", "stepless", "torn")
    gate(out, *(in_fault(verdict(name, Status.PASS)) for name in names), in_fault(verdict("whole", Status.PASS)))
    history = out / "cut" / "history.json"
    history.write_bytes(history.read_bytes()[:-40])
    for table in ("ledger", "observations", "positions"):
        shutil.rmtree(out / "empty" / table)
    (out / "empty" / "history.json").unlink()
    (out / "garbled" / "steps.json").write_text('[{"name": 1}]', encoding="utf-8")
    (out / "stepless" / "steps.json").unlink()
    (part,) = (out / "torn" / "ledger").glob("*.parquet")
    part.write_bytes(part.read_bytes()[:100])
    return out


def hostile(out: Path) -> Path:
    """A gate with hostile text in each place, and with lines of a megabyte."""
    long = replace(lost(3), kind=Kind.CORRUPT, detail="x" * MIB, topic="y" * MIB)
    foreign = replace(lost(5), topic=HOSTILE, detail=HOSTILE, contract=HOSTILE, step=HOSTILE, reader=HOSTILE)
    excused = replace(foreign, excused_by=HOSTILE, kind=OwnKind("own", HOSTILE))
    given = in_fault(verdict("hostile", Status.FAIL, foreign, long, excused), name=HOSTILE, do=HOSTILE)
    noted = replace(given, doubts=(Doubt("client_hung", HOSTILE),), notes=(HOSTILE, "z" * MIB), not_covered=(HOSTILE,))
    gate(out, noted)
    effect = {"held": False, "because": HOSTILE}
    write_steps(out / "hostile", step(HOSTILE, HOSTILE, 1.2, 2.5, error=HOSTILE + "w" * MIB, effect=effect))
    write_table(out / "hostile", "ledger", [send(1.5, 0.1, topic=HOSTILE)], part="two-0")
    write_table(out / "hostile", "positions", [position(2, 1, 5, topic=HOSTILE)], part="two-0")
    return out

"""Which runs are driven a second time, and what their tries come to together."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.commands import gate
from harness.commands.gate import _Attempt, _attempt, _made, _result, try_again
from harness.commands.verify import BatchVerdicts
from harness.model.errors import BadInput, HarnessFailure
from harness.model.verdict import Doubt, Status
from suites.unit.evidence_examples import verdict

HUNG = Doubt(name="client_hung", text="send_offsets_to_transaction hung")
REFUSED = Doubt(name="producer_fatal", text="producer plain was told OUT_OF_ORDER_SEQUENCE_NUMBER")
SENT_BACK = Doubt(name="reader_reset", text="reader committed was sent back to the log's start")


def test_what_the_machine_or_the_client_spoiled_is_tried_again() -> None:
    assert try_again([HUNG])


@pytest.mark.parametrize("reported", [REFUSED, SENT_BACK])
def test_what_a_broker_told_a_client_is_not_hidden_by_a_second_try(reported: Doubt) -> None:
    assert not try_again([reported])
    assert not try_again([HUNG, reported])


def test_a_run_without_doubts_is_not_tried_again() -> None:
    assert not try_again([])


def of_tries(*names: str) -> _Attempt:
    driven: Any = tuple(SimpleNamespace(bundle=Path(name)) for name in names)
    return _Attempt("killed", driven)


@pytest.mark.parametrize(
    ("first", "status", "bundle", "error"),
    [(Status.INCONCLUSIVE, None, "try-2", "we broke"), (Status.FAIL, Status.FAIL, "try-1", None)],
)
def test_a_try_that_could_not_be_judged_is_no_pass_and_hides_no_fail(
    first: Status, status: Status | None, bundle: str, error: str | None
) -> None:
    each = BatchVerdicts(verdicts={Path("try-1"): verdict("killed", first)}, crashed={Path("try-2"): "we broke"})
    result = _result(of_tries("try-1", "try-2"), each)
    assert (result.status, result.bundle, result.error) == (status, bundle, error)


def test_the_last_try_counts_when_all_were_judged() -> None:
    each = BatchVerdicts(
        verdicts={
            Path("try-1"): verdict("killed", Status.INCONCLUSIVE),
            Path("try-2"): verdict("killed", Status.PASS),
        }
    )
    result = _result(of_tries("try-1", "try-2"), each)
    assert (result.status, result.error, result.earlier) == (Status.PASS, None, ("try-1",))


def test_a_place_for_evidence_that_went_away_meanwhile_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BadInput, match=r"below cannot be made \(Not a directory\): give --out a folder"):
        _made(tmp_path / "file" / "below")


def shelf_of(retired: list[str]) -> Any:
    return SimpleNamespace(take=lambda _: "a cluster", retire=lambda: retired.append("retired"))


@pytest.mark.parametrize("error", [BadInput("step x: no such node"), HarnessFailure("we broke")])
def test_a_run_that_breaks_off_is_a_row_of_the_gate_and_keeps_what_it_saw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    out, retired = tmp_path / "mine", list[str]()

    def broken_off(*_: Any) -> None:
        out.mkdir()
        raise error

    monkeypatch.setattr(gate, "drive", broken_off)
    task: Any = SimpleNamespace(scenario=SimpleNamespace(name="mine"), out=out, negative_control=None)
    progress: Any = None
    assert _attempt(task, shelf_of(retired), progress).error == str(error)
    assert out.exists()
    assert retired == ["retired"]

"""Which runs are driven a second time."""

from __future__ import annotations

import pytest

from harness.model.verdict import Doubt
from harness.run import try_again

HUNG = Doubt(name="client_hung", text="send_offsets_to_transaction hung")
REFUSED = Doubt(name="producer_fatal", text="producer plain was told OUT_OF_ORDER_SEQUENCE_NUMBER")
SENT_BACK = Doubt(name="reader_reset", text="reader committed was sent back to the log's start")


def test_what_the_machine_or_the_client_spoiled_is_tried_again() -> None:
    assert try_again([HUNG])


@pytest.mark.parametrize("told", [REFUSED, SENT_BACK])
def test_what_a_broker_told_a_client_is_not_hidden_by_a_second_try(told: Doubt) -> None:
    assert not try_again([told])
    assert not try_again([HUNG, told])


def test_a_run_without_doubts_is_not_tried_again() -> None:
    assert not try_again([])

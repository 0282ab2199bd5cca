from __future__ import annotations

import pytest

from server.core.batching import StreamRate, Waiting
from server.core.batching.due import due_s

RATE = StreamRate(20.0, executed_steps=5, horizon=10)


@pytest.mark.parametrize(("rows", "due"), [(None, 0.25), (0, 0.25), (3, 0.15), (10, 0.5)])
def test_a_chunk_is_due_when_the_rows_run_out(rows: int | None, due: float) -> None:
    item = Waiting(0, 0, 0.0, None, None, 0, rows)
    assert due_s(item, RATE) == pytest.approx(due)


def test_a_robot_that_claims_more_rows_than_a_chunk_has_does_not_stay_last_for_ever() -> None:
    item = Waiting(0, 0, 0.0, None, None, 0, 2**32 - 1)
    assert due_s(item, RATE) == pytest.approx(0.5)

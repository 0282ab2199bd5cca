from __future__ import annotations

import json
from typing import Any

import pytest

from server.core.batching import STUDY_TABLE, LatencyRow, LatencyTable


def content(**changes: Any) -> dict[str, Any]:
    return {**STUDY_TABLE.to_json(), **changes}


def row(**changes: Any) -> dict[str, Any]:
    return {"batch": 1, "p50_s": 0.1, **changes}


def test_measured_batch_sizes_have_their_own_latency() -> None:
    assert [STUDY_TABLE.latency_s(size) for size in (1, 8, 64)] == [0.160, 0.249, 1.030]


def test_sizes_in_between_lie_on_the_line_between_their_neighbours() -> None:
    assert STUDY_TABLE.latency_s(7) == pytest.approx(0.160 + 6 / 7 * 0.089)
    assert STUDY_TABLE.latency_s(36) == pytest.approx((0.249 + 1.030) / 2)


def test_sizes_below_the_smallest_measured_take_as_long_as_that() -> None:
    table = LatencyTable("p", "d", "f", "m", 0, 1, (LatencyRow(4, 0.2), LatencyRow(8, 0.3)))
    assert table.latency_s(1) == 0.2


@pytest.mark.parametrize("size", [0, 65])
def test_sizes_that_were_not_measured_are_refused_with_the_range(size: int) -> None:
    with pytest.raises(ValueError, match=rf"batch size {size} was not measured.*1 to 64"):
        STUDY_TABLE.latency_s(size)


def test_a_table_survives_a_file() -> None:
    assert LatencyTable.from_json(json.loads(json.dumps(STUDY_TABLE.to_json()))) == STUDY_TABLE


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ([], "a latency table is an object, not a list"),
        (content(format="other/1"), "format is 'other/1'; this version reads"),
        (content(colour="red"), "the table has unknown fields colour"),
        (content(policy=7), "policy is a int; it must be text"),
        (content(num_runs=0), "num_runs is 0; it must be a whole number, at least 1"),
        (content(num_warmups=True), "num_warmups is True"),
        (content(rows={}), "rows is a dict"),
        (content(rows=[]), "rows: empty"),
        (content(rows=[7]), r"rows\[0\] is a int"),
        (content(rows=[row(batch=0)]), r"rows\[0\].batch is 0"),
        (content(rows=[row(batch=1.5)]), r"rows\[0\].batch is 1.5"),
        (content(rows=[{"batch": 1}]), r"rows\[0\].p50_s is missing"),
        (content(rows=[row(p50_s=-1)]), r"rows\[0\].p50_s is -1; it must be seconds above 0"),
        (content(rows=[row(p50_s=float("nan"))]), r"rows\[0\].p50_s is nan"),
        (content(rows=[row(p99_s="slow")]), r"rows\[0\].p99_s is 'slow'"),
        (content(rows=[row(memory_bytes=-5)]), r"rows\[0\].memory_bytes is -5"),
        (content(rows=[row(speed=1)]), r"rows\[0\] has unknown fields speed"),
        (content(rows=[row(batch=4), row(batch=2)]), "batch 2 comes after batch 4"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(wrong: object, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        LatencyTable.from_json(wrong)

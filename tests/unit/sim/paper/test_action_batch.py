from __future__ import annotations

import pytest

from sim.paper.cases.action_batch import (
    capacity_rows,
    latency_rows,
    parts_row,
    slopes_note,
    throughput_rows,
)


def test_the_table_holds_the_studys_latencies_and_says_that_they_are_not_ours() -> None:
    rows = latency_rows()
    assert [(row.row, row.study, row.verdict) for row in rows] == [
        ("batch1", 0.160, "inside"),
        ("batch8", 0.249, "inside"),
        ("batch64", 1.030, "inside"),
    ]
    assert all("study's measurement" in row.note and row.kind == "computed" for row in rows)


def test_parts_and_throughput_agree_with_the_studys_own_arithmetic() -> None:
    assert parts_row().ours == pytest.approx(0.153)
    assert {row.verdict for row in (parts_row(), *throughput_rows())} == {"inside"}


def test_throughput_promises_more_robots_than_the_deadline_lets_in() -> None:
    ours = {(row.row, row.quantity): row.ours for row in capacity_rows()}
    assert ours["20Hz_D0.25s", "robots_by_throughput"] == 15
    assert ours["20Hz_D0.25s", "robots_by_deadline"] == 8
    assert ours["5Hz_D1.0s", "robots_by_deadline"] == 61


def test_the_note_gives_the_slopes_between_published_sizes() -> None:
    assert "12.7 ms, from 8 to 64 13.9 ms" in slopes_note()

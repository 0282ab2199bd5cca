"""The study's latency table beside the fitted one."""

from __future__ import annotations

import pytest

from sim.fleet.brain import cost_table, fit, latencies
from sim.paper.cases import brain_latency as case

MEASURED = latencies.from_json(cost_table.read(case.TABLE)["measured"])
COST = cost_table.load(case.TABLE)


def test_every_place_of_the_study_s_table_has_a_row_with_its_value():
    columns = {name: list(getattr(MEASURED, name)) for name in latencies.COLUMNS}
    rows = case.rows_of(MEASURED, columns)
    found = {(row.row, row.quantity): row.study for row in rows}
    assert found["context_40000", "ttft_evicted"] == 1.34
    assert found["context_215000", "call150_retained"] == 1.95
    assert len(rows) == 4 * 4 + 4
    assert {row.verdict for row in rows} == {"inside"}


def test_a_fit_that_is_off_by_a_tenth_is_outside():
    columns = {name: [1.1 * v for v in getattr(MEASURED, name)] for name in latencies.COLUMNS}
    rows = [r for r in case.rows_of(MEASURED, columns) if r.quantity.startswith("ttft")]
    assert {row.verdict for row in rows} == {"outside"}


def test_the_retained_cells_append_the_study_s_new_tokens():
    cells = case.cells(MEASURED, COST)
    assert [(c.num_prompt_tokens, c.earlier_tokens) for c in cells[3:5]] == [
        (215_000, 0),
        (43_300, 40_000),
    ]


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("index", [0, 4])
def test_a_turn_through_vllm_s_scheduler_takes_what_the_fit_assumes(index):
    pytest.importorskip("vllm", reason="vLLM is not installed; see `make setup`")
    cell = case.cells(MEASURED, COST)[index]
    timed = case.time_turn(cell)
    state = "retained" if cell.earlier_tokens else "evicted"
    expected = fit.predict(COST, MEASURED)
    assert timed.cached_tokens == cell.earlier_tokens // 784 * 784
    assert timed.first_token_s == pytest.approx(expected[f"ttft_{state}_s"][0])
    assert timed.call_s == pytest.approx(expected[f"call_{state}_s"][0])

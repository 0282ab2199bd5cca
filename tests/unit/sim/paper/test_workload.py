from __future__ import annotations

import json
from pathlib import Path

import pytest

from sim.fleet.workload.generator import generate
from sim.fleet.workload.trace import EpisodeTrace, TurnTrace
from sim.paper import study
from sim.paper.case import Workplace
from sim.paper.cases import three_clocks, workload


def _workplace(folder: Path, *, quick: bool = True) -> Workplace:
    return Workplace(folder, 1, lambda text: None, quick=quick, num_seeds=2)


def test_each_seed_is_in_the_rows_and_within_what_the_generator_holds() -> None:
    drawn = [generate(seed) for seed in range(2)]
    rows = [
        *workload.marginal_rows(drawn, clocks=False),
        *workload.marginal_rows(drawn, clocks=True),
        *workload.growth_rows(drawn),
    ]
    assert {row.verdict for row in rows} == {"inside"}
    assert all(len(row.per_seed) == 2 for row in rows)
    assert len({(row.row, row.quantity) for row in rows}) == len(rows)
    calls = next(row for row in rows if row.quantity == "input_tokens_per_call_p50")
    assert calls.study == study.value("workload/input_tokens_per_call/p50")


def test_the_two_cases_share_the_figures_out() -> None:
    drawn = [generate(0)]
    clocks = {row.row for row in workload.marginal_rows(drawn, clocks=True)}
    assert clocks == set(study.value("three_clocks_s"))
    assert clocks.isdisjoint(row.row for row in workload.marginal_rows(drawn, clocks=False))


def test_both_leave_rows_and_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    workload.run(_workplace(tmp_path))
    three_clocks.run(_workplace(tmp_path))
    for name, figure in (("workload", 2), ("three-clocks", 3)):
        content = json.loads((tmp_path / f"{name}.json").read_text())
        assert content["pictures"][0]["figure"] == figure
        assert (tmp_path / content["pictures"][0]["file"]).stat().st_size > 10_000


def test_without_a_run_the_recorded_rows_say_why() -> None:
    rows = three_clocks.recorded_rows((), "not in the quick set")
    assert {(row.verdict, row.note, row.variant) for row in rows} == {
        ("not run", "not in the quick set", three_clocks.RECORDED)
    }


def test_recorded_rows_are_measured_and_not_judged() -> None:
    turns = (TurnTrace(9, 1, 20, 4.0, 0.5), TurnTrace(9, 1, 0, 2.0, 0.5), TurnTrace(9, 1))
    rows = {
        (row.row, row.quantity): row
        for row in three_clocks.recorded_rows([EpisodeTrace("a", "f", turns)], "")
    }
    assert {row.verdict for row in rows.values()} == {"not judged"}
    assert {row.kind for row in rows.values()} == {"measured"}
    assert rows["env_step_gap", "p50"].ours == 0.5
    assert rows["brain_plus_wall_gap", "p50"].ours == 3.5
    assert rows["all", "zero_step_fraction"].ours == 0.5


def test_a_run_that_fails_costs_the_case_nothing_but_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("mujoco")
    monkeypatch.setattr(three_clocks, "TASKS", "no task")
    three_clocks.run(_workplace(tmp_path, quick=False))
    rows = json.loads((tmp_path / "three-clocks.json").read_text())["rows"]
    recorded = [row for row in rows if row["variant"]]
    assert {row["ours"] for row in recorded} == {None}
    assert all("exit code 2" in row["note"] for row in recorded)

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sim.fleet.workload.generator import generate
from sim.fleet.workload.marginals import Marginal, columns, marginals
from sim.fleet.workload.plans import CHUNK_STEPS
from sim.fleet.workload.suites import SUITES
from sim.fleet.workload.trace_file import read_traces, write_traces

SEEDS = range(20)
STUDY = json.loads((Path(__file__).parents[5] / "sim/paper/study.json").read_text())
#: Names of the study's figures that differ from ours.
RENAMED = {"env_advance_total": "env_advance_total_s"}


def _published() -> dict[tuple[str, str], float]:
    """Every number of the study's workload, by the row and the quantity it has here."""
    workload, clocks = STUDY["workload"], STUDY["three_clocks_s"]
    figures: dict[tuple[str, str], float] = {}
    for name in (
        "trajectories",
        "successes",
        "brain_calls",
        "action_tool_entries",
        "action_chunks",
        "brain_turns_per_action_tool_entry",
        "brain_turns_per_action_chunk",
        "brain_calls_per_sim_second",
        "full_prompt_over_new_tokens_p50",
        "output_tokens_per_call_p50",
    ):
        figures["all", name] = workload[name]
    figures["all", "env_advance_total"] = workload["env_advance_total_s"]
    for name in ("input_tokens_per_call", "images_per_call", "new_input_tokens_per_call"):
        for quantile, value in workload[name].items():
            figures["all", f"{name}_{quantile}"] = value
    names = {
        "brain_turns": "brain_turns_p50",
        "peak_context": "peak_context_p50",
        "total_input": "total_input_p50",
        "action_chunks": "action_chunks_p50",
        "env_advance_s": "env_advance_p50",
    }
    for suite, medians in workload["per_suite_medians"].items():
        figures[suite, "successes"] = medians["success"][0]
        for theirs, ours in names.items():
            figures[suite, ours] = medians[theirs]
    densities = workload["brain_calls_per_sim_second_by_suite_in_article_order"]
    for suite, density in zip(SUITES, densities, strict=True):
        figures[suite.study_name, "brain_calls_per_sim_second"] = density
    for clock, quantiles in clocks.items():
        for quantile in ("p50", "p90", "max"):
            if quantile in quantiles:
                figures[clock, quantile] = quantiles[quantile]
    gap = clocks["env_step_gap"]
    for name in ("intervals", "zero_step_intervals", "zero_step_fraction"):
        figures["all", name] = gap[name]
    return figures


def test_every_published_figure_is_compared_with() -> None:
    compared = {
        (row.row, row.quantity): row.study for row in marginals(generate(0)) if not row.derived
    }
    assert compared == _published()


@pytest.mark.parametrize("seed", SEEDS)
def test_every_published_figure_holds_within_3_percent(seed: int) -> None:
    off = [row for row in marginals(generate(seed)) if abs(row.difference or 0.0) > 0.03]
    assert off == []
    assert all(row.ours is not None for row in marginals(generate(seed)))


def test_counts_are_the_studys_exactly() -> None:
    exact = {
        "trajectories",
        "successes",
        "brain_calls",
        "action_tool_entries",
        "action_chunks",
        "intervals",
        "zero_step_intervals",
    }
    rows = [row for row in marginals(generate(3)) if row.quantity in exact]
    assert len(rows) == len(exact) + len(SUITES)
    assert [row.ours for row in rows] == [row.study for row in rows]


def test_contexts_grow_as_in_the_studys_figure() -> None:
    traces = generate(1)
    at_turn_5 = [trace.prompt_tokens[4] for trace in traces]
    assert 54_000 < np.median(at_turn_5) < 66_000
    assert all(a < b for trace in traces for a, b in pairwise(trace.prompt_tokens))
    assert max(trace.prompt_tokens[-1] for trace in traces if "10_swap" in trace.trace_id) > 180_000
    for trace in traces:
        late = np.array(trace.prompt_tokens[4:])
        straight = np.linspace(late[0], late[-1], len(late))
        assert np.abs(late - straight).max() < 0.2 * (late[-1] - late[0]) + 4000


def test_work_per_call_is_that_of_the_studys_sustained_run() -> None:
    # 700,000 computed prompt tokens a minute at 2.40 requests/s are 4,861 a call. Of a call's new
    # tokens those in the last, partly filled block of 784 are computed again at the next one.
    of = columns(generate(0))
    computed = of.new.mean() + 784 / 2
    assert computed == pytest.approx(700_000 / 60 / 2.40, rel=0.05)
    assert of.output.mean() == pytest.approx(27_000 / 60 / 2.40, rel=0.03)


def test_chunks_are_run_within_the_steps_that_follow_a_turn() -> None:
    for trace in generate(2):
        assert all(turn.chunks * CHUNK_STEPS <= turn.env_steps for turn in trace.turns)
        assert any(turn.chunks for turn in trace.turns)
        last = trace.turns[-1]
        assert (last.env_steps, last.chunks, last.wall_gap_s) == (0, 0, None)


def test_more_is_new_and_more_is_seen_after_a_gap_without_steps() -> None:
    pairs = [pair for seed in range(3) for t in generate(seed) for pair in pairwise(t.turns[4:])]
    after_look = [new for gap, new in pairs if gap.env_steps == 0]
    after_move = [new for gap, new in pairs if gap.env_steps > 0]
    assert len(after_look) > 500
    for of in ("new_tokens", "new_images"):
        looked = np.mean([getattr(turn, of) for turn in after_look])
        assert looked > 1.2 * np.mean([getattr(turn, of) for turn in after_move])


def test_a_seed_gives_the_same_episodes_again_and_another_seed_others() -> None:
    first = generate(5)
    generate.cache_clear()
    assert generate(5) == first
    assert generate(6) != first
    assert len({trace.trace_id for trace in first}) == 80


def test_the_episodes_are_a_trace_file(tmp_path: Path) -> None:
    write_traces(tmp_path / "t.jsonl", generate(0))
    assert read_traces(tmp_path / "t.jsonl") == generate(0)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="seed is -1"):
        generate(-1)


def test_traces_that_do_not_say_have_no_figure() -> None:
    assert Marginal("all", "x", "", 1.0, None).difference is None
    rows = {(row.row, row.quantity): row.ours for row in marginals([])}
    assert rows["brain_request_latency", "p50"] is None
    assert rows["all", "brain_turns_per_action_chunk"] is None
    assert rows["all", "brain_calls"] == 0

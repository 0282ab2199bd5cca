"""What the study says of its 80 episodes, measured on any traces: theirs, ours, difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sim.fleet.workload.suites import SUITES
from sim.fleet.workload.trace import EpisodeTrace


@dataclass(frozen=True)
class Marginal:
    """One published figure.

    Attributes:
        row: What it is of: "all", a suite of the study, or a clock.
        quantity: As in facts.json where it is there.
        unit: "" for a plain number.
        study: The study's.
        ours: Of the traces; None: they do not say.
        derived: The study does not print it; it follows from figures of its replay.
    """

    row: str
    quantity: str
    unit: str
    study: float
    ours: float | None
    derived: bool = False

    @property
    def difference(self) -> float | None:
        """Ours over the study's, less 1."""
        return None if self.ours is None else self.ours / self.study - 1


def _nothing() -> np.ndarray:
    return np.empty(0)


@dataclass(frozen=True)
class Columns:
    """Traces as arrays. A NaN is not known, or not there.

    Attributes:
        prompt, new, output, images, brain_s: Of every turn; images: in the whole prompt.
        env_s, wall_s: Of every interval between two turns.
        brain_before_s: Latency of the turn before each interval.
    """

    prompt: np.ndarray
    new: np.ndarray
    output: np.ndarray
    images: np.ndarray = field(default_factory=_nothing)
    brain_s: np.ndarray = field(default_factory=_nothing)
    env_s: np.ndarray = field(default_factory=_nothing)
    wall_s: np.ndarray = field(default_factory=_nothing)
    brain_before_s: np.ndarray = field(default_factory=_nothing)


def columns(traces: Sequence[EpisodeTrace]) -> Columns:
    """Every turn and every interval of some traces."""
    turns = [turn for trace in traces for turn in trace.turns]
    gaps = [(trace, i) for trace in traces for i in range(len(trace.turns) - 1)]
    return Columns(
        prompt=np.array([n for trace in traces for n in trace.prompt_tokens], dtype=float),
        new=np.array([turn.new_tokens for turn in turns], dtype=float),
        output=np.array([turn.output_tokens for turn in turns], dtype=float),
        images=np.array(
            [n for trace in traces for n in np.cumsum([t.new_images for t in trace.turns])],
            dtype=float,
        ),
        brain_s=np.array([_known(turn.brain_latency_s) for turn in turns]),
        env_s=np.array([trace.env_gap_s(i) for trace, i in gaps]),
        wall_s=np.array([_known(trace.turns[i].wall_gap_s) for trace, i in gaps]),
        brain_before_s=np.array([_known(trace.turns[i].brain_latency_s) for trace, i in gaps]),
    )


def marginals(traces: Sequence[EpisodeTrace]) -> list[Marginal]:
    """Every published figure of the workload and of its three clocks."""
    of = columns(traces)
    return [*_counts(traces, of), *per_call(of), *_per_suite(traces), *_clocks(of)]


def _counts(traces: Sequence[EpisodeTrace], of: Columns) -> list[Marginal]:
    turns = [turn for trace in traces for turn in trace.turns]
    entries = sum(turn.chunks > 0 for turn in turns)
    chunks = sum(turn.chunks for turn in turns)
    env_s = _env_total_s(traces)
    zero = int((of.env_s == 0).sum())
    rows = [
        ("trajectories", "", 80, len(traces)),
        ("successes", "", 74, sum(trace.success is True for trace in traces)),
        ("brain_calls", "", 1862, len(turns)),
        ("action_tool_entries", "", 216, entries),
        ("action_chunks", "", 1582, chunks),
        ("brain_turns_per_action_tool_entry", "", 8.62, _ratio(len(turns), entries)),
        ("brain_turns_per_action_chunk", "", 1.18, _ratio(len(turns), chunks)),
        ("env_advance_total", "s", 2309.05, env_s),
        ("brain_calls_per_sim_second", "1/s", 0.806, _ratio(len(turns), env_s)),
        ("intervals", "", 1782, len(of.env_s)),
        ("zero_step_intervals", "", 688, zero),
        ("zero_step_fraction", "", 0.386, _ratio(zero, len(of.env_s))),
    ]
    return [Marginal("all", name, unit, study, ours) for name, unit, study, ours in rows]


def per_call(of: Columns) -> list[Marginal]:
    """Published figures of tokens and pictures of a call."""
    rows = [
        ("input_tokens_per_call_p50", "tokens", 78_100, _quantile(of.prompt, 50)),
        ("input_tokens_per_call_p90", "tokens", 131_000, _quantile(of.prompt, 90)),
        ("input_tokens_per_call_max", "tokens", 214_700, _quantile(of.prompt, 100)),
        ("new_input_tokens_per_call_p50", "tokens", 3279, _quantile(of.new, 50)),
        ("new_input_tokens_per_call_p90", "tokens", 10_475, _quantile(of.new, 90)),
        ("full_prompt_over_new_tokens_p50", "", 25.5, _quantile(of.prompt / of.new, 50)),
        ("output_tokens_per_call_p50", "tokens", 144, _quantile(of.output, 50)),
        ("images_per_call_p50", "", 21, _quantile(of.images, 50)),
        ("images_per_call_max", "", 141, _quantile(of.images, 100)),
    ]
    printed = [Marginal("all", name, unit, study, ours) for name, unit, study, ours in rows]
    # 27,000 generated tokens a minute at 2.40 requests/s.
    mean_output = float(of.output.mean()) if len(of.output) else None
    return [
        *printed,
        Marginal("all", "output_tokens_per_call_mean", "tokens", 187.5, mean_output, derived=True),
    ]


def _per_suite(traces: Sequence[EpisodeTrace]) -> list[Marginal]:
    rows = []
    for suite in SUITES:
        own = [trace for trace in traces if trace.task_family == suite.family]
        name = suite.study_name
        calls = sum(len(trace.turns) for trace in own)
        successes = sum(trace.success is True for trace in own)
        rows += [
            Marginal(name, "successes", "", suite.successes, successes),
            *_medians(
                name,
                own,
                (
                    suite.turns,
                    suite.peak_context,
                    suite.total_input,
                    suite.chunks,
                    suite.env_advance_s,
                ),
            ),
            Marginal(
                name,
                "brain_calls_per_sim_second",
                "1/s",
                suite.calls_per_sim_s,
                _ratio(calls, _env_total_s(own)),
            ),
        ]
    return [*rows, *_medians("all", traces, (19.0, 95_000, 1_310_000, 12.5, 19.5))]


def _medians(row: str, traces: Sequence[EpisodeTrace], study: tuple[float, ...]) -> list[Marginal]:
    measures: tuple[tuple[str, str, Callable[[EpisodeTrace], float]], ...] = (
        ("brain_turns_p50", "", lambda trace: len(trace.turns)),
        ("peak_context_p50", "tokens", lambda trace: max(trace.prompt_tokens)),
        ("total_input_p50", "tokens", lambda trace: sum(trace.prompt_tokens)),
        ("action_chunks_p50", "", lambda trace: sum(turn.chunks for turn in trace.turns)),
        ("env_advance_p50", "s", lambda trace: _env_total_s([trace])),
    )
    return [
        Marginal(row, name, unit, theirs, _quantile(np.array([of(trace) for trace in traces]), 50))
        for (name, unit, of), theirs in zip(measures, study, strict=True)
    ]


def _clocks(of: Columns) -> list[Marginal]:
    figures: tuple[tuple[str, np.ndarray, dict[int, float]], ...] = (
        ("brain_request_latency", of.brain_s, {50: 7.78, 90: 13.84, 100: 48.26}),
        ("env_step_gap", of.env_s, {50: 1.0, 90: 3.1, 100: 7.5}),
        ("simulator_wall_gap", of.wall_s, {50: 8.4, 90: 22.2}),
        ("brain_plus_env_step_gap", of.brain_before_s + of.env_s, {50: 9.4, 90: 15.38}),
        ("brain_plus_wall_gap", of.brain_before_s + of.wall_s, {50: 17.96, 90: 32.77}),
    )
    return [
        Marginal(
            clock,
            "max" if percent == 100 else f"p{percent}",
            "s",
            study,
            _quantile(values, percent),
        )
        for clock, values, study_by_percent in figures
        for percent, study in study_by_percent.items()
    ]


def _env_total_s(traces: Sequence[EpisodeTrace]) -> float:
    return sum(sum(turn.env_steps for turn in trace.turns) / trace.control_hz for trace in traces)


def _known(value: float | None) -> float:
    return float("nan") if value is None else value


def _quantile(values: np.ndarray, percent: float) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.percentile(known, percent)) if len(known) else None


def _ratio(value: float, by: float) -> float | None:
    return value / by if by else None

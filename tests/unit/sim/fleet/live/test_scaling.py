from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.errors import InvalidArgumentError
from sim.fleet.live.scaling import check_sendable, fitting_scale, peak_tokens, scaled
from sim.fleet.workload.trace import EpisodeTrace, TurnTrace

TURNS = st.lists(
    st.builds(
        TurnTrace,
        new_tokens=st.integers(1, 30_000),
        output_tokens=st.integers(1, 2000),
        env_steps=st.integers(0, 600),
        kept_tokens=st.none() | st.integers(0, 30_000),
    ),
    min_size=1,
    max_size=6,
)


@given(TURNS, st.floats(1e-4, 10))
def test_a_scaled_trace_is_a_trace_of_nearly_so_many_tokens(
    turns: list[TurnTrace], scale: float
) -> None:
    trace = EpisodeTrace("a", "family", tuple(turns))
    small = scaled(trace, scale)
    for before, after in zip(trace.turns, small.turns, strict=True):
        assert after.new_tokens == pytest.approx(max(before.new_tokens * scale, 1), abs=0.51)
        assert after.output_tokens == pytest.approx(max(before.output_tokens * scale, 1), abs=0.51)
        assert after.new_tokens >= 1
        assert after.output_tokens >= 1
    context = 0
    for turn, prompt_tokens in zip(small.turns, small.prompt_tokens, strict=True):
        assert turn.kept_tokens is None or turn.kept_tokens <= context
        context = prompt_tokens + turn.output_tokens


def test_both_kinds_of_gaps_are_scaled() -> None:
    turn = TurnTrace(10, 10, env_steps=40, wall_gap_s=9.0)
    fast = scaled(EpisodeTrace("a", "family", (turn, turn), control_hz=20.0), time_scale=0.1)
    assert fast.gap_s(0, uses_wall=False) == pytest.approx(0.2)
    assert fast.gap_s(0, uses_wall=True) == pytest.approx(0.9)
    assert fast.turns[0].new_tokens == 10


def test_traces_longer_than_the_models_context_are_refused_with_a_scale_that_fits_all() -> None:
    long = EpisodeTrace("long one", "family", (TurnTrace(900, 50), TurnTrace(40, 10)))
    longer = EpisodeTrace("longer one", "family", (TurnTrace(1900, 50), TurnTrace(40, 10)))
    assert peak_tokens(long) == 1000
    check_sendable([long], 1000)
    check_sendable([long, longer], None)
    check_sendable([long, longer], 500, token_scale=0.25)
    told = r"longer one, 2000 tokens, the longest of 2.*at most 500.*--token-scale 0.25 all"
    with pytest.raises(InvalidArgumentError, match=told):
        check_sendable([long, longer], 500)
    # The scale is one to give, whatever was given.
    with pytest.raises(InvalidArgumentError, match=r"1000 tokens.*--token-scale 0.25 all"):
        check_sendable([long, longer], 500, token_scale=0.5)


@given(st.lists(TURNS, min_size=1, max_size=4), st.integers(12, 50_000))
def test_with_the_scale_that_is_named_every_trace_fits(
    turns: list[list[TurnTrace]], max_context_tokens: int
) -> None:
    traces = [EpisodeTrace("a", "family", tuple(of_one)) for of_one in turns]
    scale = fitting_scale(traces, max_context_tokens)
    if scale is not None:
        assert float(f"{scale:g}") == scale
        assert all(peak_tokens(scaled(trace, scale)) <= max_context_tokens for trace in traces)


def test_turns_too_many_for_any_scale_are_said_to_be() -> None:
    trace = EpisodeTrace("a", "family", tuple(TurnTrace(900, 50) for _ in range(20)))
    with pytest.raises(InvalidArgumentError, match="too many turns for any"):
        check_sendable([trace], 30)


def test_a_trace_that_takes_back_what_was_said_is_refused() -> None:
    trace = EpisodeTrace("a", "family", (TurnTrace(90, 5), TurnTrace(4, 1, kept_tokens=20)))
    with pytest.raises(InvalidArgumentError, match="turn 1 gives up"):
        check_sendable([trace], None)

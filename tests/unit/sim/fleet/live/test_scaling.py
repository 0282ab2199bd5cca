from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.errors import InvalidArgumentError
from sim.fleet.live.scaling import check_sendable, peak_tokens, scaled
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


def test_a_trace_longer_than_the_models_context_is_refused_with_a_scale_that_fits() -> None:
    trace = EpisodeTrace("long one", "family", (TurnTrace(900, 50), TurnTrace(40, 10)))
    assert peak_tokens(trace) == 1000
    check_sendable(trace, 1000)
    check_sendable(trace, None)
    with pytest.raises(InvalidArgumentError, match=r"long one, 1000 tokens.*at most 500.*by .*0.5"):
        check_sendable(trace, 500)


def test_a_trace_that_takes_back_what_was_said_is_refused() -> None:
    trace = EpisodeTrace("a", "family", (TurnTrace(90, 5), TurnTrace(4, 1, kept_tokens=20)))
    with pytest.raises(InvalidArgumentError, match="turn 1 gives up"):
        check_sendable(trace, None)

"""Steps of an engine cost what the formula says, whichever way they are added up."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.errors import InvalidArgumentError
from server.capacity.engine import ScheduledTokens
from sim.fleet.brain.cost_model import CostModel

COST = CostModel(
    step_s=0.01,
    prefill_token_s=2e-5,
    prefill_pair_s=1e-10,
    decode_context_token_s=1e-8,
    batched_decode_share=0.5,
    request_s=0.02,
    request_token_s=1e-7,
)


def decode(position):
    return ScheduledTokens("t", position, position + 1, is_prefill=False)


@given(st.lists(st.integers(1, 250_000), min_size=1, max_size=40), st.integers(1, 700))
def test_a_stretch_costs_as_much_as_its_steps(positions, num_steps):
    steps_s = math.fsum(
        COST.step_time_s([decode(position + step) for position in positions])
        for step in range(num_steps)
    )
    assert COST.stretch_time_s(positions, num_steps) == pytest.approx(steps_s, rel=1e-12)


@given(st.integers(0, 100_000), st.integers(1, 50_000), st.integers(1, 50_000))
def test_attention_over_a_prompt_costs_the_same_in_one_piece_and_in_two(start, first, second):
    def piece(begin, end):
        return ScheduledTokens("t", begin, end, is_prefill=True)

    whole_s = COST.step_time_s([piece(start, start + first + second)])
    cut_s = COST.step_time_s(
        [piece(start, start + first), piece(start + first, start + first + second)]
    )
    assert cut_s == pytest.approx(whole_s)


def test_a_turn_beside_a_longer_one_costs_its_share():
    alone_s = COST.step_time_s([decode(99_999)])
    assert alone_s == pytest.approx(0.01 + 1e-8 * 100_000)
    both_s = COST.step_time_s([decode(39_999), decode(99_999)])
    assert both_s - alone_s == pytest.approx(0.5e-8 * 40_000)


def test_the_way_into_the_engine_grows_with_the_prompt():
    assert COST.before_engine_s(100_000) == pytest.approx(0.03)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step_s", 0.0),
        ("step_s", math.inf),
        ("prefill_token_s", -1e-6),
        ("prefill_pair_s", math.nan),
        ("decode_context_token_s", 1.0),
        ("batched_decode_share", 1.1),
        ("request_s", "fast"),
        ("request_token_s", None),
    ],
)
def test_a_constant_out_of_range_is_refused_by_name(name, value):
    constants = {**vars(COST), name: value}
    with pytest.raises(InvalidArgumentError, match=name):
        CostModel(**constants)

"""From a turn to vLLM's request."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.messages import Sampling
from server.brain.vllm_engine.requests import SamplingDefaults, priority, sampling_arguments

DEFAULTS = SamplingDefaults(
    model={"temperature": 0.6, "top_k": 20, "max_tokens": 77},
    temperature=None,
    top_p=0.9,
    max_output_tokens=1000,
    forbidden_ids=frozenset({7, 5}),
)


def test_what_a_turn_leaves_open_comes_from_the_configuration_and_then_from_the_model() -> None:
    arguments = sampling_arguments(Sampling(), DEFAULTS, room_tokens=5000)

    assert arguments == {
        "temperature": 0.6,
        "top_k": 20,
        "top_p": 0.9,
        "max_tokens": 1000,
        "logit_bias": {5: -100.0, 7: -100.0},
        "skip_special_tokens": False,
    }


def test_what_a_turn_says_counts_also_when_it_is_zero() -> None:
    sampling = Sampling(temperature=0.0, top_p=1.0, max_output_tokens=3, seed=0)
    arguments = sampling_arguments(sampling, DEFAULTS, room_tokens=5000)

    assert (arguments["temperature"], arguments["top_p"]) == (0.0, 1.0)
    assert (arguments["max_tokens"], arguments["seed"]) == (3, 0)


def test_an_answer_is_never_longer_than_what_the_context_leaves() -> None:
    sampling = Sampling(max_output_tokens=500)

    assert sampling_arguments(sampling, DEFAULTS, room_tokens=12)["max_tokens"] == 12


def test_the_robot_that_runs_out_first_goes_first() -> None:
    now_s = 100.0
    order = sorted([None, 3.0, 0.2, 10.0], key=lambda slack_s: priority(slack_s, now_s))

    assert order == [None, 0.2, 3.0, 10.0]


def test_a_turn_that_has_waited_goes_before_one_that_comes_later_with_the_same_slack() -> None:
    assert priority(5.0, 100.0) < priority(5.0, 100.5)
    assert priority(5.0, 100.0) < priority(0.0, 106.0)


@given(st.one_of(st.none(), st.floats()), st.floats(min_value=0, max_value=1e9))
def test_any_slack_gives_a_whole_number_no_earlier_than_now(
    slack_s: float | None, now_s: float
) -> None:
    value = priority(slack_s, now_s)

    assert isinstance(value, int)
    assert value >= math.floor(now_s * 1000)

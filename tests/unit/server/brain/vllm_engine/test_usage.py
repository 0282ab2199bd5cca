"""Usage and timing of a turn from the engine's figures."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from server.brain.interface import Timing
from server.brain.vllm_engine.usage import timing, token_usage


def request_times(queued: float, scheduled: float, first: float, last: float) -> SimpleNamespace:
    return SimpleNamespace(
        queued_ts=queued, scheduled_ts=scheduled, first_token_ts=first, last_token_ts=last
    )


def test_nothing_cached_is_zero_and_not_told_is_unknown() -> None:
    def usage(cached_tokens: int | None):
        return token_usage(
            prompt_tokens=100,
            cached_tokens=cached_tokens,
            output_tokens=7,
            expected_prefix_tokens=64,
            num_images=2,
        )

    assert (usage(0).cached_tokens, usage(0).computed_tokens) == (0, 100)
    assert (usage(64).cached_tokens, usage(64).computed_tokens) == (64, 36)
    assert (usage(None).cached_tokens, usage(None).computed_tokens) == (None, None)
    assert usage(0).new_tokens == 36


def test_the_parts_of_the_time_follow_each_other() -> None:
    times = SimpleNamespace(
        queued_ts=12.0, scheduled_ts=13.0, first_token_ts=15.0, last_token_ts=19.0
    )

    parts = timing(times, received_s=10.0, delay_s=1.5)

    assert parts.preprocess_s == pytest.approx(0.5)
    assert (parts.queue_s, parts.prefill_s, parts.decode_s) == (1.0, 2.0, 4.0)
    assert parts.modelled_delay_s == 1.5


def test_a_stage_that_was_not_reached_is_unknown() -> None:
    times = request_times(12.0, 0.0, 0.0, 0.0)

    parts = timing(times, received_s=11.0, delay_s=0.0)

    assert (parts.queue_s, parts.prefill_s, parts.decode_s) == (None, None, None)
    assert parts.modelled_delay_s is None


def test_an_engine_without_figures_tells_no_times() -> None:
    assert timing(None, received_s=1.0, delay_s=0.0) == Timing()


def test_e6_no_part_is_ever_negative() -> None:
    times = SimpleNamespace(
        queued_ts=12.0, scheduled_ts=11.9, first_token_ts=11.0, last_token_ts=10.0
    )

    parts = timing(times, received_s=13.0, delay_s=0.0)

    assert [parts.queue_s, parts.preprocess_s, parts.prefill_s, parts.decode_s] == [0.0] * 4

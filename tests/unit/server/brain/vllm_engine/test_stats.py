"""vLLM's figures as gauges and totals."""

from __future__ import annotations

from types import SimpleNamespace

from server.brain.interface import EngineLoad
from server.brain.vllm_engine.stats import LoadLogger


def scheduler(running: int, waiting: int, skipped: int, usage: float) -> SimpleNamespace:
    return SimpleNamespace(
        num_running_reqs=running,
        num_waiting_reqs=waiting,
        num_skipped_waiting_reqs=skipped,
        kv_cache_usage=usage,
    )


def iteration(prompt: int, cached: int, generated: int, preempted: int = 0) -> SimpleNamespace:
    return SimpleNamespace(
        prompt_token_stats=SimpleNamespace(total=prompt, cached_tokens=cached),
        num_generation_tokens=generated,
        num_preempted_reqs=preempted,
    )


def test_gauges_are_the_newest_and_totals_add_up() -> None:
    logger = LoadLogger()
    logger.record(scheduler(2, 1, 0, 0.5), iteration(100, 0, 1))
    logger.record(scheduler(3, 1, 2, 0.7), iteration(50, 32, 3, preempted=1))

    assert logger.load(num_requests=6) == EngineLoad(0.7, 3, 3, 1, 150, 32, 4)


def test_what_was_told_before_the_last_request_was_aborted_no_longer_holds() -> None:
    logger = LoadLogger()
    logger.record(scheduler(1, 1, 0, 0.5), iteration(100, 0, 1))

    load = logger.load(num_requests=0)

    assert (load.kv_cache_usage, load.requests_running, load.requests_waiting) == (0.0, 0, 0)
    assert load.generated_tokens_total == 1


def test_a_step_that_tells_only_one_kind_leaves_the_other_alone() -> None:
    logger = LoadLogger()
    logger.record(None, iteration(10, 0, 1))
    logger.record(scheduler(1, 0, 0, 0.1), None)

    load = logger.load(num_requests=1)

    assert (load.requests_running, load.prompt_tokens_total) == (1, 10)

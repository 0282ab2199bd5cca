"""vLLM's own gauges and counters, as it tells them to a stat logger."""

from __future__ import annotations

from typing import Any

from server.brain.interface import EngineLoad


class LoadLogger:
    """A stat logger of vLLM (`StatLoggerBase`, by shape) that keeps the newest and the sums.

    vLLM tells after each step of the engine, and an engine without work makes no steps. So what it
    told last about running requests may be over; `load` is given how many there are.
    """

    def __init__(self) -> None:
        self._kv_cache_usage: float | None = None
        self._running: int | None = None
        self._waiting: int | None = None
        self._preemptions = 0
        self._prompt_tokens = 0
        self._cached_tokens = 0
        self._generated_tokens = 0

    def record(
        self,
        scheduler_stats: Any,
        iteration_stats: Any,
        mm_cache_stats: Any = None,
        engine_idx: int = 0,
    ) -> None:
        """Called by vLLM with its SchedulerStats and IterationStats, either may be None."""
        if scheduler_stats is not None:
            self._kv_cache_usage = scheduler_stats.kv_cache_usage
            self._running = scheduler_stats.num_running_reqs
            self._waiting = (
                scheduler_stats.num_waiting_reqs + scheduler_stats.num_skipped_waiting_reqs
            )
        if iteration_stats is not None:
            tokens = iteration_stats.prompt_token_stats
            self._preemptions += iteration_stats.num_preempted_reqs
            self._prompt_tokens += tokens.total
            self._cached_tokens += tokens.cached_tokens
            self._generated_tokens += iteration_stats.num_generation_tokens

    def log(self) -> None:
        """Part of vLLM's interface; nothing is logged."""

    def log_engine_initialized(self) -> None:
        """Part of vLLM's interface; nothing is logged."""

    def record_sleep_state(self, is_awake: int, level: int) -> None:
        """Part of vLLM's interface; this engine never sleeps."""

    def load(self, num_requests: int) -> EngineLoad:
        """The newest figures.

        Args:
            num_requests: Requests that the engine has. Without any, none runs and none holds
                blocks, whatever it told after its last step.
        """
        is_idle = num_requests == 0
        return EngineLoad(
            kv_cache_usage=0.0 if is_idle else self._kv_cache_usage,
            requests_running=0 if is_idle else self._running,
            requests_waiting=0 if is_idle else self._waiting,
            preemptions_total=self._preemptions,
            prompt_tokens_total=self._prompt_tokens,
            cached_tokens_total=self._cached_tokens,
            generated_tokens_total=self._generated_tokens,
        )

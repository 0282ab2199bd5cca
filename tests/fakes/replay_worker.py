"""Takes the place of sim.fleet.replay.worker in tests: answers by the seed, without vLLM.

A result's `wall_s` is the process id, its `duration_s` 1. Seed 13 fails, 666 kills the process,
98 says nothing, 99 works until it is
interrupted and then gives a partial result.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from robot_sdk.clock import SYSTEM_CLOCK
from sim.fleet.replay.result import ReplayResult

_LOADS, _PARTIAL = 98, 99


def result(seed: int, version: str, is_partial: bool = False) -> ReplayResult:
    """Some result."""
    return ReplayResult(
        seed=seed,
        engine_version=version,
        duration_s=1.0,
        turns=seed,
        rps=float(seed),
        hit=1.0,
        hit_after_warm_up=1.0,
        lowest_window_hit_after_warm_up=1.0,
        first_low_hit_s=None,
        computed_prompt_tokens_per_min=0.0,
        generated_tokens_per_min=0.0,
        episodes_completed=0,
        episodes_per_min=0.0,
        jain=1.0,
        fewest_episodes=0,
        episodes_by_robot=(0,),
        brain_latency_s={"p50": None, "p99": None},
        door_wait_s={"p90": None},
        windows=(),
        controls={},
        starved_fraction_worst=None,
        is_partial=is_partial,
        wall_s=float(os.getpid()),
    )


def tell(**values: Any) -> None:
    """One line."""
    print(json.dumps(values), flush=True)


def main(version: str) -> int:
    """As the true one."""
    for line in sys.stdin:
        seed = json.loads(line)["seed"]
        if seed == 13:
            tell(error="seed 13 brings bad luck")
            return 1
        if seed == _LOADS:
            SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + 60.0)
        if seed == 666:
            os.kill(os.getpid(), signal.SIGKILL)
        is_partial = False
        if seed == _PARTIAL:
            try:
                tell(now_s=0.5)
                SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + 60.0)
            except KeyboardInterrupt:
                is_partial = True
        tell(now_s=0.5)
        tell(result=result(seed, version, is_partial).to_json())
    return 0


if __name__ == "__main__":
    sys.exit(main("study" if len(sys.argv) > 1 else "installed"))

"""How long a replay takes, and what it costs a turn to have a long context.

    python tests/bench/replay_speed.py [--quick] [--study-engine FOLDER] [--json FILE]

The study's fleet N=32 with a cap of 16 over 30 virtual minutes: wall and processor seconds of the
whole run in this process, its peak memory, and how much longer it takes if vLLM's scheduler goes
through every turn in every step. Then the processor time of a turn that adds 3,300 tokens, over the
length of its context. Aims are printed, not asserted.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _support_stats import Spread, machine_line

WALL_AIM_S = 12.0
MEMORY_AIM_MB = 1500.0
CONTEXTS_TOKENS = (20_000, 50_000, 100_000, 150_000, 200_000)
NEW_TOKENS = 3_300
OUTPUT_TOKENS = 144
_POOL_BLOCKS = 4270


def measure_replay(duration_s: float, library: Any) -> dict[str, Any]:
    """One run of the fleet as replays run it."""
    return _measure(duration_s, library, "as replays run it")


def measure_every_step(duration_s: float, library: Any) -> dict[str, Any]:
    """The same with all turns shown to vLLM's scheduler in every step."""
    from server.capacity.engine import DecodeStretch, SchedulerOnlyEngine, Step
    from sim.fleet.replay import replay

    class EveryStep(SchedulerOnlyEngine):
        def decode_stretch(self) -> DecodeStretch | None:
            return None

        def step(self, decode_steps: int = 1) -> Step:
            for turn in self._decoding.values():
                turn.due_step = self._num_steps
            return super().step(decode_steps)

    usual, replay.SchedulerOnlyEngine = replay.SchedulerOnlyEngine, EveryStep
    try:
        return _measure(duration_s, library, "every turn in every step")
    finally:
        replay.SchedulerOnlyEngine = usual


def _measure(duration_s: float, library: Any, how: str) -> dict[str, Any]:
    from server.capacity.engine.library import STUDY_VERSION
    from sim.fleet.replay import replay
    from sim.fleet.replay.settings import AdmissionChoice, EngineChoice, ReplaySettings

    version = "study" if library.version == STUDY_VERSION else "installed"
    settings = ReplaySettings.sustained(
        32,
        admission=AdmissionChoice("static-cap", {"cap": 16}),
        engine=EngineChoice(version),
        duration_s=duration_s,
    )
    began_wall_s, began_cpu_s = time.perf_counter(), time.process_time()
    result = replay.run(settings, 0, library=library)
    row = {
        "how": how,
        "virtual_s": duration_s,
        "turns": result.turns,
        "rps": result.rps,
        "wall_s": time.perf_counter() - began_wall_s,
        "cpu_s": time.process_time() - began_cpu_s,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(
        f"  {how}: {duration_s:.0f} virtual s, {result.turns} turns in {row['wall_s']:.1f} s "
        f"({row['cpu_s']:.1f} s of processor time), peak {row['peak_rss_mb']:.0f} MB",
        flush=True,
    )
    return row


def measure_contexts(library: Any, num_turns: int) -> list[dict[str, Any]]:
    """Processor time of a turn over its context; blocks of turns by rising and falling length."""
    per_turn_ms: dict[int, list[float]] = {context: [] for context in CONTEXTS_TOKENS}
    for contexts in (CONTEXTS_TOKENS, CONTEXTS_TOKENS[::-1]):
        for context in contexts:
            per_turn_ms[context] += _turns_ms(library, context, num_turns)
    rows = []
    for context, values in per_turn_ms.items():
        spread = Spread.of(values)
        print(f"  context {context:7,}: {spread} ms of processor time for a turn", flush=True)
        rows.append({"context_tokens": context, "turn_ms": vars(spread)})
    return rows


def _turns_ms(library: Any, context: int, num_turns: int) -> list[float]:
    from server.capacity.engine import EngineSettings, SchedulerOnlyEngine, SessionBlocks, Turn
    from server.core.capacity import KvPool

    engine = SchedulerOnlyEngine(
        EngineSettings(KvPool(_POOL_BLOCKS, 784, 3), retention_tokens=None), library
    )
    times_ms = []
    for number in range(num_turns):
        # A session of its own each, so that all turns have the same length.
        blocks = SessionBlocks(str(number), 784)
        engine.add(Turn(f"{number}-warm", context, 1, blocks))
        engine.run()
        began_s = time.process_time()
        engine.add(Turn(f"{number}", context + 1 + NEW_TOKENS, OUTPUT_TOKENS, blocks))
        engine.run()
        times_ms.append(1000 * (time.process_time() - began_s))
    return times_ms


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="5 virtual minutes")
    parser.add_argument("--study-engine", type=Path, help="folder of vLLM 0.17.1; else installed")
    parser.add_argument("--json", type=Path, help="write the result there")
    args = parser.parse_args(arguments)
    from server.capacity.engine_worker import load_library

    machine = machine_line()
    print(machine)
    library = load_library(args.study_engine)
    print(f"vLLM {library.version}")
    duration_s = 300.0 if args.quick else 1800.0
    measure_replay(10.0, library)  # loads vLLM
    usual = measure_replay(duration_s, library)
    every = measure_every_step(duration_s / 3, library)
    ratio = (every["cpu_s"] / every["virtual_s"]) / (usual["cpu_s"] / usual["virtual_s"])
    print(f"  every turn in every step takes {ratio:.1f} times the processor time")
    for name, aim in (("wall_s", WALL_AIM_S), ("peak_rss_mb", MEMORY_AIM_MB)):
        if not args.quick:
            print(f"  aim: {name} at most {aim:g}: {'met' if usual[name] <= aim else 'NOT met'}")
    contexts = measure_contexts(library, num_turns=4 if args.quick else 12)
    if args.json is not None:
        content = {
            "machine": machine,
            "vllm": library.version,
            "replay": usual,
            "every_step": every,
            "every_step_ratio": ratio,
            "wall_aim_s": WALL_AIM_S,
            "memory_aim_mb": MEMORY_AIM_MB,
            "contexts": contexts,
        }
        args.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

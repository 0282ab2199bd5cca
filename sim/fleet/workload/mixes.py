"""Which episode comes next, for ever."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path

import numpy as np

from sim.fleet.replay.settings import WorkloadChoice
from sim.fleet.workload.generator import generate
from sim.fleet.workload.suites import SUITES
from sim.fleet.workload.trace import EpisodeTrace
from sim.fleet.workload.trace_file import read_traces

_LONG = SUITES[-1].family

#: "turning": so many short episodes, then so many long ones, and again. At the study's rates, 5 to
#: 7 episodes a minute, a run of 30 minutes sees short, long and short again.
TURNING = (("short", 60), ("long", 40))

#: Names that `WorkloadChoice.mix` may have; anything else is a trace file's path.
MIXES = ("all", "long", "short", "turning")


def episodes(choice: WorkloadChoice, seed: int) -> Iterator[EpisodeTrace]:
    """Episodes in the order in which a fleet takes them; never ends.

    A mix is drawn from the 80 episodes of `generate(seed)`: "long" is libero_10_swap alone,
    "short" the three others, "turning" both by turns (`TURNING`). Every pass has each episode
    once. Order "shuffled": in a new order each pass. Order "suite": as the study lists its suites,
    20 episodes of the first, then 20 of the next, task by task, each pass again from the first.

    A trace file's episodes come in the file's order ("suite") or in a new order each pass.

    Raises:
        InvalidArgumentError: The trace file is not there or not valid; the first episode that is
            asked for says so.
    """
    rng = np.random.default_rng([seed, len(MIXES)])
    if choice.mix == "turning":
        parts = [(_passes(members(name, seed), choice.order, rng), num) for name, num in TURNING]
        for part, num in cycle(parts):
            for _ in range(num):
                yield next(part)
    yield from _passes(members(choice.mix, seed), choice.order, rng)


def members(mix: str, seed: int) -> Sequence[EpisodeTrace]:
    """One pass of a mix in the study's order; of "turning", all."""
    if mix not in MIXES:
        return read_traces(Path(mix))
    traces = generate(seed)
    if mix in ("all", "turning"):
        return traces
    return [trace for trace in traces if (trace.task_family == _LONG) == (mix == "long")]


def _passes(
    traces: Sequence[EpisodeTrace], order: str, rng: np.random.Generator
) -> Iterator[EpisodeTrace]:
    while True:
        places = rng.permutation(len(traces)) if order == "shuffled" else range(len(traces))
        for place in places:
            yield traces[place]

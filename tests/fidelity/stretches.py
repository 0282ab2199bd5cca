"""Random small fleets, served in single steps and in decode stretches, on the vLLM that is loaded.

    python -m tests.fidelity.stretches STUDY_FOLDER NUM_FLEETS

does it with the study's vLLM, which needs a process of its own, and prints what differs.
"""

from __future__ import annotations

import json
import random
import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from server.capacity.engine import (
    EngineSettings,
    SchedulerOnlyEngine,
    SessionBlocks,
    Turn,
    study_version,
)
from server.capacity.engine.library import Library
from server.core.capacity import KvPool


@dataclass(frozen=True)
class Fleet:
    """Turns of each robot as (new tokens, output tokens, idle steps before it)."""

    settings: EngineSettings
    robots: tuple[tuple[tuple[int, int, int], ...], ...]


@dataclass
class Log:
    """What can be seen from outside, by the number of steps taken.

    Attributes:
        finished: (steps, name, cached tokens), in order.
        free_blocks: Numbers of the free blocks in the order in which they will be handed out.
        num_calls: Of the scheduler.
    """

    finished: list[tuple[int, str, int]] = field(default_factory=list)
    free_blocks: dict[int, list[int]] = field(default_factory=dict)
    num_calls: int = 0


def random_fleet(seed: int, retentions: tuple[int | None, ...]) -> Fleet:
    """Blocks of 16 tokens; pools from far too small to ample."""
    chance = random.Random(seed)
    num_robots = chance.randint(1, 6)
    num_state_groups = chance.randint(0, 3)
    settings = EngineSettings(
        KvPool(chance.choice((60, 90, 140, 400)), 16, num_state_groups),
        step_tokens=chance.choice((64, 100, 256)),
        # Without states there is no snapshot to choose.
        retention_tokens=chance.choice(retentions) if num_state_groups else retentions[0],
        max_sequences=chance.choice((2, 8)),
        max_context_tokens=600,
    )
    robots = tuple(
        tuple(
            (
                chance.choice((1, 15, 16, 17, 40, 90)),
                chance.choice((1, 2, 15, 16, 17, 33, 50)),
                chance.choice((0, 0, 1, 7, 40)),
            )
            for _ in range(chance.randint(1, 5))
        )
        for _ in range(num_robots)
    )
    return Fleet(settings, robots)


def serve(fleet: Fleet, library: Library, *, in_stretches: bool) -> Log:
    """The fleet to its end; a robot's next turn comes so many steps after its last one's end."""
    engine = SchedulerOnlyEngine(fleet.settings, library)
    pool = engine._scheduler.kv_cache_manager.block_pool
    blocks = [SessionBlocks(str(robot), 16) for robot in range(len(fleet.robots))]
    left = [deque(turns) for turns in fleet.robots]
    contexts = [0] * len(fleet.robots)
    arrivals = [turns[0][2] for turns in left]
    log, now = Log(), 0
    while True:
        for robot, turns in enumerate(left):
            if turns and arrivals[robot] == now:
                new, output, _ = turns[0]
                name = f"{robot}/{len(turns)}"
                engine.add(Turn(name, contexts[robot] + new, output, blocks[robot]))
                contexts[robot] += new + output
        coming = [time for time, turns in zip(arrivals, left, strict=True) if turns and time > now]
        if not engine.num_turns:
            if not coming:
                return log
            now = min(coming)
            continue
        stretch = engine.decode_stretch() if in_stretches else None
        num_steps = 1 if stretch is None else min([stretch.num_steps, *(t - now for t in coming)])
        step = engine.step(num_steps)
        now += num_steps
        log.num_calls += 1
        log.free_blocks[now] = [b.block_id for b in pool.free_block_queue.get_all_free_blocks()]
        for turn in step.finished:
            log.finished.append((now, turn.name, turn.cached_tokens))
            robot = int(turn.name.split("/")[0])
            left[robot].popleft()
            if left[robot]:
                arrivals[robot] = now + left[robot][0][2]


def differences(num_fleets: int, library: Library, retentions: tuple[int | None, ...]) -> list[str]:
    """What single steps and stretches do not agree on; empty: nothing."""
    found = []
    num_calls = [0, 0]
    for seed in range(num_fleets):
        fleet = random_fleet(seed, retentions)
        single = serve(fleet, library, in_stretches=False)
        joined = serve(fleet, library, in_stretches=True)
        num_calls[0] += single.num_calls
        num_calls[1] += joined.num_calls
        if single.finished != joined.finished:
            found.append(f"fleet {seed}: {single.finished} / {joined.finished}")
        found += [
            f"fleet {seed}, step {now}: free {single.free_blocks[now]} / {free}"
            for now, free in joined.free_blocks.items()
            if single.free_blocks.get(now) != free
        ]
    if num_calls[1] > 0.6 * num_calls[0]:
        found.append(f"stretches save too little to be seen: {num_calls} calls")
    return found


if __name__ == "__main__":
    loaded = study_version.load(Path(sys.argv[1]))
    json.dump(differences(int(sys.argv[2]), loaded, (None,)), sys.stdout)

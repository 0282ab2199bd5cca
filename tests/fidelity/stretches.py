"""Random small fleets, served by vLLM's scheduler step by step and by the engine without a model.

    python -m tests.fidelity.stretches STUDY_FOLDER NUM_FLEETS

does it with the study's vLLM, which needs a process of its own, and prints what differs.
"""

from __future__ import annotations

import json
import random
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from server.capacity.engine import (
    DecodeStretch,
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
        computed: Tokens computed up to then.
        num_preemptions: Turns that lost their blocks and began again.
        num_steps_shown: Steps times the turns that vLLM's scheduler went through in them.
    """

    finished: list[tuple[int, str, int]] = field(default_factory=list)
    free_blocks: dict[int, list[int]] = field(default_factory=dict)
    computed: dict[int, int] = field(default_factory=dict)
    num_preemptions: int = 0
    num_steps_shown: int = 0


class StepByStep:
    """vLLM's scheduler as its engine calls it: every running turn in every step, one token each."""

    def __init__(self, settings: EngineSettings, library: Library) -> None:
        self.library = library
        self.scheduler = library.scheduler(settings)
        self._cached_tokens: dict[str, int] = {}

    @property
    def num_turns(self) -> int:
        return len(self.scheduler.requests)

    def add(self, turn: Turn) -> None:
        hashes = list(turn.blocks.up_to(turn.num_prompt_tokens + turn.num_output_tokens))
        self.scheduler.add_request(
            self.library.request(turn.name, turn.num_prompt_tokens, turn.num_output_tokens, hashes)
        )

    def decode_stretch(self) -> DecodeStretch | None:
        return None

    def step(self, _: int) -> tuple[list[tuple[str, int]], int]:
        """Turns that end, with their cached tokens; and the tokens computed."""
        plan = self.scheduler.schedule()
        if not plan.num_scheduled_tokens:
            self.scheduler.update_from_output(plan, self.library.model_output([], []))
            plan = self.scheduler.schedule()
        requests = [self.scheduler.requests[name] for name in plan.num_scheduled_tokens]
        sampled = [[0] if r.num_computed_tokens >= r.num_tokens else [] for r in requests]
        outputs = self.scheduler.update_from_output(
            plan, self.library.model_output(list(plan.num_scheduled_tokens), sampled)
        )
        finished = []
        for output in (output for client in outputs.values() for output in client.outputs):
            cached_tokens = self.library.cached_tokens(output)
            if cached_tokens is not None:
                self._cached_tokens.setdefault(output.request_id, cached_tokens)
            if output.finish_reason is not None:
                finished.append((output.request_id, self._cached_tokens.pop(output.request_id)))
        return finished, sum(plan.num_scheduled_tokens.values())


class WithoutModel:
    """The engine that replays use."""

    def __init__(self, settings: EngineSettings, library: Library) -> None:
        self._engine = SchedulerOnlyEngine(settings, library)
        self.scheduler = self._engine._scheduler
        self.add = self._engine.add
        self.decode_stretch = self._engine.decode_stretch

    @property
    def num_turns(self) -> int:
        return self._engine.num_turns

    def step(self, num_steps: int) -> tuple[list[tuple[str, int]], int]:
        step = self._engine.step(num_steps)
        finished = [(turn.name, turn.cached_tokens) for turn in step.finished]
        return finished, sum(piece.end - piece.start for piece in step.scheduled)


def random_fleet(seed: int, retentions: tuple[int | None, ...]) -> Fleet:
    """Blocks of 16 tokens; pools from far too small to ample."""
    chance = random.Random(seed)
    num_state_groups = chance.randint(0, 3)
    settings = EngineSettings(
        KvPool(chance.choice((60, 90, 140, 400)), 16, num_state_groups),
        step_tokens=chance.choice((17, 64, 100, 256)),
        # Without states there is no snapshot to choose.
        retention_tokens=chance.choice(retentions) if num_state_groups else retentions[0],
        max_sequences=chance.choice((2, 5, 16)),
        max_context_tokens=600,
    )
    # Long answers outgrow a small pool together, so that vLLM preempts.
    outputs = (1, 2, 15, 16, 17, 33, 50) if chance.random() < 0.5 else (100, 150)
    robots = tuple(
        tuple(
            (
                chance.choice((1, 15, 16, 17, 40, 90)),
                chance.choice(outputs),
                chance.choice((0, 0, 1, 7, 40)),
            )
            for _ in range(chance.randint(1, 5 if max(outputs) < 100 else 2))
        )
        for _ in range(chance.randint(1, 9))
    )
    return Fleet(settings, robots)


def serve(fleet: Fleet, engine: Any) -> Log:
    """The fleet to its end; a robot's next turn comes so many steps after its last one's end."""
    scheduler = engine.scheduler
    pool = scheduler.kv_cache_manager.block_pool
    blocks = [SessionBlocks(str(robot), 16) for robot in range(len(fleet.robots))]
    left = [deque(turns) for turns in fleet.robots]
    contexts = [0] * len(fleet.robots)
    arrivals = [turns[0][2] for turns in left]
    log, now, num_computed = Log(), 0, 0
    preempt, schedule = scheduler._preempt_request, scheduler.schedule

    def count_preemption(*arguments: Any, **named: Any) -> None:
        log.num_preemptions += 1
        preempt(*arguments, **named)

    def count_shown() -> Any:
        log.num_steps_shown += len(scheduler.running)
        return schedule()

    scheduler._preempt_request, scheduler.schedule = count_preemption, count_shown
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
        stretch = engine.decode_stretch()
        num_steps = 1 if stretch is None else min([stretch.num_steps, *(t - now for t in coming)])
        finished, computed = engine.step(num_steps)
        num_computed += computed
        now += num_steps
        log.computed[now] = num_computed
        log.free_blocks[now] = [b.block_id for b in pool.free_block_queue.get_all_free_blocks()]
        for name, cached_tokens in finished:
            log.finished.append((now, name, cached_tokens))
            robot = int(name.split("/")[0])
            left[robot].popleft()
            if left[robot]:
                arrivals[robot] = now + left[robot][0][2]


@dataclass
class Comparison:
    """Over many fleets.

    Attributes:
        differences: What the two do not agree on, in words.
        num_preemptions: Of vLLM step by step.
        shown_share: Turns that the engine without a model showed the scheduler, of all.
    """

    differences: list[str]
    num_preemptions: int
    shown_share: float


def compare(num_fleets: int, library: Library, retentions: tuple[int | None, ...]) -> Comparison:
    """Serve each fleet both ways."""
    differences = []
    num_preemptions = 0
    shown = [0, 0]
    makers: tuple[Callable[..., Any], ...] = (StepByStep, WithoutModel)
    for seed in range(num_fleets):
        fleet = random_fleet(seed, retentions)
        single, joined = (serve(fleet, make(fleet.settings, library)) for make in makers)
        num_preemptions += single.num_preemptions
        shown[0] += single.num_steps_shown
        shown[1] += joined.num_steps_shown
        if single.finished != joined.finished:
            differences.append(f"fleet {seed} ends: {single.finished} / {joined.finished}")
        if single.num_preemptions != joined.num_preemptions:
            differences.append(f"fleet {seed}: preempted otherwise")
        for name in ("free_blocks", "computed"):
            one, other = getattr(single, name), getattr(joined, name)
            # Steps that are taken together are seen at their end.
            differences += [
                f"fleet {seed}, step {now}, {name}: {one.get(now)} / {value}"
                for now, value in other.items()
                if one.get(now) != value
            ]
    return Comparison(differences, num_preemptions, shown[1] / shown[0])


if __name__ == "__main__":
    loaded = study_version.load(Path(sys.argv[1]))
    json.dump(vars(compare(int(sys.argv[2]), loaded, (None,))), sys.stdout)

"""Turns in virtual time end when they would if every step were an event of its own."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import pytest

from server.capacity.engine import (
    DecodeStretch,
    EngineSettings,
    SchedulerOnlyEngine,
    SessionBlocks,
    Turn,
    library,
)
from server.core.capacity import KvPool
from sim.fleet.brain import cost_table
from sim.fleet.brain.brain_tier import BrainTier, BrainTurn
from sim.fleet.brain.offload import HostMemory
from sim.fleet.event_loop import EventLoop
from sim.fleet.replay.settings import OffloadChoice

pytest.importorskip("vllm", reason="vLLM is not installed; see `make setup`")

pytestmark = [
    pytest.mark.vllm,
    # vLLM and what it imports warn about themselves.
    pytest.mark.filterwarnings("ignore"),
]

BLOCK_TOKENS = 64
COST = cost_table.load("h800-tp4-qwen3.6-27b")


class StepByStep(SchedulerOnlyEngine):
    """An engine that never knows how far decoding goes on."""

    def decode_stretch(self) -> DecodeStretch | None:
        return None


@pytest.fixture(scope="module")
def vllm():
    return library.load()


def settings(pool_blocks):
    return EngineSettings(
        KvPool(pool_blocks, BLOCK_TOKENS, 2),
        step_tokens=512,
        max_sequences=6,
        max_context_tokens=2_000,
    )


def serve(engine, seed, num_robots) -> list[BrainTurn]:
    """Robots of a few turns each, with gaps of fractions of a second to some seconds."""
    loop = EventLoop()
    tier = BrainTier(loop, engine, COST)
    chance = random.Random(seed)
    done: list[BrainTurn] = []

    def ask(robot, blocks, context, turns_left):
        output_tokens = chance.randint(1, 150)
        prompt_tokens = context + chance.randint(1, 200)
        turn = Turn(f"{robot}/{turns_left}", prompt_tokens, output_tokens, blocks)

        def answered(ended):
            done.append(ended)
            if turns_left:
                gap_s = chance.choice((0.0, 0.013, 0.4, 3.0))
                again = partial(ask, robot, blocks, prompt_tokens + output_tokens, turns_left - 1)
                loop.at(loop.clock.now_s() + gap_s, again)

        tier.submit(turn, answered)

    for robot in range(num_robots):
        blocks = SessionBlocks(str(robot), BLOCK_TOKENS)
        loop.at(chance.random(), partial(ask, robot, blocks, 0, 3))
    loop.run_until(10_000.0)
    return done


@pytest.mark.parametrize("seed", range(8))
def test_stretches_give_the_times_of_single_steps(vllm, seed):
    # From a pool that four turns fill to one that holds all sessions.
    pool = settings((60, 120, 400)[seed % 3])
    single = serve(StepByStep(pool, vllm), seed, num_robots=2 + seed)
    joined = serve(SchedulerOnlyEngine(pool, vllm), seed, num_robots=2 + seed)

    assert [turn.finished for turn in joined] == [turn.finished for turn in single]
    assert len(single) == 4 * (2 + seed)
    for one, other in zip(single, joined, strict=True):
        # The sum of many floats against one formula.
        times = replace(one, finished=other.finished)
        assert other.submitted_s == pytest.approx(times.submitted_s, abs=1e-9)
        assert other.first_token_s == pytest.approx(times.first_token_s, abs=1e-9)
        assert other.done_s == pytest.approx(times.done_s, abs=1e-9)


def test_a_turn_that_comes_during_a_stretch_waits_for_the_end_of_one_step_only(vllm):
    loop = EventLoop()
    tier = BrainTier(loop, SchedulerOnlyEngine(settings(400), vllm), COST)
    done: dict[str, BrainTurn] = {}

    def submit(name, num_prompt_tokens, num_output_tokens):
        blocks = SessionBlocks(name, BLOCK_TOKENS)
        turn = Turn(name, num_prompt_tokens, num_output_tokens, blocks)
        tier.submit(turn, lambda ended: done.update({name: ended}))

    loop.at(0.0, lambda: submit("long", 100, 500))
    loop.at(1.0, lambda: submit("short", 100, 1))
    loop.run_until(60.0)

    alone_s = COST.before_engine_s(100) + 2 * COST.step_s + 100 * COST.prefill_token_s
    first_token_s = done["short"].first_token_s - done["short"].submitted_s
    assert alone_s < first_token_s < alone_s + 2 * COST.step_s
    assert done["short"].done_s < done["long"].done_s


def test_a_turn_alone_takes_what_the_cost_model_says(vllm):
    loop = EventLoop()
    tier = BrainTier(loop, SchedulerOnlyEngine(settings(400), vllm), COST)
    ended: list[BrainTurn] = []
    tier.submit(Turn("t", 650, 40, SessionBlocks("s", BLOCK_TOKENS)), ended.append)
    loop.run_until(60.0)

    # 512 tokens are a step's most, and the next one ends at the last block's edge, 640.
    pieces_s = 3 * COST.step_s + 650 * COST.prefill_token_s + 650**2 * COST.prefill_pair_s
    assert ended[0].first_token_s == pytest.approx(COST.before_engine_s(650) + pieces_s)
    decode_s = COST.stretch_time_s([650], 39)
    assert ended[0].done_s - ended[0].first_token_s == pytest.approx(decode_s)


def test_the_gauges_count_turns_that_arrive_during_a_stretch_as_waiting(vllm):
    loop = EventLoop()
    tier = BrainTier(loop, SchedulerOnlyEngine(settings(400), vllm), COST)
    for number, name in enumerate("ab"):
        turn = Turn(name, 100, 300, SessionBlocks(name, BLOCK_TOKENS))
        loop.at(float(number), lambda turn=turn: tier.submit(turn, lambda _: None))
    just_inside_s = 1.0 + COST.before_engine_s(100) + 1e-6
    loop.run_until(just_inside_s)

    gauges = tier.gauges
    assert (gauges.requests_running, gauges.requests_waiting) == (1, 1)
    assert gauges.pool_blocks == 400
    assert gauges.kv_cache_usage > 0


def visit_twice(vllm, host):
    """Latencies and cached tokens of second visits to more sessions than the pool holds."""
    loop = EventLoop()
    tier = BrainTier(loop, SchedulerOnlyEngine(settings(60), vllm), COST, host)
    done: dict[str, BrainTurn] = {}
    sessions = [SessionBlocks(str(number), BLOCK_TOKENS) for number in range(4)]
    for visit, num_tokens in enumerate((1_400, 1_500)):
        for number, blocks in enumerate(sessions):
            turn = Turn(f"{visit}/{number}", num_tokens, 2, blocks)
            record = partial(lambda name, ended: done.update({name: ended}), turn.name)
            loop.at(10.0 * (4 * visit + number), partial(tier.submit, turn, record))
    loop.run_until(100.0)
    second = [done[f"1/{number}"] for number in range(4)]
    return [t.done_s - t.submitted_s for t in second], [t.finished.cached_tokens for t in second]


def host_memory(host_blocks, gigabytes_per_s):
    choice = OffloadChoice(host_blocks, gigabytes_per_s, block_megabytes=4.0)
    return HostMemory(choice, settings(60))


def test_evicted_prefixes_come_back_from_host_memory_as_fast_as_the_link_is(vllm):
    lost_s, lost = visit_twice(vllm, None)
    fast_s, found = visit_twice(vllm, host_memory(200, 100.0))
    slow_s, found_slowly = visit_twice(vllm, host_memory(200, 0.5))
    assert lost == [0, 0, 0, 0]
    assert found == found_slowly == [1_400 // 64 * 64] * 4
    # 21 blocks and 2 states of 4 MB: 0.9 ms at 100 GB/s, 184 ms at 0.5 GB/s.
    assert max(fast_s) < min(lost_s) < min(slow_s)


def test_no_room_in_host_memory_is_as_none(vllm):
    assert visit_twice(vllm, host_memory(0, 100.0)) == visit_twice(vllm, None)

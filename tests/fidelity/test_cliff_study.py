"""The study's cliff on vLLM's own scheduler, and the rules that the planner counts blocks with."""

from __future__ import annotations

import pytest

from server.capacity.cliff.protocol import Cell, run_cell
from server.capacity.engine import EngineSettings, SchedulerOnlyEngine, SessionBlocks, Turn
from server.capacity.engine.scheduler_only import EngineStuckError
from server.core.capacity import KvPool, prefill_snapshots, session_blocks, sessions_that_fit
from server.core.residency import full_prefix_boundary

pytest.importorskip("vllm", reason="vLLM is not installed; see `make setup`")

pytestmark = [
    pytest.mark.vllm,
    # vLLM and what it imports warn about themselves.
    pytest.mark.filterwarnings("ignore"),
]

EVERY, LATEST = None, 0


def kept(pool_blocks, num_sessions, warm_up, retention_tokens, **other):
    cell = Cell(pool_blocks, num_sessions, warm_up, retention_tokens=retention_tokens, **other)
    return run_cell(cell).kept


@pytest.mark.parametrize(
    ("pool_blocks", "warm_up", "num_sessions", "expected"),
    [
        (4270, "batch", 28, 28),
        (4270, "batch", 32, 0),
        (4396, "batch", 30, 0),
        (4396, "batch", 31, 0),
        (4396, "sequential", 29, 29),
        (4396, "sequential", 31, 0),
    ],
)
def test_with_every_snapshot_the_study_s_points_come_out(
    pool_blocks, warm_up, num_sessions, expected
):
    assert kept(pool_blocks, num_sessions, warm_up, EVERY) == expected


def test_the_one_point_that_differs_comes_from_the_order_in_which_freed_blocks_are_reused(
    monkeypatch,
):
    from vllm.v1.core.block_pool import BlockPool

    assert kept(4396, 29, "batch", EVERY) == 29

    def free_as_in_0_17(self, ordered_blocks):
        blocks = list(ordered_blocks)
        for block in blocks:
            block.ref_cnt -= 1
        self.free_block_queue.append_n(
            [block for block in blocks if block.ref_cnt == 0 and not block.is_null]
        )

    monkeypatch.setattr(BlockPool, "free_blocks", free_as_in_0_17)
    assert kept(4396, 29, "batch", EVERY) == 0  # as in the study


def test_keeping_only_the_latest_snapshot_moves_the_cliff_up():
    assert kept(4270, 30, "batch", LATEST) == 30
    assert kept(4270, 32, "batch", LATEST) == 0


def test_a_batch_warm_up_cuts_prompts_into_more_pieces_than_one_after_the_other():
    batch = run_cell(Cell(4396, 12, "batch", retention_tokens=EVERY, num_rounds=1))
    sequential = run_cell(Cell(4396, 12, "sequential", retention_tokens=EVERY, num_rounds=1))
    assert batch.prefill_pieces > sequential.prefill_pieces
    # One piece a step, and the tail behind the last whole block.
    assert sequential.prefill_pieces == prefill_snapshots(100_000, 784, 16_384) + 1


@pytest.mark.parametrize(
    ("pool", "context_tokens", "step_tokens"),
    [
        (KvPool(4270, 784, 3), 100_000, 8_192),
        (KvPool(4270, 784, 3), 100_000, 32_768),
        (KvPool(1000, 784, 3), 60_000, 8_192),
        (KvPool(800, 256, 1), 20_000, 2_048),
        (KvPool(1200, 64, 0), 8_000, 2_048),
    ],
)
def test_the_planner_s_count_survives_and_is_at_most_one_session_too_careful(
    pool, context_tokens, step_tokens
):
    snapshots = prefill_snapshots(context_tokens, pool.block_tokens, step_tokens)
    count = sessions_that_fit(pool, session_blocks(pool, context_tokens, snapshots))

    def survives(num_sessions):
        outcome = run_cell(
            Cell(
                pool.num_blocks,
                num_sessions,
                "sequential",
                step_tokens=step_tokens,
                retention_tokens=EVERY,
                block_tokens=pool.block_tokens,
                num_state_groups=pool.num_state_groups,
                context_tokens=context_tokens,
                new_tokens=1,
                num_rounds=1,
            )
        )
        return outcome.survival

    assert survives(count) == 1.0
    assert survives(count + 2) < 1.0


@pytest.mark.parametrize(
    ("retention_tokens", "num_state_groups", "is_output_kept"),
    [(LATEST, 3, False), (EVERY, 3, True), (LATEST, 0, True)],
)
def test_a_block_that_the_output_fills_is_found_again_unless_its_state_was_dropped(
    retention_tokens, num_state_groups, is_output_kept
):
    block_tokens, prompt_tokens, output_tokens = 784, 784 * 4 - 50, 100
    engine = SchedulerOnlyEngine(
        EngineSettings(
            KvPool(100, block_tokens, num_state_groups), retention_tokens=retention_tokens
        )
    )
    blocks = SessionBlocks("robot", block_tokens)
    engine.add(Turn("first", prompt_tokens, output_tokens, blocks))
    engine.run()
    history = prompt_tokens + output_tokens
    engine.add(Turn("second", history + 500, 1, blocks))
    (second,) = engine.run()

    last_of_prompt = full_prefix_boundary(prompt_tokens, block_tokens)
    last_of_output = full_prefix_boundary(history, block_tokens)
    assert (last_of_prompt, last_of_output) == (784 * 3, 784 * 4)
    assert second.cached_tokens == (last_of_output if is_output_kept else last_of_prompt)


def test_a_step_computes_no_token_twice_and_never_more_than_its_limit():
    engine = SchedulerOnlyEngine(
        EngineSettings(KvPool(200, 64, 1), step_tokens=512, max_sequences=4)
    )
    turns = {
        f"t{index}": Turn(f"t{index}", 700 + 90 * index, 5, SessionBlocks(f"s{index}", 64))
        for index in range(6)
    }
    for turn in turns.values():
        engine.add(turn)
    position = dict.fromkeys(turns, 0)
    ended = []
    while engine.num_turns:
        step = engine.step()
        assert sum(piece.end - piece.start for piece in step.scheduled) <= 512
        assert engine.num_running <= 4
        for piece in step.scheduled:
            assert piece.start == position[piece.name]
            position[piece.name] = piece.end
        ended += [turn.name for turn in step.finished]
    assert sorted(ended) == sorted(turns)
    for turn in turns.values():
        # The last token is sampled and never computed.
        assert position[turn.name] == turn.num_prompt_tokens + turn.num_output_tokens - 1


def test_a_turn_larger_than_the_pool_is_an_error_with_its_size():
    engine = SchedulerOnlyEngine(EngineSettings(KvPool(20, 64, 0), step_tokens=512))
    engine.add(Turn("large", 64 * 40, 1, SessionBlocks("large", 64)))
    with pytest.raises(EngineStuckError, match="got 20"):
        engine.run()

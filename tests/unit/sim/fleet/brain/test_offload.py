"""Host memory gives back what it holds, forgets what is oldest, and takes time for both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.errors import InvalidArgumentError
from server.capacity.engine import EngineSettings, ScheduledTokens, SessionBlocks, Turn
from server.core.capacity import KvPool
from sim.fleet.brain.offload import HostMemory, block_megabytes
from sim.fleet.replay.settings import OffloadChoice

ENGINE = EngineSettings(KvPool(100, 10, num_state_groups=2))


def host(host_blocks=100, gigabytes_per_s=1.0, engine=ENGINE):
    """A block takes 1 ms to copy."""
    return HostMemory(OffloadChoice(host_blocks, gigabytes_per_s, block_megabytes=1.0), engine)


def turn(session, num_prompt_tokens, name="t"):
    return Turn(name, num_prompt_tokens, 5, session)


def prefill(start, end, name="t"):
    return ScheduledTokens(name, start, end, is_prefill=True)


def test_a_prefix_that_has_left_the_pool_is_loaded_up_to_its_last_whole_block():
    memory, session = host(), SessionBlocks("s", 10)
    memory.end(turn(session, 57), now_s=0.0)
    memory.start(turn(session, 80), cached_tokens=0)

    computed, num_blocks = memory.split((prefill(0, 80),))

    assert computed == [prefill(50, 80)]
    assert num_blocks == 5 + 2
    assert memory.loaded_tokens(turn(session, 80)) == 50


@pytest.mark.parametrize(("retention_tokens", "loaded"), [(0, 50), (None, 60)])
def test_an_output_comes_back_only_if_the_engine_keeps_states_within_it(retention_tokens, loaded):
    engine = EngineSettings(ENGINE.pool, retention_tokens=retention_tokens)
    memory, session = host(engine=engine), SessionBlocks("s", 10)
    memory.end(Turn("t", 57, 5, session), now_s=0.0)
    memory.start(turn(session, 80), cached_tokens=0)
    assert memory.loaded_tokens(turn(session, 80)) == loaded


def test_what_the_pool_still_has_is_not_loaded():
    memory, session = host(), SessionBlocks("s", 10)
    memory.end(turn(session, 57), now_s=0.0)
    memory.start(turn(session, 80), cached_tokens=50)
    assert memory.split((prefill(50, 80),)) == ([prefill(50, 80)], 0)


def test_a_load_that_is_cut_into_steps_loads_every_block_once():
    memory, session = host(), SessionBlocks("s", 10)
    memory.end(turn(session, 91), now_s=0.0)
    memory.start(turn(session, 120), cached_tokens=20)
    pieces = [prefill(20, 60), prefill(60, 100), prefill(100, 120)]
    split = [memory.split((piece,)) for piece in pieces]
    assert [num_blocks for _, num_blocks in split] == [4, 3 + 2, 0]
    assert [computed for computed, _ in split] == [[], [prefill(90, 100)], [prefill(100, 120)]]


def test_the_session_used_longest_ago_is_forgotten_first():
    memory = host(host_blocks=20)  # 5 blocks and 2 states each: two sessions
    sessions = [SessionBlocks(str(number), 10) for number in range(3)]
    for session in sessions[:2]:
        memory.end(turn(session, 51), now_s=0.0)
    memory.start(turn(sessions[0], 60, "used"), cached_tokens=0)
    memory.end(turn(sessions[2], 51), now_s=0.0)

    for number, session in enumerate(sessions):
        memory.start(turn(session, 60, str(number)), cached_tokens=0)
    loaded = [memory.loaded_tokens(turn(s, 60, str(n))) for n, s in enumerate(sessions)]
    assert loaded == [50, 0, 50]


def test_a_session_larger_than_host_memory_is_not_kept():
    memory, session = host(host_blocks=6), SessionBlocks("s", 10)
    memory.end(turn(session, 51), now_s=0.0)
    assert memory.num_sessions == 0


def test_a_refresh_that_ends_behind_a_longer_turn_takes_nothing_out_of_host_memory():
    memory, session = host(), SessionBlocks("s", 10)
    memory.end(turn(session, 57), now_s=0.0)
    memory.end(turn(session, 97), now_s=1.0)
    memory.end(Turn("refresh", 51, 1, session), now_s=2.0)
    memory.start(turn(session, 120), cached_tokens=0)

    assert memory.loaded_tokens(turn(session, 120)) == 90


def test_a_refresh_computes_nothing_that_would_have_to_be_copied():
    memory, session = host(), SessionBlocks("s", 10)
    memory.end(turn(session, 57), now_s=0.0)
    memory.end(Turn("refresh", 51, 1, session), now_s=10.0)

    assert memory.copy_s(0, now_s=10.0) == 0.0


def test_copies_wait_for_each_other_on_one_link():
    memory = host()
    assert memory.copy_s(10, now_s=0.0) == pytest.approx(0.010)
    assert memory.copy_s(10, now_s=0.005) == pytest.approx(0.015)
    assert memory.copy_s(10, now_s=1.0) == pytest.approx(0.010)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 300)), max_size=60))
def test_it_never_holds_more_than_it_has_room_for(turns):
    memory = host(host_blocks=40)
    sessions = [SessionBlocks(str(number), 10) for number in range(9)]
    for number, num_tokens in turns:
        memory.end(turn(sessions[number], num_tokens), now_s=0.0)
        held = [memory._blocks(tokens) for tokens in memory._sessions.values()]
        assert sum(held) == memory._used_blocks <= 40


@pytest.mark.parametrize(
    "choice",
    [
        OffloadChoice(-1, 50.0, 51.4),
        OffloadChoice(100, 0.0, 51.4),
        OffloadChoice(100, float("nan"), 51.4),
        OffloadChoice(100, 50.0, -51.4),
    ],
)
def test_sizes_and_speeds_out_of_range_are_refused(choice):
    with pytest.raises(InvalidArgumentError, match="out of range"):
        HostMemory(choice, ENGINE)


def test_a_block_of_qwen36_27b_has_51_megabytes():
    assert block_megabytes() == pytest.approx(51.38, abs=0.01)

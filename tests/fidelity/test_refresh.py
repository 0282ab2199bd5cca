"""A request of one token on a prefix keeps it in vLLM's own block pool."""

from __future__ import annotations

import pytest

from server.capacity.engine import EngineSettings, SchedulerOnlyEngine, SessionBlocks, Turn, library
from server.core.capacity import KvPool
from server.core.residency import full_prefix_boundary

pytest.importorskip("vllm", reason="vLLM is not installed; see `make setup`")

pytestmark = [
    pytest.mark.vllm,
    # vLLM and what it imports warn about themselves.
    pytest.mark.filterwarnings("ignore"),
]

BLOCK_TOKENS = 64
PROMPT_TOKENS = 20 * BLOCK_TOKENS + 10
OUTPUT_TOKENS = 30


@pytest.fixture(scope="module")
def vllm():
    return library.load()


class Sessions:
    """One session whose prefix is looked at, and others that pass by."""

    def __init__(self, vllm, num_state_groups, retention_tokens):
        settings = EngineSettings(
            KvPool(100, BLOCK_TOKENS, num_state_groups),
            step_tokens=2048,
            max_sequences=4,
            max_context_tokens=4096,
            retention_tokens=retention_tokens,
        )
        self.engine = SchedulerOnlyEngine(settings, vllm)
        self.blocks = SessionBlocks("kept", BLOCK_TOKENS)
        self.num_others = 0
        self.boundary = full_prefix_boundary(
            PROMPT_TOKENS + OUTPUT_TOKENS,
            BLOCK_TOKENS,
            prompt_tokens=PROMPT_TOKENS,
            snapshot_interval_tokens=settings.snapshot_interval_tokens,
        )

    def turn(self, name, prompt_tokens, output_tokens, blocks=None):
        self.engine.add(Turn(name, prompt_tokens, output_tokens, blocks or self.blocks))
        (finished,) = self.engine.run()
        return finished.cached_tokens

    def others_pass_by(self, num):
        for _ in range(num):
            self.num_others += 1
            name = f"other-{self.num_others}"
            blocks = SessionBlocks(name, BLOCK_TOKENS)
            self.turn(name, PROMPT_TOKENS, OUTPUT_TOKENS, blocks)

    def found_after(self, *, refreshes):
        """Cached tokens of the second turn, with four times two sessions before it."""
        self.turn("first", PROMPT_TOKENS, OUTPUT_TOKENS)
        for number in range(4):
            self.others_pass_by(2)
            if refreshes:
                cached = self.turn(f"refresh-{number}", self.boundary + 1, 1)
                assert cached == self.boundary
        return self.turn("second", PROMPT_TOKENS + OUTPUT_TOKENS + 40, 5)


@pytest.mark.parametrize("num_state_groups", [0, 2])
@pytest.mark.parametrize("retention_tokens", [None, 0])
def test_a_refreshed_prefix_survives_what_pushes_out_others(
    vllm, num_state_groups, retention_tokens
):
    def sessions():
        return Sessions(vllm, num_state_groups, retention_tokens)

    assert sessions().found_after(refreshes=False) < sessions().boundary
    assert sessions().found_after(refreshes=True) == sessions().boundary


def test_the_state_behind_a_prompt_can_be_refreshed_while_its_turn_still_generates(vllm):
    found = []
    for refreshes in (False, True):
        sessions = Sessions(vllm, 2, 0)
        engine = sessions.engine
        engine.add(Turn("long", PROMPT_TOKENS, 1000, sessions.blocks))
        engine.step()
        for number in range(6):
            name = f"passer-by-{number}"
            engine.add(Turn(name, PROMPT_TOKENS, 2, SessionBlocks(name, BLOCK_TOKENS)))
            if refreshes:
                refresh = Turn(f"refresh-{number}", sessions.boundary + 1, 1, sessions.blocks)
                engine.add(refresh)
            for _ in range(6):
                engine.step()
        engine.run()
        found.append(sessions.turn("second", PROMPT_TOKENS + 1040, 5))

    assert found == [0, sessions.boundary]

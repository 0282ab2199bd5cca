"""What a refresh touches and tells, against vLLM's own scheduler, by kind of snapshot."""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass, field

import pytest

from server.brain.vllm_engine.seen_prefix import SeenPrefix, touch_of
from server.capacity.engine import EngineSettings, SchedulerOnlyEngine, SessionBlocks, Turn
from server.core.capacity import KvPool
from server.core.residency import full_prefix_boundary

pytest.importorskip("vllm", reason="vLLM is not installed; see `make setup`")

pytestmark = [
    pytest.mark.vllm,
    # vLLM and what it imports warn about themselves.
    pytest.mark.filterwarnings("ignore"),
]

BLOCK = 16
#: Groups with a state, and vLLM's prefix_cache_retention_interval.
KINDS = [(0, None), (0, 0), (3, None), (3, 0), (3, 4 * BLOCK), (3, 10 * BLOCK)]
LARGE_POOL = 20_000
#: By number of groups with a state, which need room of their own.
SMALL_POOL = {0: 50, 3: 100}


@dataclass
class Session:
    """One conversation at an engine."""

    engine: SchedulerOnlyEngine
    name: str
    prompt_tokens: int = 0
    num_tokens: int = 0
    refreshes: int = 0
    blocks: SessionBlocks = field(init=False)

    def __post_init__(self) -> None:
        self.blocks = SessionBlocks(self.name, BLOCK)

    @property
    def boundary_tokens(self) -> int:
        """What the next turn finds if nobody disturbs it."""
        return full_prefix_boundary(
            self.num_tokens,
            BLOCK,
            prompt_tokens=self.prompt_tokens,
            snapshot_interval_tokens=self.engine.settings.snapshot_interval_tokens,
        )

    def take_turn(self, num_new: int, num_output: int) -> bool:
        """Whether it found its whole prefix."""
        boundary = self.boundary_tokens
        self.prompt_tokens = self.num_tokens + num_new
        self.num_tokens = self.prompt_tokens + num_output
        self.engine.add(Turn(self.name, self.prompt_tokens, num_output, self.blocks))
        (turn,) = self.engine.run()
        return turn.cached_tokens >= boundary

    def refresh(self) -> tuple[bool, int]:
        """Whether it found the whole prefix, and the tokens that it computed."""
        ids = array("i", bytes(4 * self.num_tokens))
        seen = SeenPrefix(ids, (), self.prompt_tokens, self.num_tokens)
        touch = touch_of(seen, BLOCK, self.engine.settings.snapshot_interval_tokens, None)
        assert touch is not None
        self.refreshes += 1
        name = f"{self.name} refresh {self.refreshes}"
        self.engine.add(Turn(name, len(touch.token_ids), 1, self.blocks))
        (turn,) = self.engine.run()
        computed = turn.num_prompt_tokens - turn.cached_tokens
        return turn.cached_tokens >= touch.boundary_tokens, computed


def new_engine(kind: tuple[int, int | None], pool_blocks: int) -> SchedulerOnlyEngine:
    num_state_groups, retention_tokens = kind
    return SchedulerOnlyEngine(
        EngineSettings(
            KvPool(pool_blocks, BLOCK, num_state_groups),
            step_tokens=5 * BLOCK,
            retention_tokens=retention_tokens,
            max_sequences=4,
            max_context_tokens=400 * BLOCK,
        )
    )


@pytest.mark.parametrize("kind", KINDS)
def test_an_undisturbed_refresh_computes_one_token_and_takes_nothing_from_the_next_turn(kind):
    rng = random.Random(1)
    engine = new_engine(kind, LARGE_POOL)
    for number in range(12):
        session = Session(engine, f"robot {number}")
        for _ in range(5):
            num_output = rng.choice([1, 2, BLOCK, BLOCK + 1, rng.randint(1, 12 * BLOCK)])
            assert session.take_turn(rng.randint(BLOCK + 1, 9 * BLOCK), num_output)
            for _ in range(rng.randint(0, 2)):
                assert session.refresh() == (True, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_refresh_tells_exactly_whether_the_next_turn_would_have_found_its_prefix(kind):
    lost = 0
    for seed in range(30):
        found = []
        for with_refresh in (False, True):
            # The same both times, up to the last request.
            rng = random.Random(seed)
            engine = new_engine(kind, SMALL_POOL[kind[0]])
            session = Session(engine, "waiting")
            for _ in range(2):
                session.take_turn(rng.randint(BLOCK + 1, 12 * BLOCK), rng.randint(1, 4 * BLOCK))
            for number in range(rng.randint(0, 9)):
                Session(engine, f"other {number}").take_turn(rng.randint(1, 16 * BLOCK), 3)
            found.append(session.refresh()[0] if with_refresh else session.take_turn(5, 1))
        assert found[0] == found[1]
        lost += not found[0]
    assert 5 <= lost <= 25


@pytest.mark.parametrize("kind", KINDS)
def test_a_refreshed_prefix_outlives_what_was_used_after_its_turn(kind):
    def is_kept(*num_others: int) -> bool:
        """After so many others, with a refresh between each two numbers."""
        engine = new_engine(kind, 100)
        session = Session(engine, "waiting")
        session.take_turn(20 * BLOCK + 5, 2 * BLOCK)
        for part, num in enumerate(num_others):
            if part:
                assert session.refresh() == (True, 1)
            for number in range(num):
                Session(engine, f"other {part} {number}").take_turn(4 * BLOCK, 3)
        return session.take_turn(5, 1)

    too_many = next(num for num in range(100) if not is_kept(num))

    # Each refresh lets it outlive as many again.
    assert too_many > 4
    assert is_kept(too_many - 1, too_many - 1, too_many - 1)

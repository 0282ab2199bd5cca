"""What the ledger calls a hit, against what vLLM's own scheduler keeps, by kind of snapshot."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from robot_sdk.messages import TokenUsage
from server.capacity.engine import EngineSettings, SchedulerOnlyEngine, SessionBlocks, Turn
from server.core.capacity import KvPool
from server.core.residency import PrefixLedger, PrefixOutcome

pytest.importorskip("vllm", reason="vLLM is not installed; see `make setup`")

pytestmark = [
    pytest.mark.vllm,
    # vLLM and what it imports warn about themselves.
    pytest.mark.filterwarnings("ignore"),
]

BLOCK = 16
EVERY, LATEST = None, 0
#: Groups with a state, and vLLM's prefix_cache_retention_interval.
KINDS = [
    (0, EVERY),
    (0, LATEST),
    (3, EVERY),
    (3, LATEST),
    (3, BLOCK),
    (3, 4 * BLOCK),
    (3, 10 * BLOCK),
]
LARGE_POOL = 20_000
NUM_SESSIONS = 8
#: A session that has become so long is replaced by a new one.
LONGEST_TOKENS = 60 * BLOCK


@dataclass(frozen=True)
class Visit:
    """One turn to come, and those that run beside it: `step` tells them apart."""

    step: int
    session: str
    num_new: int
    num_output: int


@dataclass(frozen=True)
class Counted:
    """What became of a visit."""

    outcome: PrefixOutcome
    cached_tokens: int
    least_computed_tokens: int
    prompt_tokens: int


def random_visits(seed: int, num_steps: int, most_at_once: int) -> list[Visit]:
    """Turns around the edges of a block and anywhere else, in random order of sessions."""
    rng = random.Random(seed)
    lengths: dict[str, int] = {f"robot {n}": 0 for n in range(NUM_SESSIONS)}
    visits = []
    for step in range(num_steps):
        for session in rng.sample(sorted(lengths), rng.randint(1, most_at_once)):
            num_new = rng.choice([1, 2, BLOCK - 1, BLOCK, BLOCK + 1, rng.randint(1, 9 * BLOCK)])
            num_output = rng.choice([1, 2, BLOCK, BLOCK + 1, rng.randint(1, 5 * BLOCK)])
            visits.append(Visit(step, session, num_new, num_output))
            lengths[session] += num_new + num_output
            if lengths[session] > LONGEST_TOKENS:
                del lengths[session]
                lengths[f"robot {len(visits)} of step {step}"] = 0
    return visits


def play(
    visits: list[Visit], pool_blocks: int, num_state_groups: int, retention_tokens: int | None
) -> Iterator[Counted]:
    """The visits on vLLM's scheduler, counted by a ledger that knows only what turns tell."""
    engine = SchedulerOnlyEngine(
        EngineSettings(
            KvPool(pool_blocks, BLOCK, num_state_groups),
            step_tokens=5 * BLOCK,
            retention_tokens=retention_tokens,
            max_sequences=4,
            max_context_tokens=4 * LONGEST_TOKENS,
        )
    )
    ledger = PrefixLedger()
    ledger.set_pool(pool_blocks, BLOCK, engine.settings.snapshot_interval_tokens)
    blocks: dict[str, SessionBlocks] = {}
    lengths: Counter[str] = Counter()
    for step in range(visits[-1].step + 1):
        now = {visit.session: visit for visit in visits if visit.step == step}
        for session, visit in now.items():
            own = blocks.setdefault(session, SessionBlocks(session, BLOCK))
            engine.add(Turn(session, lengths[session] + visit.num_new, visit.num_output, own))
            ledger.begin_episode(session, "")
        cached = {turn.name: turn.cached_tokens for turn in engine.run()}
        for session, visit in now.items():
            prompt_tokens = lengths[session] + visit.num_new
            usage = TokenUsage(
                input_tokens=prompt_tokens,
                cached_tokens=cached[session],
                output_tokens=visit.num_output,
                new_tokens=visit.num_new,
            )
            lengths[session] = prompt_tokens + visit.num_output
            counted = ledger.record_turn(session, usage, float(step))
            assert counted is not None
            least = counted.footprint.least_computed_tokens
            yield Counted(counted.outcome, cached[session], least, prompt_tokens)


@pytest.mark.parametrize(("num_state_groups", "retention_tokens"), KINDS)
@pytest.mark.parametrize("most_at_once", [1, 3])
def test_a_turn_whose_prefix_nobody_disturbed_finds_exactly_what_the_rule_says(
    num_state_groups, retention_tokens, most_at_once
):
    visits = random_visits(seed=1, num_steps=240 // most_at_once, most_at_once=most_at_once)
    outcomes: Counter[PrefixOutcome] = Counter()
    for turn in play(visits, LARGE_POOL, num_state_groups, retention_tokens):
        outcomes[turn.outcome] += 1
        if turn.outcome is not PrefixOutcome.FIRST:
            assert turn.prompt_tokens - turn.cached_tokens == turn.least_computed_tokens
    assert outcomes[PrefixOutcome.HIT] > 100
    assert outcomes[PrefixOutcome.MISS] == 0


@pytest.mark.parametrize(("num_state_groups", "retention_tokens"), KINDS)
def test_a_turn_is_a_miss_exactly_if_it_found_less_than_it_would_have_found_undisturbed(
    num_state_groups, retention_tokens
):
    visits = random_visits(seed=2, num_steps=240, most_at_once=1)
    # Large enough for any one turn, and for about half of the sessions.
    small_pool = 4 * LONGEST_TOKENS // BLOCK
    undisturbed = play(visits, LARGE_POOL, num_state_groups, retention_tokens)
    crowded = play(visits, small_pool, num_state_groups, retention_tokens)
    lost: Counter[bool] = Counter()
    for healthy, turn in zip(undisturbed, crowded, strict=True):
        assert healthy.outcome is not PrefixOutcome.MISS
        if healthy.outcome is not PrefixOutcome.HIT:
            assert turn.outcome is healthy.outcome
            continue
        is_lost = turn.cached_tokens < healthy.cached_tokens
        lost[is_lost] += 1
        assert turn.outcome is (PrefixOutcome.MISS if is_lost else PrefixOutcome.HIT)
    assert min(lost[True], lost[False]) > 20
